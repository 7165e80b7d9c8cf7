package instance

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"zkd/conf"
	"zkd/conf/jaas"
	"zkd/quorum/proof"
	"zkd/server/auth/sasl"
	"zkd/server/auth/sasl/gssapi"
)

// Why the sections of servers do not do.
var (
	errNoJAAS         = errors.New("quorum.auth.enableSasl=true needs java.security.auth.login.config")
	errOtherMechanism = errors.New("one of the sections for servers is for Kerberos, the other one is not")
	errNoLogin        = errors.New(`DigestLoginModule needs username="<name>" and password="<password>"`)
	errNoQuorumUsers  = errors.New(`DigestLoginModule needs user_<name>="<password>"`)
)

// newQuorumLogin returns how servers of the ensemble log in at each other, nil if they do not
// (org.apache.zookeeper.server.quorum.auth). A server accepts logins by the section QuorumServer, and logs in by
// QuorumLearner if quorum.auth.learnerRequireSasl says so.
func newQuorumLogin(c *conf.Config, w *World) (*proof.Login, error) {
	a := &c.Auth
	if !a.QuorumSASL || !c.Ensemble.Distributed {
		return nil, nil //nolint:nilnil // none, and nothing wrong
	}
	if a.JAASFile == "" {
		return nil, errNoJAAS
	}
	logins, file, err := readLogins(a, w.Files)
	if err != nil {
		return nil, err
	}
	q := quorumSections{auth: a, world: w}
	for _, s := range [...]struct {
		name string
		to   *jaas.Section
	}{{a.QuorumServerSection, &q.server}, {a.QuorumLearnerSection, &q.learner}} {
		found, ok := logins.Section(s.name)
		if !ok || len(found.Modules) == 0 {
			return nil, fmt.Errorf("java.security.auth.login.config %s: no section %s", file, s.name)
		}
		*s.to = found
	}
	if q.kerberos, err = readKerberos(a, w.Files); err != nil {
		return nil, err
	}
	login, err := q.login()
	if err != nil {
		return nil, fmt.Errorf("java.security.auth.login.config %s: %w", file, err)
	}
	login.Demand = a.QuorumServerRequireSASL
	if !a.QuorumLearnerRequireSASL { // SaslQuorumAuthLearner.authenticate
		login.Dial = nil
	}
	return login, nil
}

// quorumSections are the sections of a JAAS file by which servers log in at each other.
type quorumSections struct {
	auth            *conf.Auth
	world           *World
	kerberos        jaas.Kerberos
	server, learner jaas.Section
}

// login is what the sections say: both are for the same mechanism.
func (q *quorumSections) login() (*proof.Login, error) {
	accepts, err := kerberosModule(&q.server)
	if err != nil {
		return nil, fmt.Errorf("section %s: %w", q.server.Name, err)
	}
	dials, err := kerberosModule(&q.learner)
	switch {
	case err != nil:
		return nil, fmt.Errorf("section %s: %w", q.learner.Name, err)
	case (accepts == nil) != (dials == nil):
		return nil, errOtherMechanism
	case accepts == nil:
		return q.byDigest()
	default:
		return q.byKerberos(accepts, dials)
	}
}

// byDigest is DIGEST-MD5.
func (q *quorumSections) byDigest() (*proof.Login, error) {
	users := q.server.Users()
	if len(users) == 0 {
		return nil, fmt.Errorf("section %s: %w", q.server.Name, errNoQuorumUsers)
	}
	mechanism := sasl.NewDigestMD5(sasl.DigestOptions{
		Users: users, Service: sasl.QuorumService, Realm: sasl.QuorumRealm, Random: q.world.Random,
	})
	login := sasl.DigestLogin{Service: sasl.QuorumService, Realm: sasl.QuorumRealm, Random: q.world.Random}
	for i := range q.learner.Modules { // the last one wins, as for users
		if name := q.learner.Modules[i].Option("username"); name != "" {
			login.User, login.Password = name, q.learner.Modules[i].Option("password")
		}
	}
	if login.User == "" || login.Password == "" {
		return nil, fmt.Errorf("section %s: %w", q.learner.Name, errNoLogin)
	}
	return &proof.Login{
		Mechanism: mechanism.Name(),
		Begin:     func() proof.Acceptor { return mechanism.Begin() },
		Dial:      func(context.Context, string) (proof.Initiator, error) { return login.Begin(), nil },
	}, nil
}

// byKerberos is GSSAPI.
func (q *quorumSections) byKerberos(accepts, dials *jaas.Module) (*proof.Login, error) {
	mechanism, err := kerberosMechanism(accepts, q.kerberos, q.world)
	if err != nil {
		return nil, fmt.Errorf("section %s: %w", q.server.Name, err)
	}
	principal, file, err := keytabOf(dials, q.kerberos)
	if err != nil {
		return nil, fmt.Errorf("section %s: %w", q.learner.Name, err)
	}
	text, err := q.world.Files.ReadFile(q.auth.KerberosConfig)
	if err != nil {
		return nil, fmt.Errorf("read java.security.krb5.conf, which says where the KDC is: %w", err)
	}
	login, err := gssapi.NewLogin(gssapi.LoginOptions{
		Principal: principal, Keytab: func() ([]byte, error) { return q.world.Files.ReadFile(file) },
		Config: string(text), Clock: q.world.Clock,
	})
	if err != nil {
		return nil, fmt.Errorf("section %s: line %d: keytab %s: %w", q.learner.Name, dials.Line, file, err)
	}
	service := q.auth.QuorumPrincipal
	return &proof.Login{
		Mechanism: mechanism.Name(),
		Begin:     func() proof.Acceptor { return mechanism.Begin() },
		Dial: func(_ context.Context, host string) (proof.Initiator, error) {
			return login.Begin(servicePrincipal(service, host))
		},
	}, nil
}

// servicePrincipal puts the host of a server in place of _HOST (SecurityUtils.getServerPrincipal).
func servicePrincipal(principal, host string) string {
	service, rest, found := strings.Cut(principal, "/")
	if name, realm, _ := strings.Cut(rest, "@"); found && name == "_HOST" {
		if principal = service + "/" + strings.ToLower(host); realm != "" {
			principal += "@" + realm
		}
	}
	return principal
}
