package sasl_test

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"

	"zkd/compat-tests/target"
)

// TestOverTLS logs in by DIGEST-MD5 on the port for TLS, with the Java client, Curator and Kazoo.
func TestOverTLS(t *testing.T) {
	target.Require(t, target.Java, target.Maven, target.Python)
	t.Parallel() // the programs mostly wait
	keyStore, trustStore := target.SelfSigned(t, "localhost")
	port := fmt.Sprint(target.FreePort(t))
	addr := net.JoinHostPort("127.0.0.1", port)
	start(t, map[string]string{
		"secureClientPort": port, "secureClientPortAddress": "127.0.0.1", "ssl.clientAuth": "none",
		"ssl.keyStore.location": keyStore,
		"serverCnxnFactory":     "org.apache.zookeeper.server.NettyServerCnxnFactory",
	}, jvmFlag("zookeeper.superUser.1", "root"))
	out := java(t, target.ServerVersion, clientLogins, []string{
		jvmFlag("zookeeper.client.secure", "true"),
		jvmFlag("zookeeper.clientCnxnSocket", "org.apache.zookeeper.ClientCnxnSocketNetty"),
		jvmFlag("zookeeper.ssl.trustStore.location", trustStore),
	}, addr)
	kazoo, err := target.Client{
		Argv:   []string{python(t), filepath.Join("testdata", "login.py"), "DIGEST-MD5", "ca=" + trustStore, addr},
		Within: kazooWithin,
	}.Run(t)
	if err != nil {
		t.Fatalf("the program failed: %v", err)
	}
	target.Golden(t, "tls", out+kazoo, *update)
}
