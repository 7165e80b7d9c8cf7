package main

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/ensemble"
	"zkd/storage/zkdata"
)

// startOperated starts a process with an admin server, and returns where that is.
func startOperated(t *testing.T, dir string, sets ...string) (s *daemon, url string) {
	t.Helper()
	args := []string{"serve"}
	for _, set := range append([]string{
		"clientPort=0", "clientPortAddress=127.0.0.1", "dataDir=" + filepath.Join(dir, "data"),
		"DigestAuthenticationProvider.superDigest=" + superDigest, "admin.enableServer=true",
		"admin.serverAddress=127.0.0.1", "admin.serverPort=0", "admin.rateLimiterIntervalInMS=0",
	}, sets...) {
		args = append(args, "--set", set)
	}
	s, err := startProcess(dir, args)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	return s, "http://127.0.0.1:" + operatorsLine.FindStringSubmatch(s.output())[2]
}

// command sends an admin command as the superuser.
func command(t *testing.T, method, url string) (status int, header http.Header, body []byte) {
	t.Helper()
	return send(t, method, url, http.NoBody)
}

// send sends one with a body.
func send(t *testing.T, method, url string, content io.Reader) (status int, header http.Header, body []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, content)
	if err != nil {
		t.Fatal(err)
	}
	return sendAs(t, r, "digest super:secret")
}

// sendAs sends a request of somebody.
func sendAs(t *testing.T, r *http.Request, who string) (status int, header http.Header, body []byte) {
	t.Helper()
	r.Header.Set("Authorization", who)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err = io.ReadAll(response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, body
}

// snapshotText reads a snapshot to its end, and says what matters of it.
func snapshotText(t *testing.T, content []byte) string {
	t.Helper()
	s, err := zkdata.ReadSnapshot(bytes.NewReader(content), "snapshot")
	if err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for {
		n, more, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			break
		}
		nodes = append(nodes, n.Path+"="+string(n.Data))
	}
	last, ok := s.LastZxid()
	return fmt.Sprintf("%s; last %#x %v, digest of %#x, %s", strings.Join(nodes, " "), int64(last), ok,
		int64(s.Digest().Zxid), s.Compression)
}

// awaitGone waits until a directory was removed: the answer comes before.
func awaitGone(t *testing.T, dir string) {
	t.Helper()
	if why := ensemble.Await(scriptDeadline, func() (bool, string) {
		_, err := os.Stat(dir)
		return os.IsNotExist(err), fmt.Sprintf("%s is not removed: %v", dir, err)
	}); why != "" {
		t.Fatal(why)
	}
}

// TestSnapshotCommand takes snapshots of a running server: streamed, kept, compressed, without the last zxid.
func TestSnapshotCommand(t *testing.T) {
	for _, tc := range []struct {
		sets        []string
		name, shown string
	}{
		{nil, "snapshot.2", "last 0x2 true, digest of 0x2, "},
		{[]string{"snapshot.compression.method=gz", "serializeLastProcessedZxid.enabled=false"},
			"snapshot.2.gz", "last 0x0 false, digest of 0x2, gz"},
	} {
		dir := t.TempDir()
		s, url := startOperated(t, dir, tc.sets...)
		c := connect(t, s.addr)
		if _, err := c.Create("/kept", []byte("value"), 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		status, header, body := command(t, http.MethodGet, url+"/commands/snapshot")
		if status != http.StatusOK || header.Get("Last_zxid") != "0x2" ||
			header.Get("Snapshot_size") != fmt.Sprint(len(body)) {
			t.Fatalf("%d %v %s", status, header, body)
		}
		text := snapshotText(t, body)
		if !strings.Contains(text, " /kept=value ") || !strings.HasSuffix(text, "; "+tc.shown) {
			t.Errorf("%s: %s", tc.name, text)
		}
		status, _, body = command(t, http.MethodGet, url+"/commands/snapshot?streaming=false")
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		kept, err := os.ReadFile(filepath.Join(dir, "data", "snapshots", tc.name))
		if err != nil {
			t.Fatal(err)
		}
		if got := snapshotText(t, kept); got != text {
			t.Errorf("kept %s, streamed %s", got, text)
		}
		awaitGone(t, filepath.Join(dir, "data", "state.snapshots"))
	}
}

// TestSnapshotCommandDisabled has none, and no restore.
func TestSnapshotCommandDisabled(t *testing.T) {
	_, url := startOperated(t, t.TempDir(), "admin.snapshot.enabled=false", "admin.restore.enabled=false")
	status, _, body := command(t, http.MethodGet, url+"/commands/snapshot")
	if status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", status, body)
	}
	status, _, body = command(t, http.MethodPost, url+"/commands/restore")
	if status != http.StatusServiceUnavailable {
		t.Errorf("restore: %d %s", status, body)
	}
}

// TestStateIsForSuperusers: whoever may set the ACL of the root, which by default everybody may, cannot make himself
// one who takes the state, or puts another in its place.
func TestStateIsForSuperusers(t *testing.T) {
	s, url := startOperated(t, t.TempDir())
	c := connect(t, s.addr)
	mine := append(zk.WorldACL(zk.PermAll), zk.ACL{Perms: zk.PermAll, Scheme: "ip", ID: "127.0.0.1"})
	if _, err := c.SetACL("/", mine, -1); err != nil {
		t.Fatal(err)
	}
	for command, method := range map[string]string{"snapshot": http.MethodGet, "restore": http.MethodPost} {
		r, err := http.NewRequestWithContext(t.Context(), method, url+"/commands/"+command, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if status, _, body := sendAs(t, r, "ip"); status != http.StatusForbidden {
			t.Errorf("%s: %d %.80s", command, status, body)
		}
	}
}

// TestSnapshotByCertificate proves to be the superuser by a certificate alone.
func TestSnapshotByCertificate(t *testing.T) {
	for _, tc := range []struct {
		super string
		want  int
	}{{"CN=test", http.StatusOK}, {"CN=other", http.StatusForbidden}} {
		end, own, roots := pemStores(t)
		_, url := startOperated(t, t.TempDir(), "admin.forceHttps=true", "admin.needClientAuth=true",
			"ssl.quorum.keyStore.location="+end.KeyStore.Location,
			"ssl.quorum.trustStore.location="+end.TrustStore.Location,
			"authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider",
			"ssl.keyStore.location="+end.KeyStore.Location, "ssl.trustStore.location="+end.TrustStore.Location,
			"X509AuthenticationProvider.superUser="+tc.super)
		client := http.Client{Timeout: scriptDeadline, Transport: &http.Transport{TLSClientConfig: &tls.Config{
			RootCAs: roots, Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12,
		}}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			strings.Replace(url, "http:", "https:", 1)+"/commands/snapshot", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "x509")
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != tc.want {
			t.Errorf("superuser %s: %s %.200s", tc.super, response.Status, body)
		}
	}
}
