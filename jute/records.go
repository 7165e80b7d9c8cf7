// Code generated from schema.txt by internal/gen; DO NOT EDIT.

package jute

// ID names one identity: a scheme and what the scheme calls it (org.apache.zookeeper.data.Id).
type ID struct {
	Scheme string
	ID     string
	Nulls  Nulls
}

// Append adds the encoding of r to b.
func (r *ID) Append(b []byte) []byte {
	b = AppendUstring(b, r.Scheme, r.Nulls, 0)
	b = AppendUstring(b, r.ID, r.Nulls, 1)
	return b
}

// appendEcho is Append with text as Java writes it.
func (r *ID) appendEcho(b []byte) []byte {
	b = appendEcho(b, r.Scheme, r.Nulls, 0)
	b = appendEcho(b, r.ID, r.Nulls, 1)
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *ID) Decode(d *Decoder) {
	r.Nulls = 0
	r.Scheme = d.Ustring(&r.Nulls, 0)
	r.ID = d.Ustring(&r.Nulls, 1)
}

// ACL grants permissions to an identity.
type ACL struct {
	Perms Perms
	ID    ID
}

// minACLBytes is the size of the smallest encoding of an ACL.
const minACLBytes = 12

// Append adds the encoding of r to b.
func (r *ACL) Append(b []byte) []byte {
	b = AppendInt(b, int32(r.Perms))
	b = r.ID.Append(b)
	return b
}

// appendEcho is Append with text as Java writes it.
func (r *ACL) appendEcho(b []byte) []byte {
	b = AppendInt(b, int32(r.Perms))
	b = r.ID.appendEcho(b)
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *ACL) Decode(d *Decoder) {
	r.Perms = Perms(d.Int())
	r.ID.Decode(d)
}

// Stat describes a znode, 68 bytes on the wire.
type Stat struct {
	Czxid          Zxid
	Mzxid          Zxid
	Ctime          Millis
	Mtime          Millis
	Version        Version
	Cversion       Version
	Aversion       Version
	EphemeralOwner SessionID
	DataLength     int32
	NumChildren    int32
	Pzxid          Zxid
}

// Append adds the encoding of r to b.
func (r *Stat) Append(b []byte) []byte {
	b = AppendLong(b, int64(r.Czxid))
	b = AppendLong(b, int64(r.Mzxid))
	b = AppendLong(b, int64(r.Ctime))
	b = AppendLong(b, int64(r.Mtime))
	b = AppendInt(b, int32(r.Version))
	b = AppendInt(b, int32(r.Cversion))
	b = AppendInt(b, int32(r.Aversion))
	b = AppendLong(b, int64(r.EphemeralOwner))
	b = AppendInt(b, r.DataLength)
	b = AppendInt(b, r.NumChildren)
	b = AppendLong(b, int64(r.Pzxid))
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *Stat) Decode(d *Decoder) {
	r.Czxid = Zxid(d.Long())
	r.Mzxid = Zxid(d.Long())
	r.Ctime = Millis(d.Long())
	r.Mtime = Millis(d.Long())
	r.Version = Version(d.Int())
	r.Cversion = Version(d.Int())
	r.Aversion = Version(d.Int())
	r.EphemeralOwner = SessionID(d.Long())
	r.DataLength = d.Int()
	r.NumChildren = d.Int()
	r.Pzxid = Zxid(d.Long())
}

// ConnectRequest is the first frame of a connection. Clients before 3.4 and go-zookeeper leave ReadOnly out.
type ConnectRequest struct {
	ProtocolVersion int32
	LastZxidSeen    Zxid
	TimeoutMillis   int32
	SessionID       SessionID
	Passwd          []byte
	ReadOnly        bool
	HasReadOnly     bool // the frame holds ReadOnly
}

// Append adds the encoding of r to b.
func (r *ConnectRequest) Append(b []byte) []byte {
	b = AppendInt(b, r.ProtocolVersion)
	b = AppendLong(b, int64(r.LastZxidSeen))
	b = AppendInt(b, r.TimeoutMillis)
	b = AppendLong(b, int64(r.SessionID))
	b = AppendBuffer(b, r.Passwd)
	if r.HasReadOnly {
		b = AppendBool(b, r.ReadOnly)
	}
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *ConnectRequest) Decode(d *Decoder) {
	r.ProtocolVersion = d.Int()
	r.LastZxidSeen = Zxid(d.Long())
	r.TimeoutMillis = d.Int()
	r.SessionID = SessionID(d.Long())
	r.Passwd = d.Buffer()
	r.HasReadOnly = d.err == nil && d.pos < len(d.buf)
	r.ReadOnly = r.HasReadOnly && d.Bool()
}

// ConnectResponse answers a ConnectRequest, with ReadOnly if the request had it. All zero refuses the session.
type ConnectResponse struct {
	ProtocolVersion int32
	TimeoutMillis   int32
	SessionID       SessionID
	Passwd          []byte
	ReadOnly        bool
	HasReadOnly     bool // the frame holds ReadOnly
}

// Append adds the encoding of r to b.
func (r *ConnectResponse) Append(b []byte) []byte {
	b = AppendInt(b, r.ProtocolVersion)
	b = AppendInt(b, r.TimeoutMillis)
	b = AppendLong(b, int64(r.SessionID))
	b = AppendBuffer(b, r.Passwd)
	if r.HasReadOnly {
		b = AppendBool(b, r.ReadOnly)
	}
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *ConnectResponse) Decode(d *Decoder) {
	r.ProtocolVersion = d.Int()
	r.TimeoutMillis = d.Int()
	r.SessionID = SessionID(d.Long())
	r.Passwd = d.Buffer()
	r.HasReadOnly = d.err == nil && d.pos < len(d.buf)
	r.ReadOnly = r.HasReadOnly && d.Bool()
}

// RequestHeader begins every request after the handshake.
type RequestHeader struct {
	Xid Xid
	Op  Op
}

// Append adds the encoding of r to b.
func (r *RequestHeader) Append(b []byte) []byte {
	b = AppendInt(b, int32(r.Xid))
	b = AppendInt(b, int32(r.Op))
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *RequestHeader) Decode(d *Decoder) {
	r.Xid = Xid(d.Int())
	r.Op = Op(d.Int())
}

// ReplyHeader begins every reply and event.
type ReplyHeader struct {
	Xid  Xid
	Zxid Zxid
	Err  Code
}

// Append adds the encoding of r to b.
func (r *ReplyHeader) Append(b []byte) []byte {
	b = AppendInt(b, int32(r.Xid))
	b = AppendLong(b, int64(r.Zxid))
	b = AppendInt(b, int32(r.Err))
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *ReplyHeader) Decode(d *Decoder) {
	r.Xid = Xid(d.Int())
	r.Zxid = Zxid(d.Long())
	r.Err = Code(d.Int())
}

// CreateRequest asks for create, create2 and createContainer.
type CreateRequest struct {
	Path  string
	Data  []byte
	ACL   []ACL
	Flags CreateMode
	Nulls Nulls
}

// Append adds the encoding of r to b.
func (r *CreateRequest) Append(b []byte) []byte {
	b = AppendUstring(b, r.Path, r.Nulls, 0)
	b = AppendBuffer(b, r.Data)
	if r.ACL == nil {
		b = AppendInt(b, -1)
	} else {
		b = AppendInt(b, int32(len(r.ACL)))
	}
	for i := range r.ACL {
		b = r.ACL[i].Append(b)
	}
	b = AppendInt(b, int32(r.Flags))
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *CreateRequest) Decode(d *Decoder) {
	r.Nulls = 0
	r.Path = d.Ustring(&r.Nulls, 0)
	r.Data = d.Buffer()
	if n := d.count(minACLBytes); n < 0 {
		r.ACL = nil
	} else {
		r.ACL = reuse(r.ACL, n)
		for i := range r.ACL {
			r.ACL[i].Decode(d)
		}
	}
	r.Flags = CreateMode(d.Int())
}

// CreateTTLRequest asks for createTTL. TTL is in milliseconds.
type CreateTTLRequest struct {
	Path  string
	Data  []byte
	ACL   []ACL
	Flags CreateMode
	TTL   Millis
	Nulls Nulls
}

// Append adds the encoding of r to b.
func (r *CreateTTLRequest) Append(b []byte) []byte {
	b = AppendUstring(b, r.Path, r.Nulls, 0)
	b = AppendBuffer(b, r.Data)
	if r.ACL == nil {
		b = AppendInt(b, -1)
	} else {
		b = AppendInt(b, int32(len(r.ACL)))
	}
	for i := range r.ACL {
		b = r.ACL[i].Append(b)
	}
	b = AppendInt(b, int32(r.Flags))
	b = AppendLong(b, int64(r.TTL))
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *CreateTTLRequest) Decode(d *Decoder) {
	r.Nulls = 0
	r.Path = d.Ustring(&r.Nulls, 0)
	r.Data = d.Buffer()
	if n := d.count(minACLBytes); n < 0 {
		r.ACL = nil
	} else {
		r.ACL = reuse(r.ACL, n)
		for i := range r.ACL {
			r.ACL[i].Decode(d)
		}
	}
	r.Flags = CreateMode(d.Int())
	r.TTL = Millis(d.Long())
}

// CreateResponse answers create.
type CreateResponse struct {
	Path  string
	Nulls Nulls
}

// Append adds the encoding of r to b.
func (r *CreateResponse) Append(b []byte) []byte {
	b = AppendUstring(b, r.Path, r.Nulls, 0)
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *CreateResponse) Decode(d *Decoder) {
	r.Nulls = 0
	r.Path = d.Ustring(&r.Nulls, 0)
}

// Create2Response answers create2, createContainer and createTTL.
type Create2Response struct {
	Path  string
	Stat  Stat
	Nulls Nulls
}

// Append adds the encoding of r to b.
func (r *Create2Response) Append(b []byte) []byte {
	b = AppendUstring(b, r.Path, r.Nulls, 0)
	b = r.Stat.Append(b)
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *Create2Response) Decode(d *Decoder) {
	r.Nulls = 0
	r.Path = d.Ustring(&r.Nulls, 0)
	r.Stat.Decode(d)
}

// PathVersionRequest asks for delete, and inside a multi for check.
type PathVersionRequest struct {
	Path    string
	Version Version
	Nulls   Nulls
}

// Append adds the encoding of r to b.
func (r *PathVersionRequest) Append(b []byte) []byte {
	b = AppendUstring(b, r.Path, r.Nulls, 0)
	b = AppendInt(b, int32(r.Version))
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *PathVersionRequest) Decode(d *Decoder) {
	r.Nulls = 0
	r.Path = d.Ustring(&r.Nulls, 0)
	r.Version = Version(d.Int())
}

// PathWatchRequest asks for exists, getData, getChildren and getChildren2.
type PathWatchRequest struct {
	Path  string
	Watch bool
	Nulls Nulls
}

// Append adds the encoding of r to b.
func (r *PathWatchRequest) Append(b []byte) []byte {
	b = AppendUstring(b, r.Path, r.Nulls, 0)
	b = AppendBool(b, r.Watch)
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *PathWatchRequest) Decode(d *Decoder) {
	r.Nulls = 0
	r.Path = d.Ustring(&r.Nulls, 0)
	r.Watch = d.Bool()
}

// PathRequest asks for getACL, sync, getAllChildrenNumber and deleteContainer; getEphemerals has its prefix in it.
type PathRequest struct {
	Path  string
	Nulls Nulls
}

// Append adds the encoding of r to b.
func (r *PathRequest) Append(b []byte) []byte {
	b = AppendUstring(b, r.Path, r.Nulls, 0)
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *PathRequest) Decode(d *Decoder) {
	r.Nulls = 0
	r.Path = d.Ustring(&r.Nulls, 0)
}

// SetDataRequest asks for setData.
type SetDataRequest struct {
	Path    string
	Data    []byte
	Version Version
	Nulls   Nulls
}

// Append adds the encoding of r to b.
func (r *SetDataRequest) Append(b []byte) []byte {
	b = AppendUstring(b, r.Path, r.Nulls, 0)
	b = AppendBuffer(b, r.Data)
	b = AppendInt(b, int32(r.Version))
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *SetDataRequest) Decode(d *Decoder) {
	r.Nulls = 0
	r.Path = d.Ustring(&r.Nulls, 0)
	r.Data = d.Buffer()
	r.Version = Version(d.Int())
}

// SetACLRequest asks for setACL. Version is the expected aversion.
type SetACLRequest struct {
	Path    string
	ACL     []ACL
	Version Version
	Nulls   Nulls
}

// Append adds the encoding of r to b.
func (r *SetACLRequest) Append(b []byte) []byte {
	b = AppendUstring(b, r.Path, r.Nulls, 0)
	if r.ACL == nil {
		b = AppendInt(b, -1)
	} else {
		b = AppendInt(b, int32(len(r.ACL)))
	}
	for i := range r.ACL {
		b = r.ACL[i].Append(b)
	}
	b = AppendInt(b, int32(r.Version))
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *SetACLRequest) Decode(d *Decoder) {
	r.Nulls = 0
	r.Path = d.Ustring(&r.Nulls, 0)
	if n := d.count(minACLBytes); n < 0 {
		r.ACL = nil
	} else {
		r.ACL = reuse(r.ACL, n)
		for i := range r.ACL {
			r.ACL[i].Decode(d)
		}
	}
	r.Version = Version(d.Int())
}

// StatResponse answers exists, setData and setACL.
type StatResponse struct {
	Stat Stat
}

// Append adds the encoding of r to b.
func (r *StatResponse) Append(b []byte) []byte {
	b = r.Stat.Append(b)
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *StatResponse) Decode(d *Decoder) {
	r.Stat.Decode(d)
}

// GetDataResponse answers getData and reconfig.
type GetDataResponse struct {
	Data []byte
	Stat Stat
}

// Append adds the encoding of r to b.
func (r *GetDataResponse) Append(b []byte) []byte {
	b = AppendBuffer(b, r.Data)
	b = r.Stat.Append(b)
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *GetDataResponse) Decode(d *Decoder) {
	r.Data = d.Buffer()
	r.Stat.Decode(d)
}

// GetACLResponse answers getACL.
type GetACLResponse struct {
	ACL  []ACL
	Stat Stat
}

// Append adds the encoding of r to b.
func (r *GetACLResponse) Append(b []byte) []byte {
	if r.ACL == nil {
		b = AppendInt(b, -1)
	} else {
		b = AppendInt(b, int32(len(r.ACL)))
	}
	for i := range r.ACL {
		b = r.ACL[i].appendEcho(b)
	}
	b = r.Stat.Append(b)
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *GetACLResponse) Decode(d *Decoder) {
	if n := d.count(minACLBytes); n < 0 {
		r.ACL = nil
	} else {
		r.ACL = reuse(r.ACL, n)
		for i := range r.ACL {
			r.ACL[i].Decode(d)
		}
	}
	r.Stat.Decode(d)
}

// GetChildrenResponse answers getChildren with names, not paths, in no order.
type GetChildrenResponse struct {
	Children []string
}

// Append adds the encoding of r to b.
func (r *GetChildrenResponse) Append(b []byte) []byte {
	b = AppendUstrings(b, r.Children)
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *GetChildrenResponse) Decode(d *Decoder) {
	r.Children = d.Ustrings(r.Children)
}

// GetChildren2Response answers getChildren2.
type GetChildren2Response struct {
	Children []string
	Stat     Stat
}

// Append adds the encoding of r to b.
func (r *GetChildren2Response) Append(b []byte) []byte {
	b = AppendUstrings(b, r.Children)
	b = r.Stat.Append(b)
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *GetChildren2Response) Decode(d *Decoder) {
	r.Children = d.Ustrings(r.Children)
	r.Stat.Decode(d)
}

// SyncResponse answers sync with the request's path.
type SyncResponse struct {
	Path  string
	Nulls Nulls
}

// Append adds the encoding of r to b.
func (r *SyncResponse) Append(b []byte) []byte {
	b = appendEcho(b, r.Path, r.Nulls, 0)
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *SyncResponse) Decode(d *Decoder) {
	r.Nulls = 0
	r.Path = d.Ustring(&r.Nulls, 0)
}

// SetWatchesRequest asks to set one-shot watches again, and to tell what they missed since RelativeZxid.
type SetWatchesRequest struct {
	RelativeZxid Zxid
	Data         []string
	Exist        []string
	Child        []string
}

// Append adds the encoding of r to b.
func (r *SetWatchesRequest) Append(b []byte) []byte {
	b = AppendLong(b, int64(r.RelativeZxid))
	b = AppendUstrings(b, r.Data)
	b = AppendUstrings(b, r.Exist)
	b = AppendUstrings(b, r.Child)
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *SetWatchesRequest) Decode(d *Decoder) {
	r.RelativeZxid = Zxid(d.Long())
	r.Data = d.Ustrings(r.Data)
	r.Exist = d.Ustrings(r.Exist)
	r.Child = d.Ustrings(r.Child)
}

// SetWatches2Request is SetWatchesRequest with persistent watches.
type SetWatches2Request struct {
	RelativeZxid        Zxid
	Data                []string
	Exist               []string
	Child               []string
	Persistent          []string
	PersistentRecursive []string
}

// Append adds the encoding of r to b.
func (r *SetWatches2Request) Append(b []byte) []byte {
	b = AppendLong(b, int64(r.RelativeZxid))
	b = AppendUstrings(b, r.Data)
	b = AppendUstrings(b, r.Exist)
	b = AppendUstrings(b, r.Child)
	b = AppendUstrings(b, r.Persistent)
	b = AppendUstrings(b, r.PersistentRecursive)
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *SetWatches2Request) Decode(d *Decoder) {
	r.RelativeZxid = Zxid(d.Long())
	r.Data = d.Ustrings(r.Data)
	r.Exist = d.Ustrings(r.Exist)
	r.Child = d.Ustrings(r.Child)
	r.Persistent = d.Ustrings(r.Persistent)
	r.PersistentRecursive = d.Ustrings(r.PersistentRecursive)
}

// AddWatchRequest asks for a persistent watch.
type AddWatchRequest struct {
	Path  string
	Mode  AddWatchMode
	Nulls Nulls
}

// Append adds the encoding of r to b.
func (r *AddWatchRequest) Append(b []byte) []byte {
	b = AppendUstring(b, r.Path, r.Nulls, 0)
	b = AppendInt(b, int32(r.Mode))
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *AddWatchRequest) Decode(d *Decoder) {
	r.Nulls = 0
	r.Path = d.Ustring(&r.Nulls, 0)
	r.Mode = AddWatchMode(d.Int())
}

// WatcherTypeRequest asks for checkWatches and removeWatches.
type WatcherTypeRequest struct {
	Path  string
	Type  WatcherType
	Nulls Nulls
}

// Append adds the encoding of r to b.
func (r *WatcherTypeRequest) Append(b []byte) []byte {
	b = AppendUstring(b, r.Path, r.Nulls, 0)
	b = AppendInt(b, int32(r.Type))
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *WatcherTypeRequest) Decode(d *Decoder) {
	r.Nulls = 0
	r.Path = d.Ustring(&r.Nulls, 0)
	r.Type = WatcherType(d.Int())
}

// AuthPacket offers an identity. Type is ignored.
type AuthPacket struct {
	Type   int32
	Scheme string
	Auth   []byte
	Nulls  Nulls
}

// Append adds the encoding of r to b.
func (r *AuthPacket) Append(b []byte) []byte {
	b = AppendInt(b, r.Type)
	b = AppendUstring(b, r.Scheme, r.Nulls, 0)
	b = AppendBuffer(b, r.Auth)
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *AuthPacket) Decode(d *Decoder) {
	r.Nulls = 0
	r.Type = d.Int()
	r.Scheme = d.Ustring(&r.Nulls, 0)
	r.Auth = d.Buffer()
}

// SASLToken is one step of SASL, in both directions.
type SASLToken struct {
	Token []byte
}

// Append adds the encoding of r to b.
func (r *SASLToken) Append(b []byte) []byte {
	b = AppendBuffer(b, r.Token)
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *SASLToken) Decode(d *Decoder) {
	r.Token = d.Buffer()
}

// ReconfigRequest asks for a change of the ensemble's members. CurConfigID is the expected version, or -1.
type ReconfigRequest struct {
	JoiningServers string
	LeavingServers string
	NewMembers     string
	CurConfigID    int64
	Nulls          Nulls
}

// Append adds the encoding of r to b.
func (r *ReconfigRequest) Append(b []byte) []byte {
	b = AppendUstring(b, r.JoiningServers, r.Nulls, 0)
	b = AppendUstring(b, r.LeavingServers, r.Nulls, 1)
	b = AppendUstring(b, r.NewMembers, r.Nulls, 2)
	b = AppendLong(b, r.CurConfigID)
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *ReconfigRequest) Decode(d *Decoder) {
	r.Nulls = 0
	r.JoiningServers = d.Ustring(&r.Nulls, 0)
	r.LeavingServers = d.Ustring(&r.Nulls, 1)
	r.NewMembers = d.Ustring(&r.Nulls, 2)
	r.CurConfigID = d.Long()
}

// GetEphemeralsResponse answers getEphemerals with paths.
type GetEphemeralsResponse struct {
	Ephemerals []string
}

// Append adds the encoding of r to b.
func (r *GetEphemeralsResponse) Append(b []byte) []byte {
	b = AppendUstrings(b, r.Ephemerals)
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *GetEphemeralsResponse) Decode(d *Decoder) {
	r.Ephemerals = d.Ustrings(r.Ephemerals)
}

// GetAllChildrenNumberResponse answers getAllChildrenNumber with the number of descendants.
type GetAllChildrenNumberResponse struct {
	TotalNumber int32
}

// Append adds the encoding of r to b.
func (r *GetAllChildrenNumberResponse) Append(b []byte) []byte {
	b = AppendInt(b, r.TotalNumber)
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *GetAllChildrenNumberResponse) Decode(d *Decoder) {
	r.TotalNumber = d.Int()
}

// ClientInfo is one identity of a connection, without its secret.
type ClientInfo struct {
	AuthScheme string
	User       string
	Nulls      Nulls
}

// minClientInfoBytes is the size of the smallest encoding of a ClientInfo.
const minClientInfoBytes = 8

// Append adds the encoding of r to b.
func (r *ClientInfo) Append(b []byte) []byte {
	b = appendEcho(b, r.AuthScheme, r.Nulls, 0)
	b = appendEcho(b, r.User, r.Nulls, 1)
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *ClientInfo) Decode(d *Decoder) {
	r.Nulls = 0
	r.AuthScheme = d.Ustring(&r.Nulls, 0)
	r.User = d.Ustring(&r.Nulls, 1)
}

// WhoAmIResponse answers whoAmI.
type WhoAmIResponse struct {
	ClientInfo []ClientInfo
}

// Append adds the encoding of r to b.
func (r *WhoAmIResponse) Append(b []byte) []byte {
	if r.ClientInfo == nil {
		b = AppendInt(b, -1)
	} else {
		b = AppendInt(b, int32(len(r.ClientInfo)))
	}
	for i := range r.ClientInfo {
		b = r.ClientInfo[i].Append(b)
	}
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *WhoAmIResponse) Decode(d *Decoder) {
	if n := d.count(minClientInfoBytes); n < 0 {
		r.ClientInfo = nil
	} else {
		r.ClientInfo = reuse(r.ClientInfo, n)
		for i := range r.ClientInfo {
			r.ClientInfo[i].Decode(d)
		}
	}
}

// WatcherEvent tells of a change to a watched path.
type WatcherEvent struct {
	Type  EventType
	State EventState
	Path  string
	Nulls Nulls
}

// Append adds the encoding of r to b.
func (r *WatcherEvent) Append(b []byte) []byte {
	b = AppendInt(b, int32(r.Type))
	b = AppendInt(b, int32(r.State))
	b = appendEcho(b, r.Path, r.Nulls, 0)
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *WatcherEvent) Decode(d *Decoder) {
	r.Nulls = 0
	r.Type = EventType(d.Int())
	r.State = EventState(d.Int())
	r.Path = d.Ustring(&r.Nulls, 0)
}

// ErrorResponse answers addWatch, and in a failed multi each operation.
type ErrorResponse struct {
	Err Code
}

// Append adds the encoding of r to b.
func (r *ErrorResponse) Append(b []byte) []byte {
	b = AppendInt(b, int32(r.Err))
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *ErrorResponse) Decode(d *Decoder) {
	r.Err = Code(d.Int())
}

// MultiHeader stands before each operation of a multi and each of its results, and with Done at the end.
type MultiHeader struct {
	Type Op
	Done bool
	Err  Code
}

// Append adds the encoding of r to b.
func (r *MultiHeader) Append(b []byte) []byte {
	b = AppendInt(b, int32(r.Type))
	b = AppendBool(b, r.Done)
	b = AppendInt(b, int32(r.Err))
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *MultiHeader) Decode(d *Decoder) {
	r.Type = Op(d.Int())
	r.Done = d.Bool()
	r.Err = Code(d.Int())
}

// CreateSessionTxn is the body of a createSession; the session's timeout.
type CreateSessionTxn struct {
	TimeoutMillis int32
}

// Append adds the encoding of r to b.
func (r *CreateSessionTxn) Append(b []byte) []byte {
	b = AppendInt(b, r.TimeoutMillis)
	return b
}

// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.
func (r *CreateSessionTxn) Decode(d *Decoder) {
	r.TimeoutMillis = d.Int()
}
