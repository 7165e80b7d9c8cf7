package jute

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

// capture is one line of testdata/captures.jsonl: a request of a client to a real ZooKeeper 3.9.5 and what came back.
type capture struct {
	ID        string          `json:"id"`
	Kind      string          `json:"kind"`
	Op        Op              `json:"opcode"`
	Req       string          `json:"req"`
	ReqRecord string          `json:"req_record"`
	ReqFields json.RawMessage `json:"req_fields"`
	Resp      []string        `json:"resp"`
	Decoded   []struct {
		Header json.RawMessage `json:"header"`
		Body   json.RawMessage `json:"body"`
	} `json:"decoded"`
}

// loadCaptures reads the captures.
func loadCaptures(t testing.TB) []capture {
	t.Helper()
	file, err := os.Open("testdata/captures.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // only read
	var captures []capture
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		var c capture
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		captures = append(captures, c)
	}
	if lines.Err() != nil || len(captures) != 388 {
		t.Fatalf("%d captures, want 388; error %v", len(captures), lines.Err())
	}
	return captures
}

// split cuts frames out of a byte stream; rest is what is no whole frame.
func split(b []byte) (payloads [][]byte, rest []byte) {
	for len(b) >= FrameHeaderBytes {
		n := int(int32(binary.BigEndian.Uint32(b)))
		if n < 0 || n > len(b)-FrameHeaderBytes {
			break
		}
		payloads = append(payloads, b[FrameHeaderBytes:FrameHeaderBytes+n])
		b = b[FrameHeaderBytes+n:]
	}
	return payloads, b
}

// requestOf returns an empty record for the body of a request, or nil if the opcode has no body.
func requestOf(op Op) record {
	switch op {
	case OpCreate, OpCreate2, OpCreateContainer:
		return new(CreateRequest)
	case OpCreateTTL:
		return new(CreateTTLRequest)
	case OpDelete, OpCheck:
		return new(PathVersionRequest)
	case OpExists, OpGetData, OpGetChildren, OpGetChildren2:
		return new(PathWatchRequest)
	case OpGetACL, OpSync, OpGetAllChildrenNumber, OpDeleteContainer, OpGetEphemerals:
		return new(PathRequest)
	case OpSetData:
		return new(SetDataRequest)
	case OpSetACL:
		return new(SetACLRequest)
	case OpSetWatches:
		return new(SetWatchesRequest)
	case OpSetWatches2:
		return new(SetWatches2Request)
	case OpAddWatch:
		return new(AddWatchRequest)
	case OpCheckWatches, OpRemoveWatches:
		return new(WatcherTypeRequest)
	case OpAuth:
		return new(AuthPacket)
	case OpSASL:
		return new(SASLToken)
	case OpReconfig:
		return new(ReconfigRequest)
	case OpCreateSession:
		return new(CreateSessionTxn)
	}
	return nil
}

// replyOf returns an empty record for the body of a reply, or nil if the reply to the opcode has no body.
func replyOf(op Op) record {
	switch op {
	case OpNotification:
		return new(WatcherEvent)
	case OpCreate:
		return new(CreateResponse)
	case OpCreate2, OpCreateContainer, OpCreateTTL:
		return new(Create2Response)
	case OpExists, OpSetData, OpSetACL:
		return new(StatResponse)
	case OpGetData, OpReconfig:
		return new(GetDataResponse)
	case OpGetACL:
		return new(GetACLResponse)
	case OpGetChildren:
		return new(GetChildrenResponse)
	case OpGetChildren2:
		return new(GetChildren2Response)
	case OpSync:
		return new(SyncResponse)
	case OpAddWatch, OpError:
		return new(ErrorResponse)
	case OpSASL:
		return new(SASLToken)
	case OpGetEphemerals:
		return new(GetEphemeralsResponse)
	case OpGetAllChildrenNumber:
		return new(GetAllChildrenNumberResponse)
	case OpWhoAmI:
		return new(WhoAmIResponse)
	}
	return nil
}

// isMulti reports whether bodies of the opcode are walked by a MultiDecoder.
func isMulti(op Op) bool { return op == OpMulti || op == OpMultiRead }

// golden checks frames against what it decodes them to.
type golden struct {
	*testing.T
	requests, replies int
}

// unlike names the captures whose frame holds what encoding does not give back, and what that is.
var unlike = map[string]string{
	"hs-trailing":           "a trailing byte",
	"mal-trailing":          "trailing bytes",
	"mal-bool2":             "a boolean of 2",
	"mal-utf8":              "malformed UTF-8",
	"op-createSession-body": "trailing bytes",
}

// unreadable names the captures whose request a server cannot read.
var unreadable = map[string]error{
	"hs-short":                ErrShort,
	"hs-empty":                ErrShort,
	"mal-short-header":        ErrShort,
	"mal-empty-frame":         ErrShort,
	"mal-create-empty":        ErrShort,
	"mal-getdata-trunc":       ErrLength,
	"mal-exists-neglen":       ErrLength,
	"mal-getchildren-nowatch": ErrShort,
	"mal-setdata-empty":       ErrShort,
	"op-createSession":        ErrShort,
	"op-check":                ErrShort,
	"multi-truncated":         ErrShort,
}

// TestCaptures decodes every frame of the captures, encodes it again and compares the bytes, and the fields where the
// capture has them.
func TestCaptures(t *testing.T) {
	requests, replies, skipped := 0, 0, 0
	for _, c := range loadCaptures(t) {
		if c.Kind == "4lw" {
			continue
		}
		t.Run(c.ID, func(t *testing.T) {
			g := &golden{T: t}
			payloads, rest := split(unhex(t, c.Req))
			skipped += min(len(rest), 1)
			ops := map[Xid]Op{XidNotification: OpNotification}
			for _, payload := range payloads {
				g.request(c, payload, ops)
			}
			if c.Kind == "request" || c.Kind == "setup" {
				ops[XidPing] = c.Op // whatever xid the ping had
			}
			for i, frame := range c.Resp {
				payloads, rest := split(unhex(t, frame))
				if len(payloads) != 1 || len(rest) != 0 {
					t.Fatalf("reply %d: %d frames and %d bytes", i, len(payloads), len(rest))
				}
				g.reply(c, i, payloads[0], ops)
			}
			requests += g.requests
			replies += g.replies
		})
	}
	if requests != goldenRequests || replies != goldenReplies || skipped != goldenRaw {
		t.Errorf("%d requests, %d replies and events, %d that are no frames; want %d, %d, %d",
			requests, replies, skipped, goldenRequests, goldenReplies, goldenRaw)
	}
}

// What the captures hold.
const (
	goldenRequests = 373
	goldenReplies  = 390
	goldenRaw      = 5
)

// request checks one request's payload and notes its opcode in ops.
func (g *golden) request(c capture, payload []byte, ops map[Xid]Op) {
	g.requests++
	d := NewDecoder(payload)
	var again []byte
	var body record
	if c.Kind == "handshake" {
		body = new(ConnectRequest)
		body.Decode(&d)
		again = body.Append(again)
	} else {
		var header RequestHeader
		header.Decode(&d)
		ops[header.Xid] = header.Op
		again = header.Append(again)
		if isMulti(header.Op) {
			again, _ = g.multi(&d, again, requestOf)
		} else if body = requestOf(header.Op); body != nil && d.Err() == nil {
			body.Decode(&d)
			again = body.Append(again)
		}
	}
	if want := unreadable[c.ID]; d.Err() != want {
		g.Fatalf("request: error %v, want %v", d.Err(), want)
	} else if want != nil {
		return
	}
	if same := bytes.Equal(again, payload); same == (unlike[c.ID] != "") {
		g.Errorf("request encodes to\n%x, was\n%x; expected to differ: %q", again, payload, unlike[c.ID])
	}
	if len(c.ReqFields) != 0 && c.ID != "op-createSession-body" { // there it has the fields of a header
		g.fields("request", c.ReqFields, plain(reflect.ValueOf(body).Elem(), c.ReqRecord))
	}
}

// reply checks the payload of reply i; ops has the opcodes of the requests by their xids.
func (g *golden) reply(c capture, i int, payload []byte, ops map[Xid]Op) {
	g.replies++
	d := NewDecoder(payload)
	if c.Kind == "handshake" || c.ID == "op-createSession-body" {
		if len(payload) == 16 { // a bare header: NotReadOnly
			var refusal ReplyHeader
			refusal.Decode(&d)
			g.bytes(&d, refusal.Append(nil), payload)
			return
		}
		var response ConnectResponse
		response.Decode(&d)
		g.bytes(&d, response.Append(nil), payload)
		return
	}
	var header ReplyHeader
	header.Decode(&d)
	again := header.Append(nil)
	op, known := ops[header.Xid]
	if !known {
		g.Fatalf("reply %d: no request has xid %d", i, header.Xid)
	}
	var fields any
	switch body := replyOf(op); {
	case len(d.Remaining()) == 0:
	case isMulti(op):
		again, fields = g.multi(&d, again, replyOf)
	case body == nil:
		g.Errorf("reply to %s has a body", op)
	default:
		body.Decode(&d)
		again = body.Append(again)
		fields = plain(reflect.ValueOf(body).Elem(), "")
	}
	g.bytes(&d, again, payload)
	if len(c.Decoded) == len(c.Resp) {
		g.fields("header", c.Decoded[i].Header, plain(reflect.ValueOf(header), ""))
		if want := c.Decoded[i].Body; len(want) != 0 {
			g.fields("body", want, fields)
		}
	}
}

// multi decodes the operations or results of a multi and adds their encoding to again. It returns them in the form of
// the captures.
func (g *golden) multi(d *Decoder, again []byte, bodyOf func(Op) record) (encoded []byte, results []any) {
	walk := NewMultiDecoder(d)
	for walk.Next() {
		header := walk.Header()
		again = header.Append(again)
		result := plainRecord(reflect.ValueOf(header), "")
		result["body"] = map[string]any{}
		if body := bodyOf(header.Type); body != nil {
			body.Decode(d)
			again = body.Append(again)
			result["body"] = plain(reflect.ValueOf(body).Elem(), "")
		}
		results = append(results, result)
	}
	return AppendMultiEnd(again), append(results, plainRecord(reflect.ValueOf(walk.Header()), ""))
}

// bytes checks that all was read and that it encodes to what it was.
func (g *golden) bytes(d *Decoder, again, payload []byte) {
	if d.Err() != nil || !bytes.Equal(again, payload) {
		g.Errorf("reply: error %v, encodes to\n%x, was\n%x", d.Err(), again, payload)
	}
}

// fields compares the fields of a capture with those of a record.
func (g *golden) fields(what string, want json.RawMessage, got any) {
	g.Helper()
	encoded, err := json.Marshal(got)
	if err != nil {
		g.Fatal(err)
	}
	if diff := cmp.Diff(numbers(g, want), numbers(g, encoded)); diff != "" {
		g.Errorf("%s differs (-capture +decoded):\n%s", what, diff)
	}
}

// numbers parses JSON and keeps its numbers as they are written.
func numbers(t testing.TB, text []byte) any {
	t.Helper()
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// captureNames gives the fields that captures call otherwise than Go's name with a small first letter.
var captureNames = map[string]string{
	"TimeoutMillis": "timeOut", "SessionID": "sessionId", "ACL": "acl", "ID": "id", "TTL": "ttl", "Op": "type",
	"CurConfigID": "curConfigId", "SetWatches.Data": "dataWatches", "SetWatches.Exist": "existWatches",
	"SetWatches.Child": "childWatches", "SetWatches2.Data": "dataWatches", "SetWatches2.Exist": "existWatches",
	"SetWatches2.Child": "childWatches", "SetWatches2.Persistent": "persistentWatches",
	"SetWatches2.PersistentRecursive": "persistentRecursiveWatches", "Prefix.Path": "prefixPath",
}

// plain returns a record as captures write it: maps, lists, numbers, text, null; buffers as hex. name is the capture's
// name of the record.
func plain(v reflect.Value, name string) any {
	switch v.Kind() {
	case reflect.Struct:
		return plainRecord(v, name)
	case reflect.Slice:
		if v.IsNil() {
			return nil
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return hex.EncodeToString(v.Bytes())
		}
		list := []any{}
		for i := range v.Len() {
			list = append(list, plain(v.Index(i), name))
		}
		return list
	default:
		return v.Interface()
	}
}

// plainRecord is plain for a struct: without Nulls and without what the frame did not hold.
func plainRecord(v reflect.Value, name string) map[string]any {
	nulls := Nulls(0)
	if f := v.FieldByName("Nulls"); f.IsValid() {
		nulls = Nulls(f.Uint())
	}
	fields, texts := map[string]any{}, 0
	for i := range v.NumField() {
		goName := v.Type().Field(i).Name
		absent := v.FieldByName("Has" + goName)
		if absent.IsValid() && !absent.Bool() || strings.HasPrefix(goName, "Has") || goName == "Nulls" {
			continue
		}
		key, ok := captureNames[name+"."+goName]
		if !ok {
			key, ok = captureNames[goName]
		}
		if !ok {
			key = string(unicode.ToLower(rune(goName[0]))) + goName[1:]
		}
		fields[key] = plain(v.Field(i), "")
		if v.Field(i).Kind() == reflect.String {
			if nulls.Has(texts) {
				fields[key] = nil
			}
			texts++
		}
	}
	return fields
}
