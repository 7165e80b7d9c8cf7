package admin_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
)

var update = flag.Bool("update", false, "record the transcripts anew from the real ZooKeeper")

func TestMain(m *testing.M) { os.Exit(target.Main(m, "admin")) }

// answerWithin bounds one answer and one wait. A guess, for a loaded machine.
const answerWithin = 60 * time.Second

// commands are all, by a name of each, and some that fail.
var commands = []string{
	"", "configuration", "connections", "crst", "dirs", "dump", "environment", "gtmk", "hash", "icfg", "isro", "lsnp",
	"lead", "monitor", "orst", "obsr", "restore", "ruok", "srvr", "stmk", "stmk?traceMask=x", "stmk?traceMask=306",
	"snapshot", "srst", "stats", "system_properties", "voting_view", "wchs", "wchc", "wchp", "zabstate", "nope",
	"ruok/x",
}

func TestStandalone(t *testing.T) {
	port := target.FreePort(t)
	s := target.Start(t, target.Options{Config: adminOn(port)})
	open(t, s.Addr)
	target.Golden(t, "standalone", transcript(t, port), *update)
}

// adminOn are the settings of an admin server.
func adminOn(port int) map[string]string {
	return map[string]string{"admin.enableServer": "true", "admin.serverAddress": "127.0.0.1",
		"admin.serverPort": strconv.Itoa(port)}
}

// TestRoles asks the members of an ensemble.
func TestRoles(t *testing.T) {
	e := ensemble.Prepare(t, ensemble.Options{Observers: 1, Calm: true})
	ports := target.FreePorts(t, len(e.Servers))
	for i, s := range e.Servers {
		f, err := os.OpenFile(filepath.Join(s.Dir, "zoo.cfg"), os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range adminOn(ports[i]) { // any order
			_, err = fmt.Fprintf(f, "%s=%s\n", key, value)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	e.StartAll()
	byRole := map[string]int{}
	for i, s := range e.Servers {
		byRole[s.Mode()] = i
	}
	// In the order in which they were recorded, whichever server leads: each leaves an ephemeral for those after it.
	for _, role := range []string{"follower", "leader", "observer"} {
		i, ok := byRole[role]
		if !ok {
			t.Fatalf("no server is a %s: %v", role, byRole)
		}
		open(t, e.Servers[i].Addr)
		if role == "leader" {
			awaitObserver(t, ports[i])
		}
		target.Golden(t, role, transcript(t, ports[i]), *update)
	}
}

// awaitObserver waits until the leader hears the observer and the followers.
func awaitObserver(t *testing.T, port int) {
	t.Helper()
	why := ensemble.Await(answerWithin, func() (bool, string) {
		_, _, body := get(t, port, "observers")
		_, _, monitor := get(t, port, "monitor")
		return strings.Contains(body, `"synced_observers" : 1,`) &&
			strings.Contains(monitor, `"synced_followers" : 2,`), body + monitor
	})
	if why != "" {
		t.Fatalf("the leader does not hear the observer: %s", why)
	}
}

// open has a session with an ephemeral and a watch, until the end of the test.
func open(t *testing.T, addr string) {
	t.Helper()
	c, _, err := zk.Connect([]string{addr}, 30*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	_, err = c.Create("/a", []byte("x"), 0, zk.WorldACL(zk.PermAll))
	if err != nil && !errors.Is(err, zk.ErrNodeExists) {
		t.Fatal(err)
	}
	_, err = c.CreateProtectedEphemeralSequential("/e", nil, zk.WorldACL(zk.PermAll))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := c.GetW("/a"); err != nil {
		t.Fatal(err)
	}
}

// get asks the admin server.
func get(t *testing.T, port int, command string) (status int, kind, body string) {
	t.Helper()
	url := fmt.Sprintf("http://127.0.0.1:%d/commands/%s", port, command)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Timeout: answerWithin}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Content-Type"), string(b)
}

// transcript asks everything.
func transcript(t *testing.T, port int) string {
	t.Helper()
	var b strings.Builder
	for _, command := range commands {
		status, kind, body := get(t, port, command)
		if command == "" { // ZooKeeper says no type
			kind = ""
		}
		fmt.Fprintf(&b, "== /commands/%s: %d %s\n", command, status, kind)
		switch command {
		case "":
			b.WriteString(body)
		case "system_properties": // one JVM's, another's configuration
			all := shape(t, body)
			fmt.Fprintf(&b, "%s\n", strings.Join(all[max(len(all)-2, 0):], "\n"))
		default:
			fmt.Fprintf(&b, "%s\n", strings.Join(shape(t, body), "\n"))
		}
	}
	return b.String()
}

// exact are numbers that do not depend on the run.
var exact = []string{
	"tick_time", "max_client_cnxns", "min_session_timeout", "max_session_timeout", "client_port_listen_backlog",
	"session_timeout", "interest_ops", "node_count", "num_connections", "num_paths", "num_total_watches", "tracemask",
	"synced_observers", "digest_version", "auth_failed_count", "znode_count",
	"quorum_size", "synced_followers", "learners", "synced_non_voting_followers", "pending_syncs",
}

// free are texts that depend on the run, or on the program.
var free = []string{"version", "data_dir", "data_log_dir", "initial_configuration", "zxid", "last_zxid",
	"last_operation"}

// leftOut are figures that only zkd has, and those by path or learner that only ZooKeeper has.
var leftOut = regexp.MustCompile(`zkd_|_per_namespace|_\d+_ack_latency|_learner_handler_qp_`)

// id is a number that stands for a session, a server or a time, as a key.
var id = regexp.MustCompile(`^\d+$`)

// shape is a JSON object as lines: each field's path and value, in order. Numbers are N unless they are exact.
func shape(t *testing.T, body string) []string {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader([]byte(body)))
	d.UseNumber()
	s := &shaper{decoder: d}
	if err := s.value("", ""); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return s.lines
}

// shaper walks over JSON.
type shaper struct {
	decoder *json.Decoder
	lines   []string
}

// value takes in one value.
func (s *shaper) value(path, key string) error {
	token, err := s.decoder.Token()
	if err != nil {
		return err
	}
	switch v := token.(type) {
	case json.Delim:
		return s.compound(path, key, v)
	case json.Number:
		text := "N"
		if slices.Contains(exact, key) {
			text = v.String()
		}
		s.add(path, text)
	case string:
		if slices.Contains(free, key) || strings.HasSuffix(key, "address") || strings.Contains(key, ".") {
			v = "<text>"
		}
		s.add(path, strconv.Quote(v))
	default:
		text := fmt.Sprint(v)
		if key == "initial_configuration" { // members of an ensemble have none in ZooKeeper
			text = `"<text>"`
		}
		s.add(path, text)
	}
	return nil
}

// compound takes in an object or an array.
func (s *shaper) compound(path, key string, open json.Delim) error {
	from := len(s.lines)
	n := 0
	for ; s.decoder.More(); n++ {
		below := path + "[]"
		name := key
		if open == '{' {
			token, err := s.decoder.Token()
			if err != nil {
				return err
			}
			name, _ = token.(string)
			below = path + "." + maskedKey(name)
		}
		if err := s.value(below, name); err != nil {
			return err
		}
	}
	end, err := s.decoder.Token()
	if err != nil {
		return err
	}
	switch {
	case key == "digests": // ZooKeeper notes one every 128 transactions, zkd has the present one
		s.lines = append(s.lines[:from], path+"[]")
	case key == "server_stats": // in the order of Java's reflection, which differs from run to run
		slices.Sort(s.lines[from:])
	case n == 0:
		s.add(path, fmt.Sprint(open)+fmt.Sprint(end))
	}
	return nil
}

// maskedKey is a key without what depends on the run.
func maskedKey(key string) string {
	if id.MatchString(key) {
		return "<id>"
	}
	return key
}

// add adds a line, but for what only zkd measures, what a set shows that not both have, and the times at which nobody
// expires any more, which ZooKeeper keeps for a while.
func (s *shaper) add(path, value string) {
	if leftOut.MatchString(path) || path == ".expiry_time_to_session_ids.<id>" && value == "[]" {
		return
	}
	if strings.HasPrefix(value, `"/e`) || strings.HasPrefix(value, `"/_c_`) {
		value = `"<ephemeral>"`
	}
	if strings.Contains(value, "127.0.0.1") || strings.Contains(value, "0.0.0.0:") {
		value = `"<address>"`
	}
	s.lines = append(s.lines, strings.TrimPrefix(path, ".")+" = "+value)
}
