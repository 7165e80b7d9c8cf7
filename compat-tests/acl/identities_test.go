package acl_test

import (
	"net"
	"testing"
	"time"

	"zkd/compat-tests/target"
	"zkd/jute"
	"zkd/jute/client"
)

// identity is one who asks, and what the ACL of the znode grants its permissions to.
type identity struct {
	name  string
	grant jute.ID
	who   proof
	// owner proves the identities that the scheme auth stands for: it makes the znode. nil is the superuser.
	owner proof
}

// proof opens a connection and proves who is at its end.
type proof func(t *testing.T, addr string) *client.Conn

// The identities. A scheme with its own way to connect is one line here: its proof connects as it likes.
var identities = []identity{
	{name: "world", grant: id("world", "anyone"), who: nobody},
	{name: "digest: the user", grant: digestOf("bob", "pw"), who: packets("digest", "bob:pw")},
	{name: "digest: among others", grant: digestOf("bob", "pw"), who: packets("digest", "eve:pw", "digest", "bob:pw")},
	{name: "digest: another user", grant: digestOf("bob", "pw"), who: packets("digest", "eve:pw")},
	{name: "digest: another password", grant: digestOf("bob", "pw"), who: packets("digest", "bob:no")},
	{name: "digest: nobody", grant: digestOf("bob", "pw"), who: nobody},
	{name: "auth: the owner", grant: id("auth", ""), owner: packets("digest", "bob:pw"),
		who: packets("digest", "bob:pw")},
	{name: "auth: another user", grant: id("auth", ""), owner: packets("digest", "bob:pw"),
		who: packets("digest", "eve:pw")},
	{name: "auth: one of two", grant: id("auth", ""), owner: packets("digest", "bob:pw", "digest", "eve:pw"),
		who: packets("digest", "eve:pw")},
	{name: "ip: the address", grant: id("ip", "127.0.0.1"), who: nobody},
	{name: "ip: the network", grant: id("ip", "127.0.0.0/8"), who: nobody},
	{name: "ip: another address", grant: id("ip", "127.0.0.2"), who: nobody},
	{name: "ip: another network", grant: id("ip", "10.0.0.0/8"), who: nobody},
	{name: "super", grant: digestOf("bob", "pw"), who: super},
}

// id is an identity of an ACL.
func id(scheme, name string) jute.ID { return jute.ID{Scheme: scheme, ID: name} }

// digestOf is what the scheme digest stores for a user.
func digestOf(user, password string) jute.ID { return id("digest", target.DigestOf(user, password)) }

// nobody has its address and nothing else.
func nobody(t *testing.T, addr string) *client.Conn {
	t.Helper()
	return open(t, client.Options{Addr: addr, Dial: new(net.Dialer).DialContext})
}

// open opens a session, which is left at the end of the test.
func open(t *testing.T, o client.Options) *client.Conn {
	t.Helper()
	o.Now = time.Now
	c, err := client.Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Cut)
	return c
}

// packets sends auth packets, scheme and data by turns.
func packets(schemes ...string) proof {
	return func(t *testing.T, addr string) *client.Conn {
		t.Helper()
		c := nobody(t, addr)
		for i := 0; i < len(schemes); i += 2 {
			if code, err := c.Auth(schemes[i], schemes[i+1]); err != nil || code != jute.OK {
				t.Fatalf("auth %s: %v, %v", schemes[i], code, err)
			}
		}
		return c
	}
}

// super is the superuser.
var super = packets("digest", target.SuperUser+":"+target.SuperPassword)
