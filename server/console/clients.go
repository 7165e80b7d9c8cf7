package console

import (
	"log/slog"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"zkd/jute"
	"zkd/server/console/survey"
)

// clients is what the page of sessions shows.
type clients struct {
	Rows     []clientRow
	Problems []string // servers that do not tell
	Total    int
	Filter   string
	Page     int
	Pages    int
	HasPrev  bool
	HasNext  bool
	PrevPage int
	NextPage int
	Own      int64 // this console's session
}

// clientRow is a client of the table.
type clientRow struct {
	survey.Connection
	Ephemerals, Watches int
	KnowsOwned          bool // what it owns is known
	OwnedPaths          []string
}

// clientsShown is how many are on a page, and pathsShown how many of a session's ephemerals.
const (
	clientsShown = 100
	pathsShown   = 20
)

// sessionsPage shows who is connected.
func sessionsPage(c *Console, w http.ResponseWriter, r *request) error {
	r.ensemble.look(r.ctx, c, r.visitor)
	p := &clients{Filter: r.URL.Query().Get("filter")}
	all := p.gather(r)
	if p.Filter != "" {
		wanted := strings.ToLower(p.Filter)
		all = slices.DeleteFunc(all, func(c survey.Connection) bool {
			return !strings.Contains(strings.ToLower(c.Remote+" "+hexText(c.Session)+" "+strings.Join(c.Users, " ")+
				" "+c.Server), wanted)
		})
	}
	p.Total = len(all)
	p.Pages = max((len(all)+clientsShown-1)/clientsShown, 1)
	page, _ := strconv.Atoi(r.URL.Query().Get("page")) // what is no number is the first
	p.Page = min(max(page, 1), p.Pages)
	p.HasPrev, p.HasNext, p.PrevPage, p.NextPage = p.Page > 1, p.Page < p.Pages, p.Page-1, p.Page+1
	first := (p.Page - 1) * clientsShown
	for _, c := range all[first:min(first+clientsShown, len(all))] {
		p.Rows = append(p.Rows, clientRow{Connection: c})
	}
	p.owned(r)
	show(w, http.StatusOK, &view{Title: "Sessions", Active: "sessions", Console: c, visitor: r.visitor,
		Ensemble: r.ensemble, Body: p})
	return nil
}

// gather asks all servers for their clients.
func (c *clients) gather(r *request) []survey.Connection {
	places := r.ensemble.Places()
	answers := make([][]survey.Connection, len(places))
	problems := make([]string, len(places))
	var all sync.WaitGroup
	for i := range places {
		place := &places[i]
		all.Go(func() {
			var err error
			switch {
			case place.Figures != nil:
				answers[i] = ownConnections(r.ensemble.Here)
			case place.Addr == "":
				problems[i] = place.Name() + " is not asked: nobody says where its clients connect."
			default:
				if answers[i], err = r.ensemble.Asker.Connections(r.ctx, place.Addr); err != nil {
					problems[i] = place.Name() + " does not tell its clients: " + err.Error() + "."
				}
			}
			for j := range answers[i] {
				answers[i][j].Server = place.Name()
			}
		})
	}
	all.Wait()
	c.Problems = slices.DeleteFunc(problems, func(s string) bool { return s == "" })
	found := slices.Concat(answers...)
	found = slices.DeleteFunc(found, func(c survey.Connection) bool { return c.Session == 0 })
	sort.Slice(found, func(i, j int) bool {
		return found[i].Server+found[i].Remote < found[j].Server+found[j].Remote
	})
	return found
}

// ownConnections are those of the server of this process.
func ownConnections(here *Here) []survey.Connection {
	info := here.Info()
	if !info.Serving {
		return nil
	}
	var found []survey.Connection
	for c := range info.Connections {
		one := survey.OfInfo(&c)
		for _, who := range here.WhoAmI(c.Identities) {
			one.Users = append(one.Users, who.AuthScheme+":"+who.User)
		}
		found = append(found, one)
	}
	return found
}

// owned adds what the sessions of the page own and watch, as the server of this process knows it: all ephemerals, and
// the watches that are set here.
func (c *clients) owned(r *request) {
	here := r.ensemble.Here
	if here == nil {
		return
	}
	info := here.Info()
	if !info.Serving {
		return
	}
	rows := map[jute.SessionID]*clientRow{}
	for i := range c.Rows {
		c.Rows[i].KnowsOwned = true
		rows[jute.SessionID(c.Rows[i].Session)] = &c.Rows[i]
	}
	for id, paths := range info.Ephemerals {
		if row := rows[id]; row != nil {
			row.Ephemerals = len(paths)
			row.OwnedPaths = slices.Clone(paths[:min(len(paths), pathsShown)])
		}
	}
	info.Watches.ByConnection(func(id jute.SessionID, paths []string) bool {
		if row := rows[id]; row != nil {
			row.Watches = len(paths)
		}
		return true
	})
}

// endSession ends the session of a client.
func endSession(c *Console, w http.ResponseWriter, r *request) error {
	here := r.ensemble.Here
	if here == nil || here.EndSession == nil || !r.Super() {
		return &formError{"Only the superuser ends sessions of others, and only of zkd."}
	}
	id, err := strconv.ParseUint(strings.TrimPrefix(r.PostFormValue("session"), "0x"), 16, 64)
	if err != nil {
		return &formError{"That is no session."}
	}
	c.opts.Logger.Warn("console ends a session", slog.String("session", hexText(int64(id))),
		slog.String("user", shown(r.identity.Name)), slog.String("peer", r.RemoteAddr))
	if err := here.EndSession(r.ctx, jute.SessionID(id)); err != nil {
		return &formError{"The session was not ended: " + err.Error() + "."}
	}
	r.visit.say("The session %s has ended.", hexText(int64(id)))
	http.Redirect(w, r.Request, Path+r.ensemble.Name+"/sessions", http.StatusSeeOther)
	return nil
}
