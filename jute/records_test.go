package jute

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// record is what every generated record can do.
type record interface {
	Append(b []byte) []byte
	Decode(d *Decoder)
}

// recordTable holds every record of the schema, in its order.
var recordTable = []struct {
	name string
	make func() record
	full record // every field set
}{
	{"ID", func() record { return new(ID) }, &ID{"digest", "u:p", 0}},
	{"ACL", func() record { return new(ACL) }, &ACL{PermAll, worldAnyone}},
	{"Stat", func() record { return new(Stat) }, &someStat},
	{
		"ConnectRequest", func() record { return new(ConnectRequest) },
		&ConnectRequest{1, 2, 3, 4, make([]byte, 16), true, true},
	},
	{
		"ConnectResponse", func() record { return new(ConnectResponse) },
		&ConnectResponse{1, 2, 3, make([]byte, 16), true, true},
	},
	{"RequestHeader", func() record { return new(RequestHeader) }, &RequestHeader{7, OpCreate}},
	{"ReplyHeader", func() record { return new(ReplyHeader) }, &ReplyHeader{7, 8, NoNode}},
	{
		"CreateRequest", func() record { return new(CreateRequest) },
		&CreateRequest{"/a", []byte("x"), openACL, ModeEphemeral, 0},
	},
	{
		"CreateTTLRequest", func() record { return new(CreateTTLRequest) },
		&CreateTTLRequest{"/a", []byte("x"), openACL, ModePersistentTTL, 9, 0},
	},
	{"CreateResponse", func() record { return new(CreateResponse) }, &CreateResponse{"/a", 0}},
	{"Create2Response", func() record { return new(Create2Response) }, &Create2Response{"/a", someStat, 0}},
	{"PathVersionRequest", func() record { return new(PathVersionRequest) }, &PathVersionRequest{"/a", 5, 0}},
	{"PathWatchRequest", func() record { return new(PathWatchRequest) }, &PathWatchRequest{"/a", true, 0}},
	{"PathRequest", func() record { return new(PathRequest) }, &PathRequest{"/a", 0}},
	{"SetDataRequest", func() record { return new(SetDataRequest) }, &SetDataRequest{"/a", []byte{}, 5, 0}},
	{"SetACLRequest", func() record { return new(SetACLRequest) }, &SetACLRequest{"/a", openACL, 5, 0}},
	{"StatResponse", func() record { return new(StatResponse) }, &StatResponse{someStat}},
	{"GetDataResponse", func() record { return new(GetDataResponse) }, &GetDataResponse{[]byte("x"), someStat}},
	{"GetACLResponse", func() record { return new(GetACLResponse) }, &GetACLResponse{openACL, someStat}},
	{
		"GetChildrenResponse", func() record { return new(GetChildrenResponse) },
		&GetChildrenResponse{[]string{"a", ""}},
	},
	{
		"GetChildren2Response", func() record { return new(GetChildren2Response) },
		&GetChildren2Response{[]string{"a"}, someStat},
	},
	{"SyncResponse", func() record { return new(SyncResponse) }, &SyncResponse{"/a", 0}},
	{
		"SetWatchesRequest", func() record { return new(SetWatchesRequest) },
		&SetWatchesRequest{9, []string{"/a"}, []string{}, []string{"/b", "/c"}},
	},
	{
		"SetWatches2Request", func() record { return new(SetWatches2Request) },
		&SetWatches2Request{9, []string{"/a"}, nil, []string{}, []string{"/d"}, []string{"/e"}},
	},
	{
		"AddWatchRequest", func() record { return new(AddWatchRequest) },
		&AddWatchRequest{"/a", WatchPersistentRecursive, 0},
	},
	{
		"WatcherTypeRequest", func() record { return new(WatcherTypeRequest) },
		&WatcherTypeRequest{"/a", WatcherAny, 0},
	},
	{"AuthPacket", func() record { return new(AuthPacket) }, &AuthPacket{1, "digest", []byte("u:p"), 0}},
	{"SASLToken", func() record { return new(SASLToken) }, &SASLToken{[]byte("t")}},
	{"ReconfigRequest", func() record { return new(ReconfigRequest) }, &ReconfigRequest{"", "1", "", -1, 1 | 4}},
	{
		"GetEphemeralsResponse", func() record { return new(GetEphemeralsResponse) },
		&GetEphemeralsResponse{[]string{"/a"}},
	},
	{
		"GetAllChildrenNumberResponse", func() record { return new(GetAllChildrenNumberResponse) },
		&GetAllChildrenNumberResponse{3},
	},
	{"ClientInfo", func() record { return new(ClientInfo) }, &ClientInfo{"ip", "::1", 0}},
	{"WhoAmIResponse", func() record { return new(WhoAmIResponse) }, &WhoAmIResponse{[]ClientInfo{{"ip", "::1", 0}}}},
	{
		"WatcherEvent", func() record { return new(WatcherEvent) },
		&WatcherEvent{EventNodeDeleted, StateConnected, "/a", 0},
	},
	{"ErrorResponse", func() record { return new(ErrorResponse) }, &ErrorResponse{NoNode}},
	{"MultiHeader", func() record { return new(MultiHeader) }, &MultiHeader{OpDelete, true, -1}},
	{"CreateSessionTxn", func() record { return new(CreateSessionTxn) }, &CreateSessionTxn{4000}},
}

var (
	worldAnyone = ID{Scheme: "world", ID: "anyone"}
	openACL     = []ACL{{PermAll, worldAnyone}, {PermRead, ID{"ip", "10.0.0.0/8", 0}}}
	someStat    = Stat{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
)

func TestRecordTableIsWhole(t *testing.T) {
	schema, err := os.ReadFile("schema.txt")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, m := range regexp.MustCompile(`(?m)^(?:record|echo) (\w+):`).FindAllSubmatch(schema, -1) {
		want = append(want, string(m[1]))
	}
	for _, r := range recordTable {
		got = append(got, r.name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("recordTable differs from schema.txt (-schema +table):\n%s", diff)
	}
}

// TestRecordsRoundTrip encodes each record with all fields set, decodes it whole, and every shorter start of it with
// an error.
func TestRecordsRoundTrip(t *testing.T) {
	for _, r := range recordTable {
		t.Run(r.name, func(t *testing.T) {
			frame := r.full.Append([]byte("before"))[len("before"):]
			d := NewDecoder(append(frame[:len(frame):len(frame)], "trailing"...))
			got := r.make()
			if got.Decode(&d); d.Err() != nil {
				t.Fatal(d.Err())
			}
			if diff := cmp.Diff(r.full, got); diff != "" {
				t.Errorf("decoded record differs (-want +got):\n%s", diff)
			}
			if string(d.Remaining()) != "trailing" || d.Pos() != len(frame) {
				t.Errorf("decoder stands at %d of %d, before %q", d.Pos(), len(frame), d.Remaining())
			}
			for n := range frame {
				d.Reset(frame[:n])
				short := r.make()
				short.Decode(&d)
				optional := n == len(frame)-1 && strings.HasPrefix(r.name, "Connect")
				if optional != (d.Err() == nil) {
					t.Errorf("first %d of %d bytes: error %v", n, len(frame), d.Err())
				}
				if d.Err() != nil && len(d.Remaining()) != 0 {
					t.Errorf("first %d of %d bytes: %d bytes to read after an error", n, len(frame), len(d.Remaining()))
				}
			}
		})
	}
}

// TestNullsSurvive decodes every record from bytes that make each of its strings, buffers and vectors null, where it
// can be.
func TestNullsSurvive(t *testing.T) {
	null := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	tests := []struct {
		rec  record
		want record
	}{
		{new(ID), &ID{Nulls: 3}},
		{new(SASLToken), &SASLToken{}},
		{new(GetChildrenResponse), &GetChildrenResponse{}},
		{new(WhoAmIResponse), &WhoAmIResponse{}},
		{new(PathVersionRequest), &PathVersionRequest{Version: -1, Nulls: 1}},
		{&CreateRequest{ACL: openACL, Data: []byte("old")}, &CreateRequest{Flags: -1, Nulls: 1}},
		{&ReconfigRequest{}, &ReconfigRequest{CurConfigID: -1, Nulls: 7}},
	}
	for _, test := range tests {
		frame := null
		if _, long := test.rec.(*ReconfigRequest); long {
			frame = append(null[:16:16], null[:4]...)
		}
		d := NewDecoder(frame)
		test.rec.Decode(&d)
		if diff := cmp.Diff(test.want, test.rec); diff != "" || d.Err() != nil {
			t.Errorf("%T: error %v, (-want +got):\n%s", test.rec, d.Err(), diff)
		}
		if again := test.rec.Append(nil); string(again) != string(frame[:len(again)]) || len(again) != d.Pos() {
			t.Errorf("%T: encodes to %x", test.rec, again)
		}
	}
}

func TestNullsHas(t *testing.T) {
	for field, want := range []bool{true, false, true, false} {
		if got := Nulls(5).Has(field); got != want {
			t.Errorf("Nulls(5).Has(%d) = %t", field, got)
		}
	}
}

// hot holds the frames and records of the requests that a busy server decodes most.
func hot() []struct {
	name  string
	frame []byte
	rec   record
} {
	path := "/services/orders/instances/host-0000000042"
	create := CreateRequest{Path: path, Data: make([]byte, 128), ACL: openACL}
	read := PathWatchRequest{Path: path, Watch: true}
	set := SetDataRequest{Path: path, Data: make([]byte, 128), Version: 3}
	watches := SetWatchesRequest{Data: []string{path, path}, Exist: []string{}, Child: []string{path}}
	return []struct {
		name  string
		frame []byte
		rec   record
	}{
		{"CreateRequest", create.Append(nil), &CreateRequest{}},
		{"PathWatchRequest", read.Append(nil), &PathWatchRequest{}},
		{"SetDataRequest", set.Append(nil), &SetDataRequest{}},
		{"SetWatchesRequest", watches.Append(nil), &SetWatchesRequest{}},
	}
}

// replies holds the records that a busy server encodes most.
func replies() map[string]record {
	return map[string]record{
		"ReplyHeader":         &ReplyHeader{Xid: 1, Zxid: 2},
		"GetDataResponse":     &GetDataResponse{Data: make([]byte, 128), Stat: someStat},
		"GetChildrenResponse": &GetChildrenResponse{Children: []string{"host-0000000042", "host-0000000043"}},
		"Create2Response":     &Create2Response{Path: "/services/orders", Stat: someStat},
		"GetACLResponse":      &GetACLResponse{ACL: openACL, Stat: someStat},
		"WatcherEvent":        &WatcherEvent{Type: EventNodeCreated, State: StateConnected, Path: "/services/orders"},
	}
}

// TestHotRecordsDoNotAllocate pins the promise of the package: with a reused record and buffer nothing is allocated.
func TestHotRecordsDoNotAllocate(t *testing.T) {
	for _, h := range hot() {
		var d Decoder
		if n := testing.AllocsPerRun(100, func() { d.Reset(h.frame); h.rec.Decode(&d) }); n != 0 || d.Err() != nil {
			t.Errorf("decode %s: %v allocations, error %v", h.name, n, d.Err())
		}
	}
	buf := make([]byte, 0, 1024)
	for name, r := range replies() { // in any order: each is measured by itself
		if n := testing.AllocsPerRun(100, func() {
			b, mark := BeginFrame(buf[:0])
			buf = EndFrame(r.Append(b), mark)
		}); n != 0 {
			t.Errorf("append %s: %v allocations", name, n)
		}
	}
	path, calls := "/services/orders/instances/h\u00f6st-0000000042", 0
	if n := testing.AllocsPerRun(100, func() {
		if ValidPath(path) && !HasNUL(path) && len(ParentPath(path)) > len(BaseName(path)) {
			calls++
		}
	}); n != 0 || calls == 0 {
		t.Errorf("path rules: %v allocations", n)
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, h := range hot() {
		b.Run(h.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(h.frame)))
			var d Decoder
			for b.Loop() {
				d.Reset(h.frame)
				h.rec.Decode(&d)
			}
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	buf := make([]byte, 0, 1024)
	for name, r := range replies() { // in any order: each is a benchmark by itself
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(r.Append(buf[:0]))))
			for b.Loop() {
				buf = r.Append(buf[:0])
			}
		})
	}
}

func BenchmarkValidPath(b *testing.B) {
	path := "/services/orders/instances/host-0000000042"
	b.SetBytes(int64(len(path)))
	for b.Loop() {
		if !ValidPath(path) {
			b.Fatal("path is valid")
		}
	}
}
