package instance

import (
	"errors"
	"fmt"
	"strings"

	"zkd/conf/jaas"
	"zkd/server/auth/sasl"
	"zkd/server/auth/sasl/gssapi"
)

// errNoKeytab means a login module that asks for tickets in another way than with a keytab.
var errNoKeytab = errors.New(
	`Krb5LoginModule needs useKeyTab="true", keyTab="<file>" and principal="service/host@REALM"`,
)

// kerberosMechanism is GSSAPI with the keytab of a login module (com.sun.security.auth.module.Krb5LoginModule).
func kerberosMechanism(m *jaas.Module, kerberos jaas.Kerberos, w *World) (sasl.Mechanism, error) {
	principal, file, err := keytabOf(m, kerberos)
	if err != nil {
		return nil, err
	}
	acceptor, err := gssapi.NewKerberos(gssapi.KerberosOptions{
		Principal: principal, ClockSkew: kerberos.ClockSkew, Clock: w.Clock, Random: w.Random,
		Keytab: func() ([]byte, error) { return w.Files.ReadFile(file) },
	})
	if err != nil {
		return nil, fmt.Errorf("line %d: keytab %s: %w", m.Line, file, err)
	}
	return gssapi.New(gssapi.Guard(acceptor, gssapi.GuardOptions{Clock: w.Clock, AtOnce: handshakesComputing()})), nil
}

// keytabOf returns the principal of a login module, and the file with its keys.
func keytabOf(m *jaas.Module, kerberos jaas.Kerberos) (principal, file string, err error) {
	file, principal = strings.TrimPrefix(m.Option("keyTab"), "FILE:"), m.Option("principal")
	if m.Option("useKeyTab") != "true" || file == "" || principal == "" {
		return "", "", fmt.Errorf("line %d: %w", m.Line, errNoKeytab)
	}
	if !strings.Contains(principal, "@") {
		principal += "@" + kerberos.DefaultRealm
	}
	return principal, file, nil
}
