package attack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"

	"zkd/compat-tests/target"
	"zkd/jute"
	"zkd/jute/client"
)

// Settings of the attacks on what is others'.
const (
	commandsFull  = 200
	garbageBytes  = 1 << 20
	quotaOfZero   = "count=0,bytes=0=;byteHardLimit=0;countHardLimit=0"
	ownersData    = 100
	operator      = "mallory"
	operatorsWord = "m"
)

// quotas limits a path that belongs to somebody else to nothing.
var quotas = Attack{
	Name: "a quota on the path of somebody else",
	Prepare: func(f *Field) error {
		return f.Session(func(c *client.Conn) error {
			if err := create(c, "/prod", nil); err != nil {
				return err
			}
			return must(c, jute.OpSetACL, (&jute.SetACLRequest{Path: "/prod", Version: -1, ACL: []jute.ACL{
				{Perms: jute.PermAll, ID: jute.ID{Scheme: "digest", ID: target.DigestOf("owner", "o")}},
			}}).Append)
		})
	},
	Run: func(f *Field) error {
		err := f.Session(func(c *client.Conn) error {
			for _, step := range []struct{ path, data string }{
				{"/zookeeper/quota/prod", ""}, {"/zookeeper/quota/prod/zookeeper_limits", quotaOfZero},
				{"/zookeeper/quota/prod/zookeeper_stats", "count=0,bytes=0"},
			} {
				if err := create(c, step.path, []byte(step.data)); err != nil {
					return fmt.Errorf("create %s: %w", step.path, err)
				}
			}
			return nil
		})
		if err != nil {
			f.Note("%v", err)
		}
		return f.Session(func(c *client.Conn) error {
			if code, err := c.Auth("digest", "owner:o"); err != nil || code != jute.OK {
				return fmt.Errorf("the owner: %v, %w", code, err)
			}
			header, _, err := c.Do(jute.OpSetData,
				(&jute.SetDataRequest{Path: "/prod", Data: make([]byte, ownersData), Version: -1}).Append)
			f.Note("the owner's write: %v", header.Err)
			f.lockedOut = header.Err != jute.OK
			return err
		})
	},
	Check: func(f *Field) error {
		if f.lockedOut {
			return errors.New("the owner was locked out")
		}
		return nil
	},
}

// adminCommands takes the right to everything in / by its default ACL, and asks the admin server for the state, and to
// take another one.
var adminCommands = Attack{
	Name: "snapshot and restore by a stranger",
	Config: func(tb testing.TB) (map[string]string, []string) {
		port := strconv.Itoa(target.FreePort(tb))
		return map[string]string{
				"admin.enableServer": "true", "admin.serverPort": port, "admin.serverAddress": "127.0.0.1",
			}, []string{
				"-Dzookeeper.admin.enableServer=true", "-Dzookeeper.admin.snapshot.intervalInMS=0",
				"-Dzookeeper.admin.restore.intervalInMS=0",
			}
	},
	Run: func(f *Field) error {
		err := f.Session(func(c *client.Conn) error {
			mallory := jute.ID{Scheme: "digest", ID: target.DigestOf(operator, operatorsWord)}
			return must(c, jute.OpSetACL, (&jute.SetACLRequest{Path: "/", Version: -1,
				ACL: append([]jute.ACL{{Perms: jute.PermAll, ID: mallory}}, open...)}).Append)
		})
		if err != nil {
			f.Note("set the ACL of /: %v", err)
		}
		base := "http://" + net.JoinHostPort("127.0.0.1", f.Config["admin.serverPort"]) + "/commands/"
		for i := 0; i < f.N(commandsFull, 4) && !f.Over(); i++ {
			err = errors.Join(f.command(http.MethodGet, base+"snapshot?streaming=true", nil),
				f.command(http.MethodPost, base+"restore", make([]byte, garbageBytes)))
			if err != nil {
				return err
			}
		}
		return nil
	},
	Check: func(f *Field) error {
		if f.leaked {
			return errors.New("a stranger has had the state")
		}
		return nil
	},
}

// command asks the admin server for something in the name of who has set the ACL of /.
func (f *Field) command(method, url string, body []byte) error {
	ctx, cancel := context.WithTimeout(f.ctx, callWithin)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "digest "+operator+":"+operatorsWord)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		f.Note("%s: cut off", method)
		return nil //nolint:nilerr // an answer, too
	}
	defer answer.Body.Close()
	n, _ := io.Copy(io.Discard, answer.Body) // as much as comes
	what := "refused"
	if answer.StatusCode == http.StatusOK {
		what = "taken"
		f.leaked = f.leaked || method == http.MethodGet && n > 0
	}
	f.Note("%s: %d, %s", method, answer.StatusCode, what)
	return nil
}
