package published_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zkd/compat-tests/target"
)

// keytoolCommands make the stores that ZooKeeper's tests look for in the folder ssl, which is not published with them.
var keytoolCommands = []string{
	"-genkeypair -alias own -keyalg RSA -dname CN=localhost -ext san=dns:localhost,ip:127.0.0.1 " +
		"-keystore testKeyStore.jks",
	"-exportcert -alias own -keystore testKeyStore.jks -file own.der",
	"-importcert -alias own -file own.der -noprompt -keystore testTrustStore.jks",
	"-genkeypair -alias other -keyalg RSA -dname CN=other -keystore testUntrustedKeyStore.jks",
}

// keyStores returns a directory with those stores, valid for ten years.
func keyStores(t *testing.T) string {
	t.Helper()
	target.Uses(t, "keytool")
	return target.Cached(t, "published-stores", keytoolCommands, func(ctx context.Context, dir string) error {
		ssl := filepath.Join(dir, "ssl")
		if err := os.Mkdir(ssl, 0o750); err != nil {
			return err
		}
		for _, command := range keytoolCommands {
			args := append(strings.Fields(command), "-storepass", "testpass", "-storetype", "JKS")
			if strings.HasPrefix(command, "-genkeypair") {
				args = append(args, "-keypass", "testpass", "-validity", "3650")
			}
			if err := target.Execute(ctx, ssl, "keytool", args...); err != nil {
				return err
			}
		}
		return nil
	})
}
