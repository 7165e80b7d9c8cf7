package console

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"zkd/server/console/survey"
)

// members is what the page of the ensemble shows.
type members struct {
	Rows       []memberLine
	Version    int64 // of the configuration; -1: it is not known
	VersionIs  string
	Problem    string
	CanHand    bool // this server leads, and the visitor may have another one lead
	CanBackup  bool
	CanRestore bool
	Preview    *preview
}

// memberLine is a server as the configuration has it.
type memberLine struct {
	ID, Line string
	Observer bool
	State    string // what it says of itself; "" if it is not known
}

// preview is what a change of members means.
type preview struct {
	Joining, Leaving string
	Says             []string
	Warnings         []string
}

// membersPage shows the members.
func membersPage(c *Console, w http.ResponseWriter, r *request) error {
	m, err := readMembers(c, r)
	if err != nil {
		return err
	}
	showMembers(c, w, r, m)
	return nil
}

func showMembers(c *Console, w http.ResponseWriter, r *request, m *members) {
	show(w, http.StatusOK, &view{Title: "Ensemble", Active: "members", Console: c, visitor: r.visitor,
		Ensemble: r.ensemble, Body: m})
}

// readMembers reads the configuration, and what the members say of themselves.
func readMembers(c *Console, r *request) (*members, error) {
	s, err := r.session()
	if err != nil {
		return nil, err
	}
	m := &members{Version: -1}
	text, _, err := s.Data(r.ctx, configPath)
	if err != nil {
		_, m.Problem = explain(err)
		return m, nil //nolint:nilerr // the page says it
	}
	m.Rows, m.Version = parseMembers(string(text))
	m.VersionIs = strconv.FormatInt(m.Version, 16)
	sample := r.ensemble.survey.Latest(r.ctx)
	for i := range m.Rows {
		m.Rows[i].State = stateOf(sample, m.Rows[i].ID)
	}
	if here := r.ensemble.Here; here != nil && r.Super() && !c.readOnly(r.visitor) {
		m.CanBackup, m.CanRestore = here.Backup != nil, here.Uploads != nil
		info := here.Info()
		m.CanHand = here.HandOver != nil && info.Serving && info.Mode == "leader"
	}
	return m, nil
}

// parseMembers reads the text of /zookeeper/config: lines of servers, and the version in hexadecimal.
func parseMembers(text string) (rows []memberLine, version int64) {
	version = -1
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok {
			continue
		}
		if id, server := strings.CutPrefix(key, "server."); server {
			rows = append(rows, memberLine{ID: id, Line: value, Observer: strings.Contains(value, ":observer")})
		}
		if key == "version" {
			if n, err := strconv.ParseInt(value, 16, 64); err == nil {
				version = n
			}
		}
	}
	return rows, version
}

// stateAway is of a member that does not answer.
const stateAway = "away"

// stateOf is what a member has said of itself in a sample.
func stateOf(sample *survey.Sample, id string) string {
	for i := range sample.Members {
		if m := &sample.Members[i]; m.ID == id {
			if m.Err != nil {
				return stateAway
			}
			return m.Role
		}
	}
	return ""
}

// previewMembers says what a change would mean, before it is made.
func previewMembers(c *Console, w http.ResponseWriter, r *request) error {
	m, err := readMembers(c, r)
	if err != nil {
		return err
	}
	if m.Problem != "" {
		return &formError{m.Problem}
	}
	joining, leaving := strings.TrimSpace(r.PostFormValue("joining")), strings.TrimSpace(r.PostFormValue("leaving"))
	if m.Preview, err = m.preview(joining, leaving); err != nil {
		return err
	}
	showMembers(c, w, r, m)
	return nil
}

// preview works out who would be there, and what that means.
func (m *members) preview(joining, leaving string) (*preview, error) {
	if joining == "" && leaving == "" {
		return nil, &formError{"Name a server that joins, or one that leaves."}
	}
	p := &preview{Joining: joining, Leaving: leaving}
	after := slices.Clone(m.Rows)
	at := func(id string) int {
		return slices.IndexFunc(after, func(row memberLine) bool { return row.ID == id })
	}
	if leaving != "" {
		i := at(leaving)
		if i < 0 {
			return nil, &formError{"There is no server " + plain(leaving) + "."}
		}
		if after[i].State == "leader" {
			p.Warnings = append(p.Warnings, "It leads now: another one is elected, in a moment without writes.")
		}
		p.Says = append(p.Says, "Server "+leaving+" leaves. Its data stays where it is, and it serves nobody any more.")
		after = slices.Delete(after, i, i+1)
	}
	if joining != "" {
		line, err := parseJoining(joining)
		if err != nil {
			return nil, err
		}
		if i := at(line.ID); i >= 0 {
			p.Says = append(p.Says, fmt.Sprintf("Server %s changes from %s to %s.", line.ID, after[i].Line, line.Line))
			line.State = after[i].State
			after[i] = line
		} else {
			p.Says = append(p.Says, "Server "+line.ID+" joins. Start it before, with its line and those of the others.")
			after = append(after, line)
		}
	}
	p.compare(m.Rows, after)
	return p, nil
}

// parseJoining reads a line "server.N=host:port:port:role;port".
func parseJoining(text string) (memberLine, error) {
	key, value, ok := strings.Cut(text, "=")
	id, server := strings.CutPrefix(key, "server.")
	if _, err := strconv.ParseUint(id, 10, 31); !ok || !server || err != nil || value == "" ||
		strings.ContainsAny(text, "\r\n,") {
		return memberLine{}, &formError{"A server is written as server.4=zk4:2888:3888:participant;2181"}
	}
	return memberLine{ID: id, Line: value, Observer: strings.Contains(value, ":observer")}, nil
}

// votersOf counts the voters, and those of them that are up.
func votersOf(rows []memberLine) (voters, up int) {
	for i := range rows {
		if !rows[i].Observer {
			voters++
			if s := rows[i].State; s != "" && s != stateAway {
				up++
			}
		}
	}
	return voters, up
}

// compare says what a change means for majorities.
func (c *preview) compare(before, after []memberLine) {
	was, _ := votersOf(before)
	is, up := votersOf(after)
	c.Says = append(c.Says, fmt.Sprintf("Voters: %d instead of %d. A majority is %d, so %s may fail (now: %d).",
		is, was, is/2+1, plural(max(is-1, 0)/2, "server", "servers"), (was-1)/2))
	switch {
	case is == 0:
		c.Warnings = append(c.Warnings, "There would be no voter left: no server takes that.")
	case is%2 == 0:
		c.Warnings = append(c.Warnings, fmt.Sprintf("An even number of voters: %d bear no more failures than %d.", is,
			is-1))
	}
	if is > 0 && up < is/2+1 {
		c.Warnings = append(c.Warnings, fmt.Sprintf("Only %d of the new voters answer, and a majority is %d: start "+
			"the new ones before. The servers refuse the change as long as their majority is not up to date.", up,
			is/2+1))
	}
}

// changeMembers makes the change that was shown, if the configuration is still the one that it was shown for.
func changeMembers(c *Console, w http.ResponseWriter, r *request) error {
	s, err := r.session()
	if err != nil {
		return err
	}
	version, err := strconv.ParseInt(r.PostFormValue("version"), 16, 64)
	if err != nil || version < 0 {
		return &formError{"The form does not say which configuration it changes."}
	}
	joining, leaving := r.PostFormValue("joining"), r.PostFormValue("leaving")
	c.opts.Logger.Warn("console changes the members", slog.String("joining", shown(joining)),
		slog.String("leaving", shown(leaving)), slog.String("user", shown(r.identity.Name)),
		slog.String("peer", r.RemoteAddr))
	if _, _, err := s.Reconfig(r.ctx, joining, leaving, "", version); err != nil {
		return err
	}
	r.visit.say("The members are changed.")
	http.Redirect(w, r.Request, Path+r.ensemble.Name+"/members", http.StatusSeeOther)
	return nil
}

// handOver has another server lead.
func handOver(c *Console, w http.ResponseWriter, r *request) error {
	here := r.ensemble.Here
	if here == nil || here.HandOver == nil || !r.Super() {
		return &formError{"Only the superuser has another server lead, at the console of the leader."}
	}
	c.opts.Logger.Warn("console hands the leadership over", slog.String("user", shown(r.identity.Name)),
		slog.String("peer", r.RemoteAddr))
	if err := here.HandOver(r.ctx); err != nil {
		return &formError{"The leadership was not handed over: " + err.Error() + "."}
	}
	r.visit.say("Another server leads now.")
	http.Redirect(w, r.Request, Path+r.ensemble.Name+"/members", http.StatusSeeOther)
	return nil
}

// backup answers with a backup of the whole state, as zkd backup gets it.
func backup(_ *Console, w http.ResponseWriter, r *request) error {
	here := r.ensemble.Here
	if here == nil || here.Backup == nil || !r.Super() {
		return &formError{"A backup holds all data: it is for the superuser."}
	}
	if r.Method != http.MethodGet { // HEAD would make one for nobody
		http.Error(w, "a backup is asked for by GET", http.StatusMethodNotAllowed)
		return nil
	}
	w.Header().Set("Content-Disposition", `attachment; filename="zkd.backup"`)
	here.Backup(w, r.Request)
	return nil
}
