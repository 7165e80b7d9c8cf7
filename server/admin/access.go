package admin

import (
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"zkd/jute"
	"zkd/server/auth"
)

// access is who may run a command.
type access int

const (
	anyone     access = iota // it tells figures, and which part the server has among the others
	operator                 // it changes something, or tells of clients, paths, the machine or the configuration
	superusers               // it takes or replaces the whole state
)

// allowed reports whether the client may run c, which it has called name; else it has been answered.
func (s *Server) allowed(w http.ResponseWriter, r *http.Request, c *command, name string) bool {
	switch {
	case c.access == superusers:
		return s.permitted(w, r, name)
	case c.access == operator && !s.fromOperator(r):
		s.deny(w, r, name)
		return false
	}
	return true
}

// deny answers a client that may not run a command, and logs it.
func (s *Server) deny(w http.ResponseWriter, r *http.Request, name string) {
	s.opts.Logger.Warn("admin request denied", slog.String("command", name), slog.String("peer", r.RemoteAddr))
	s.refuse(w, r, http.StatusForbidden, name, "Not authorized")
}

// fromOperator reports whether a client may have the commands of operators: it is on this machine, has shown a
// certificate that the port demands, or proves to be a superuser; or the configuration has said where operators are.
//
// Deviation: ZooKeeper answers everybody.
func (s *Server) fromOperator(r *http.Request) bool {
	if s.opts.Anywhere || s.opts.NeedCertificate && r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		return true
	}
	if fromHere(r) {
		return true
	}
	header := r.Header.Get("Authorization")
	return header != "" && isSuper(s.identities(r, header))
}

// fromHere reports whether the client is on this machine. What a proxy there hands on comes from elsewhere.
func fromHere(r *http.Request) bool {
	if r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != "" {
		return false
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && peer.Addr().Unmap().IsLoopback()
}

// guard lets only operators come to h.
func (s *Server) guard(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.fromOperator(r) {
			s.deny(w, r, r.URL.Path)
			return
		}
		h(w, r)
	}
}

// permitted reports whether the client may take and restore snapshots; else it has been answered.
//
// Deviation: ZooKeeper asks for all permissions on the root, which by default everybody has, or can give himself. Here
// the client must be super; no ACL and no skipACL helps.
func (s *Server) permitted(w http.ResponseWriter, r *http.Request, name string) bool {
	header := r.Header.Get("Authorization")
	if header == "" {
		s.refuse(w, r, http.StatusUnauthorized, name, "Auth info is missing for the command")
		return false
	}
	ids := s.identities(r, header)
	switch {
	case len(ids) == 0:
		s.opts.Logger.Warn("admin authentication failed", slog.String("command", name),
			slog.String("peer", r.RemoteAddr))
		s.refuse(w, r, http.StatusUnauthorized, name, "Not authenticated")
	case !isSuper(ids):
		s.deny(w, r, name)
	default:
		return true
	}
	return false
}

// isSuper reports whether the superuser is among the identities.
func isSuper(ids []jute.ID) bool {
	return slices.ContainsFunc(ids, func(id jute.ID) bool { return id.Scheme == auth.SchemeSuper })
}

// identities is who the client proves to be by a header "scheme" or "scheme auth" (Commands.handleAuthentication).
func (s *Server) identities(r *http.Request, header string) []jute.ID {
	parts := strings.Split(strings.TrimRight(header, " "), " ")
	if len(parts) > 2 {
		return nil
	}
	remote, ok := s.remote(r)
	if !ok {
		return nil
	}
	switch scheme := parts[0]; scheme {
	case auth.SchemeIP:
		return []jute.ID{{Scheme: scheme, ID: auth.HostAddress(remote)}}
	case auth.SchemeX509:
		if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 || s.opts.Certificate == nil {
			return nil
		}
		return s.opts.Certificate(r.TLS.PeerCertificates[0])
	default:
		p := s.opts.Registry.Provider(scheme)
		if p == nil || len(parts) != 2 {
			return nil
		}
		ids, ok := p.Authenticate(remote, []byte(parts[1]))
		if !ok {
			return nil
		}
		return ids
	}
}

// remote is the client's address (IPAuthenticationProvider.getClientIPAddress).
func (s *Server) remote(r *http.Request) (netip.Addr, bool) {
	if header := r.Header.Get("X-Forwarded-For"); s.opts.ForwardedFor && header != "" {
		first, _, _ := strings.Cut(header, ",")
		a, err := netip.ParseAddr(strings.TrimSpace(first))
		return a.Unmap(), err == nil
	}
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	return a.Addr().Unmap(), err == nil
}
