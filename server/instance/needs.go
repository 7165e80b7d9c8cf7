package instance

import (
	"log/slog"
	"strings"

	"zkd/conf"
	"zkd/server/fourletter"
	"zkd/server/instance/peers"
)

// Port is one that a server listens on.
type Port struct {
	Key     string // of the configuration
	Address string
	Needed  bool // the server does not start without it; of those of the other servers one is enough
}

// Ports are those that a server with a configuration listens on. agreed are the members as the state has them, "" if it
// has none: a reconfig may have moved the port for the other servers.
func Ports(c *conf.Config, agreed string) ([]Port, error) {
	var ports []Port
	if c.Client.Addr != "" || c.Client.SecureAddr == "" {
		ports = append(ports, Port{clientKey, c.Client.Addr, true})
	}
	if c.Client.SecureAddr != "" {
		ports = append(ports, Port{secureClientKey, c.Client.SecureAddr, true})
	}
	if c.Ensemble.Distributed {
		addresses, err := peers.Addresses(c, agreed)
		if err != nil {
			return nil, err
		}
		for _, a := range addresses {
			ports = append(ports, Port{peersKey, a, len(addresses) == 1})
		}
	}
	if m := &c.Metrics; m.Prometheus {
		if m.Port >= 0 && m.Port != m.TLSPort {
			ports = append(ports, Port{metricsKey, joinPort(m.Host, m.Port), true})
		}
		if m.TLSPort >= 0 {
			ports = append(ports, Port{"metricsProvider.httpsPort", joinPort(m.Host, m.TLSPort), true})
		}
	}
	if c.Admin.Enabled {
		ports = append(ports, Port{adminKey, c.Admin.Addr, mustAdmin(c)})
	}
	return ports, nil
}

// Keys of the configuration that have a port; peersKey stands for the lines that say where servers listen for each
// other.
const (
	clientKey       = "clientPort"
	secureClientKey = "secureClientPort"
	peersKey        = "server.N"
	metricsKey      = "metricsProvider.httpPort"
	adminKey        = "admin.serverPort"
)

// purpose is what a port is opened for, as an error has it.
func purpose(key string) string {
	switch key {
	case clientKey:
		return "listen for clients (clientPort, clientPortAddress)"
	case secureClientKey:
		return "listen for clients (secureClientPort, secureClientPortAddress)"
	case peersKey:
		return peers.ListenPurpose
	case adminKey:
		return "serve operators (admin.serverPort; or set admin.enableServer to false)"
	default:
		return "serve metrics (metricsProvider.className)"
	}
}

// AnyFree tells whether a port of any number is asked for.
func (p *Port) AnyFree() bool { return strings.HasSuffix(p.Address, ":0") }

// Stores are the key and trust stores of one of a server's uses of TLS.
type Stores struct {
	Prefix  string // of the keys of the configuration
	End     conf.TLSEnd
	Clients bool // only clients connect
	Needed  bool // the server does not start without them
}

// TLSStores are those that a server with a configuration opens.
func TLSStores(c *conf.Config) []Stores {
	var stores []Stores
	if c.Ensemble.Distributed && (c.TLS.QuorumEnabled || c.TLS.QuorumPortUnification) {
		stores = append(stores, Stores{"ssl.quorum.", c.TLS.Quorum, false, true})
	}
	if c.ClientTLS() {
		stores = append(stores, Stores{"ssl.", c.TLS.Client, true, true})
	}
	if m := &c.Metrics; m.Prometheus && m.TLSPort >= 0 {
		stores = append(stores, Stores{"metricsProvider.ssl.", operatorsEnd(m.TLS, m.NeedClientAuth), false, true})
	}
	if a := &c.Admin; a.Enabled && (a.ForceHTTPS || a.PortUnification) {
		end := operatorsEnd(c.TLS.Quorum, a.NeedClientAuth)
		stores = append(stores, Stores{"ssl.quorum.", end, false, mustAdmin(c)})
	}
	return stores
}

// operatorsEnd is how stores are used at a port for operators.
func operatorsEnd(end conf.TLSEnd, needCertificate bool) conf.TLSEnd {
	end.ClientAuth, end.ClientHostnameVerification = "none", false
	if needCertificate {
		end.ClientAuth = "need"
	}
	return end
}

// CheckLogins tells what is wrong with what clients, and the other servers, prove who they are by.
func CheckLogins(c *conf.Config, w *World) []error {
	_, clients := newAuthentication(c, w, slog.New(slog.DiscardHandler))
	_, servers := newQuorumLogin(c, w)
	return []error{clients, servers}
}

// UnknownWords are what 4lw.commands.whitelist names and what is no command.
func UnknownWords(c *conf.Config) []string { return newWords(c, "").Unknown() }

// newWords returns the four-letter commands that are answered.
func newWords(c *conf.Config, version string) *fourletter.Commands {
	return fourletter.New(fourletter.Options{Whitelist: strings.Join(c.Commands.Whitelist, ","),
		ReadOnlyMode: c.Client.ReadOnlyMode, Version: version})
}
