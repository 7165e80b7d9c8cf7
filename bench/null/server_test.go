package null

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zkd/jute"
	"zkd/jute/client"
)

// start serves until the test ends, and returns a client and the server's directory.
func start(t *testing.T) (*client.Conn, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "data")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- Serve(ctx, l, dir) }()
	conn, err := client.Dial(t.Context(), client.Options{Addr: l.Addr().String(), Now: time.Now,
		Dial: new(net.Dialer).DialContext})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Cut()
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return conn, dir
}

// ask sends a request and returns what came.
func ask(t *testing.T, conn *client.Conn, op jute.Op, record func([]byte) []byte) (jute.Code, jute.Decoder) {
	t.Helper()
	header, body, err := conn.Do(op, record)
	if err != nil {
		t.Fatal(err)
	}
	return header.Err, jute.NewDecoder(body)
}

func TestAnswers(t *testing.T) {
	conn, dir := start(t)
	get := jute.PathWatchRequest{Path: "/a-3"}
	code, d := ask(t, conn, jute.OpGetChildren2, get.Append)
	var list jute.GetChildren2Response
	list.Decode(&d)
	if code != jute.OK || d.Err() != nil || len(list.Children) != 3 || list.Children[2] != "c0000002" {
		t.Errorf("list %+v, %v, %v", list, code, d.Err())
	}
	code, d = ask(t, conn, jute.OpGetData, get.Append)
	var data jute.GetDataResponse
	data.Decode(&d)
	if code != jute.OK || d.Err() != nil || len(data.Data) != dataBytes {
		t.Errorf("data of %d bytes, %v, %v", len(data.Data), code, d.Err())
	}
	create := jute.CreateRequest{Path: "/b", Data: []byte("kept on the disk"), Flags: jute.ModeEphemeralSequential}
	code, d = ask(t, conn, jute.OpCreate, create.Append)
	var nulls jute.Nulls
	if path := d.Ustring(&nulls, 0); code != jute.OK || path != "/b0000000000" {
		t.Errorf("created %s, %v", path, code)
	}
	text, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil || !strings.Contains(string(text[:1024]), "kept on the disk") {
		t.Errorf("the write is not in the log: %v", err)
	}
	set := jute.SetDataRequest{Path: "/c", Version: jute.AnyVersion}
	multi := func(b []byte) []byte {
		header := jute.MultiHeader{Type: jute.OpSetData, Err: -1}
		return jute.AppendMultiEnd(set.Append(header.Append(set.Append(header.Append(b)))))
	}
	code, d = ask(t, conn, jute.OpMulti, multi)
	results := 0
	for walk := jute.NewMultiDecoder(&d); walk.Next(); results++ {
		var stat jute.Stat
		stat.Decode(&d)
	}
	if code != jute.OK || d.Err() != nil || results != 2 {
		t.Errorf("%d results of a multi of two, %v, %v", results, code, d.Err())
	}
	if code, _ := ask(t, conn, jute.OpWhoAmI, nil); code != jute.Unimplemented {
		t.Errorf("a request that no load has: %v", code)
	}
	if err := conn.Alive(); err != nil {
		t.Error(err)
	}
}

// TestLogGoesRound writes more than the file holds.
func TestLogGoesRound(t *testing.T) {
	dir := t.TempDir()
	l, err := openLog(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	for range logBytes/frameMax + 2 {
		if err := l.write(make([]byte, frameMax)); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "log")); err != nil || info.Size() != logBytes {
		t.Errorf("the file is %v, %v; want %d bytes", info, err, logBytes)
	}
}

func TestLogThatIsClosed(t *testing.T) {
	l, err := openLog(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l.close()
	if l.write([]byte("x")) == nil {
		t.Error("a closed log takes a write")
	}
}

func TestSyncTime(t *testing.T) {
	took, err := SyncTime(t.TempDir())
	if err != nil || took <= 0 {
		t.Errorf("%v and %v", took, err)
	}
	if _, err := SyncTime("/nowhere"); err == nil {
		t.Error("there is no such directory")
	}
}
