package sasl_test

import (
	_ "embed"
	"flag"
	"os"
	"testing"
	"time"

	"zkd/compat-tests/kdc"
	"zkd/compat-tests/target"
)

var update = flag.Bool("update", false, "record the transcripts anew from the real ZooKeeper")

func TestMain(m *testing.M) { os.Exit(target.Main(m, "sasl")) }

// provider is the setting that lets ACLs name SASL users.
const (
	providerKey = "authProvider.1"
	provider    = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
)

// serverLogins are the users of the servers.
const serverLogins = `// The users.
Server {
	org.apache.zookeeper.server.auth.DigestLoginModule required /* as ever */
	user_super="adminsecret"
	user_bob="bob \"secret\""
	user_root="rootsecret"
	"user_a@b@c"="x"
	"user_bob@EXAMPLE.COM"="y";
};
`

// jvmFlag sets a JVM property.
func jvmFlag(name, value string) string { return "-D" + name + "=" + value }

// start starts a server with the users, and these keys and flags besides.
func start(t *testing.T, keys map[string]string, flags ...string) *target.Server {
	t.Helper()
	config := map[string]string{providerKey: provider}
	for key, value := range keys { // any order: the keys differ
		config[key] = value
	}
	file := target.WriteFile(t, "jaas.conf", serverLogins)
	return target.Start(t, target.Options{
		Config: config, JVMFlags: append(flags, jvmFlag("java.security.auth.login.config", file)),
	})
}

// clientLogins are the logins that the programs choose from.
const clientLogins = `
Bob { org.apache.zookeeper.server.auth.DigestLoginModule required username="bob" password="bob \"secret\""; };
Root { org.apache.zookeeper.server.auth.DigestLoginModule required username="root" password="rootsecret"; };
Wrong { org.apache.zookeeper.server.auth.DigestLoginModule required username="bob" password="wrong"; };
Nobody { org.apache.zookeeper.server.auth.DigestLoginModule required username="nobody" password="x"; };
`

//go:embed pom.xml
var pom string

// javaWithin bounds a run of the Java program.
const javaWithin = 6 * time.Minute

// java runs the program with these logins.
func java(t *testing.T, version, logins string, flags []string, args ...string) string {
	t.Helper()
	argv := append([]string{"java"}, target.JVMOptions(t)...)
	argv = append(argv, "-cp", target.JavaClasses(t, "src", target.Classpath(t, pom, "zookeeper.version="+version)),
		"-Dcompat.loglevel=OFF", "-Dzookeeper.fips-mode=false",
		jvmFlag("java.security.auth.login.config", target.WriteFile(t, "client.conf", logins)))
	argv = append(append(argv, flags...), "Login")
	out, err := target.Client{Argv: append(argv, args...), Within: javaWithin}.Run(t)
	if err != nil {
		t.Fatalf("the program failed: %v", err)
	}
	return out
}

// pair is a server that demands SASL and one that does not.
func pair(t *testing.T) (open, enforced string) {
	t.Helper()
	// A list of one word, as a key that ends in a number: both are read.
	super := jvmFlag("zookeeper.superUser.1", "root")
	open = start(t, nil, super).Addr
	return open, start(t, map[string]string{"sessionRequireClientSASLAuth": "true"}, super).Addr
}

// TestJava logs in with the Java client and with Curator.
func TestJava(t *testing.T) {
	for _, line := range []struct{ name, version string }{
		{"3.9", target.ServerVersion}, {"3.8", target.ServerVersion38},
	} {
		t.Run(line.name, func(t *testing.T) {
			target.Require(t, target.Java, target.Maven)
			t.Parallel() // the programs mostly wait
			open, enforced := pair(t)
			target.Golden(t, "java-"+line.name, java(t, line.version, clientLogins, nil, open, enforced), *update)
		})
	}
}

// TestKerberos logs in by GSSAPI with tickets of a KDC, with the Java client (which asks for no mutual authentication)
// and with Kazoo (which does).
func TestKerberos(t *testing.T) {
	target.Require(t, target.Java, target.Maven, target.Python, kdc.Tool, gssapiTool)
	k := kdc.Start(t)
	config := jvmFlag("java.security.krb5.conf", k.Config)
	logins := target.WriteFile(t, "server.conf", k.Logins(map[string]string{"Server": kdc.Server}))
	for _, c := range []struct {
		name  string
		flags []string
	}{
		{"plain", nil},
		{"short", []string{
			jvmFlag("zookeeper.kerberos.removeHostFromPrincipal", "true"),
			jvmFlag("zookeeper.kerberos.removeRealmFromPrincipal", "true"), jvmFlag("zookeeper.superUser", "alice"),
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := target.Start(t, target.Options{
				Config: map[string]string{providerKey: provider},
				JVMFlags: append([]string{config, jvmFlag("java.security.auth.login.config", logins)},
					c.flags...),
			})
			clients := k.Logins(map[string]string{"Bob": kdc.Bob, "Alice": kdc.Alice})
			// The name of the server is in the ticket.
			addr := "localhost:" + s.Port()
			out := java(t, target.ServerVersion, clients, []string{config}, addr)
			out += gssapiKazoo(t, k, kdc.Bob, addr)
			target.Golden(t, "kerberos-"+c.name, out, *update)
		})
	}
}
