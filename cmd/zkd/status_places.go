package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// discover asks a server who else belongs to its ensemble: by /zookeeper/config, or, if that cannot be read or nobody
// leads, by the command conf.
func (f *statusFlags) discover(ctx context.Context, address string) []place {
	ctx, cancel := context.WithTimeout(ctx, 2*f.timeout)
	defer cancel()
	var places []place
	if text, err := f.asker.readConfig(ctx, address, f.timeout); err == nil {
		places = placesOf(text, address, f.asker.secure())
	}
	settled := settle(places, nil)
	if len(places) > 0 && !slices.ContainsFunc(settled, func(p place) bool { return p.unknown }) {
		return settled
	}
	text, err := f.asker.fourLetters(ctx, address, "conf")
	if err != nil {
		return settled
	}
	if len(places) == 0 {
		places = placesOf(text, address, f.asker.secure())
	}
	return settle(places, serverIDOf(text))
}

// serverID asks a server for its id; nil if it does not say it.
func (f *statusFlags) serverID(ctx context.Context, address string) *int64 {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	text, err := f.asker.fourLetters(ctx, address, "conf")
	if err != nil {
		return nil
	}
	return serverIDOf(text)
}

// serverIDOf reads the id from what conf says.
func serverIDOf(text string) *int64 {
	for line := range strings.Lines(text) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "serverId="); ok {
			return parsed(id)
		}
	}
	return nil
}

// placesOf reads where the clients of the servers are from the lines server.N= of a configuration
// (org.apache.zookeeper.server.quorum.QuorumPeer.QuorumServer). A server whose line does not say it is taken to have
// them on the port of the one that was asked; so are all if that was asked with TLS, as no line says where they have
// it.
func placesOf(text, asked string, secure bool) []place {
	var places []place
	_, port, _ := net.SplitHostPort(asked) // it was reached there
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		digits, ok := strings.CutPrefix(name, "server.")
		id, err := strconv.ParseInt(digits, 10, 64)
		peer, clients, hasClients := strings.Cut(value, ";")
		if !ok || err != nil {
			continue
		}
		if hasClients = hasClients && !secure; !hasClients {
			clients = port
		}
		places = append(places, place{id: &id, address: reachable(clients, peerHost(peer)), guessed: !hasClients})
	}
	return places
}

// settle finds the guesses that cannot be right, since another server is there: several servers on one machine. self is
// whom the guess is of, if that is known; else somebody is there, and nobody knows who.
func settle(places []place, self *int64) []place {
	places = slices.Clone(places)
	at := map[string][]int{} // places by address
	for i, p := range places {
		at[p.address] = append(at[p.address], i)
	}
	var somebody []place
	for i := range places {
		p := &places[i]
		same := at[p.address]
		if !p.guessed || len(same) == 1 {
			continue
		}
		isSelf := func(k int) bool { return !places[k].guessed || self != nil && *places[k].id == *self }
		if isSelf(i) {
			continue
		}
		if i == same[0] && !slices.ContainsFunc(same, isSelf) {
			somebody = append(somebody, place{address: p.address})
		}
		p.unknown = true
	}
	for i := range places {
		if places[i].unknown {
			places[i].address, _, _ = net.SplitHostPort(places[i].address) // reachable has joined it
		}
	}
	return append(places, somebody...)
}

// withAsked adds the server that has named the others, if it is none of them: it was removed, or stands alone on the
// data of an ensemble. One that does not say its id is taken to be one of them, under another address.
func (f *statusFlags) withAsked(ctx context.Context, places []place, asked place) []place {
	if slices.ContainsFunc(places, func(p place) bool { return p.address == asked.address }) {
		return places
	}
	id := f.serverID(ctx, asked.address)
	if id == nil || slices.ContainsFunc(places, func(p place) bool { return p.id != nil && *p.id == *id }) {
		return places
	}
	if *id == 0 { // what a server alone says
		id = nil
	}
	return append(places, place{id: id, address: asked.address, stranger: true})
}

// noteStranger says that the server which was asked is none of the others.
func (s *ensembleStatus) noteStranger(places []place) {
	for _, p := range places {
		if p.stranger {
			s.Notes = append(s.Notes, fmt.Sprintf("%s is no member of the ensemble that its /zookeeper/config names",
				p.address))
		}
	}
}

// withNamed adds the servers that the operator has named, where the configuration does not say where all are. Those
// that say who they are, are; as many as do not stand for those of which nothing else is known.
func (f *statusFlags) withNamed(ctx context.Context, places, seeds []place) []place {
	if !slices.ContainsFunc(places, func(p place) bool { return p.unknown }) {
		return places
	}
	for _, seed := range seeds {
		if slices.ContainsFunc(places, func(p place) bool { return !p.unknown && p.address == seed.address }) {
			continue
		}
		id := f.serverID(ctx, seed.address)
		at := slices.IndexFunc(places, func(p place) bool { return p.unknown && id != nil && *p.id == *id })
		if at < 0 {
			places = append(places, seed)
			continue
		}
		places[at].address, places[at].unknown = seed.address, false
	}
	nameless, unknown := 0, 0
	for _, p := range places {
		switch {
		case p.unknown:
			unknown++
		case p.id == nil:
			nameless++
		}
	}
	if nameless >= unknown {
		places = slices.DeleteFunc(places, func(p place) bool { return p.unknown })
	}
	return places
}

// noteUnknown says whose clients' ports nobody knows, and how to name them.
func (s *ensembleStatus) noteUnknown() {
	var ids []string
	nameless := 0
	for i := range s.Servers {
		if s.Servers[i].Unknown {
			ids = append(ids, counted(s.Servers[i].ID))
		} else if s.Servers[i].ID == nil {
			nameless++
		}
	}
	if len(ids) == 0 {
		return
	}
	note := fmt.Sprintf("the lines of the servers %s name no port for clients: name the servers by --server "+
		"host:port,host:port, or add ;port to their lines", strings.Join(ids, ", "))
	if nameless > 0 {
		note += fmt.Sprintf("; %d of them is shown without its id, which the word conf tells: add it to "+
			"4lw.commands.whitelist", nameless)
	}
	s.Notes = append(s.Notes, note)
}

// peerHost is the host of host:port:port, with an IPv6 address in brackets or not.
func peerHost(peer string) string {
	peer, _, _ = strings.Cut(peer, "|")
	if rest, ok := strings.CutPrefix(peer, "["); ok {
		host, _, _ := strings.Cut(rest, "]")
		return host
	}
	host, _, _ := strings.Cut(peer, ":")
	return host
}
