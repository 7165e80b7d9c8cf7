package main

import (
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"

	"zkd/conf/jaas"
	"zkd/quorum/clock"
	"zkd/server/auth/sasl"
	"zkd/server/auth/sasl/gssapi"
)

// errNoKeytab means a login module that asks for tickets in another way than with a keytab.
var errNoKeytab = errors.New(
	`Krb5LoginModule needs useKeyTab="true", keyTab="<file>" and principal="service/host@REALM"`,
)

// kerberosMechanism is GSSAPI with the keytab of a login module (com.sun.security.auth.module.Krb5LoginModule).
func kerberosMechanism(m *jaas.Module, kerberos jaas.Kerberos) (sasl.Mechanism, error) {
	file := strings.TrimPrefix(m.Option("keyTab"), "FILE:")
	principal := m.Option("principal")
	if m.Option("useKeyTab") != "true" || file == "" || principal == "" {
		return nil, fmt.Errorf("line %d: %w", m.Line, errNoKeytab)
	}
	if !strings.Contains(principal, "@") {
		principal += "@" + kerberos.DefaultRealm
	}
	acceptor, err := gssapi.NewKerberos(gssapi.KerberosOptions{
		Principal: principal, ClockSkew: kerberos.ClockSkew, Clock: clock.Real(), Random: cryptorand.Reader,
		Keytab: func() ([]byte, error) { return os.ReadFile(file) }, //nolint:gosec // the operator names it
	})
	if err != nil {
		return nil, fmt.Errorf("line %d: keytab %s: %w", m.Line, file, err)
	}
	return gssapi.New(acceptor), nil
}
