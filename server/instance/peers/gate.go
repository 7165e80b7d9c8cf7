package peers

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"slices"
	"strings"

	"zkd/conf"
	"zkd/quorum/proof"
	"zkd/quorum/transport"
	"zkd/storage/datadir"
)

// prove has the streams prove that they belong to the ensemble, as the configuration asks for.
func (p *Peers) prove(o *transport.Options) (err error) {
	gate := &proof.Gate{}
	if gate.Secret, err = p.secret(); err != nil {
		return err
	}
	if p.opts.Login != nil {
		login := *p.opts.Login
		if login.Mechanism == byKerberos {
			login.Admits = p.admits
		}
		gate.Login = &login
	}
	o.Gate = gate
	return nil
}

// secret reads zkd.quorum.secretFile; nil if there is none.
func (p *Peers) secret() (*proof.Secret, error) {
	e := &p.config.Ensemble
	if e.SecretFile == "" {
		return nil, nil //nolint:nilnil // none, and nothing wrong
	}
	lines, err := ReadSecrets(p.opts.Files, e.SecretFile)
	if err != nil {
		return nil, err
	}
	if !e.SecretRequired {
		p.logger.Warn("quorum secret not required yet: zkd.quorum.secretRequired=false")
	}
	return proof.NewSecret(proof.SecretOptions{Lines: lines, Demand: e.SecretRequired, Random: p.opts.Random})
}

// ReadSecrets reads a file of zkd.quorum.secretFile. One that other users of the machine may read is refused: the
// secret is then theirs, too.
func ReadSecrets(files interface {
	Stat(name string) (fs.FileInfo, error)
	ReadFile(name string) ([]byte, error)
}, file string,
) ([][]byte, error) {
	const key = "zkd.quorum.secretFile"
	info, err := files.Stat(file)
	if err != nil {
		return nil, fmt.Errorf(key+": %w", err)
	}
	if datadir.OpenToOthers(info.Mode()) {
		return nil, fmt.Errorf(key+": %s has mode %#o, and other users of this machine may read or write it: "+
			"chmod o-rwx %s", file, info.Mode().Perm(), file)
	}
	text, err := files.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf(key+": %w", err)
	}
	lines, err := proof.ParseSecrets(text)
	if err != nil {
		return nil, fmt.Errorf(key+" %s: %w", file, err)
	}
	return lines, nil
}

// Guarded tells whether nobody comes in at a server's port for the others without a certificate or a proof.
func Guarded(c *conf.Config) bool {
	certified := c.TLS.QuorumEnabled && !c.TLS.QuorumPortUnification && c.TLS.Quorum.ClientAuth == "need"
	return certified || c.Ensemble.SecretFile != "" && c.Ensemble.SecretRequired || c.Auth.QuorumServerRequireSASL
}

// byKerberos is the mechanism whose names have hosts.
const byKerberos = "GSSAPI"

// errNoMember is of a principal that is not of a member's host.
var errNoMember = errors.New("the host of the principal is none of a member")

// admits refuses a principal whose host is not one of the ensemble's
// (org.apache.zookeeper.server.quorum.auth.SaslQuorumServerCallbackHandler): of the server lines, or of the members as
// they have been agreed on.
func (p *Peers) admits(principal string) error {
	_, rest, _ := strings.Cut(principal, "/")
	host, _, _ := strings.Cut(rest, "@")
	members := p.configured.Servers
	if agreed, err := p.agreed(); err == nil && agreed != nil {
		members = slices.Concat(members, agreed.Servers)
	}
	for i := range members {
		for _, a := range members[i].Addresses {
			if host != "" && strings.EqualFold(a.Host, host) {
				return nil
			}
		}
	}
	return fmt.Errorf("%w: %s", errNoMember, principal)
}

// warnOfStrangers logs that whoever reaches a listener may claim to be a server of the ensemble.
func (p *peerPorts) warnOfStrangers(l net.Listener) {
	tcp, ok := l.Addr().(*net.TCPAddr)
	if p.guarded || ok && tcp.IP.IsLoopback() {
		return
	}
	p.logger.Warn("peer port open to strangers: set zkd.quorum.secretFile or sslQuorum",
		slog.String("address", l.Addr().String()))
}
