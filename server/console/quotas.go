package console

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"

	"zkd/jute"
	client "zkd/jute/client/session"
	"zkd/server/console/session"
	"zkd/server/console/survey"
	"zkd/storage/apply"
)

// Where quotas are (org.apache.zookeeper.Quotas).
const (
	quotasPath = "/zookeeper/quota"
	limitsName = "zookeeper_limits"
	statsName  = "zookeeper_stats"
)

// quotas is what the page of watches and quotas shows.
type quotas struct {
	Quotas  []quota
	Problem string // why they cannot be read
	Cut     bool   // there are more
	Servers []watchCount
	Paths   []watchedPath
	Known   bool   // which paths are watched
	Path    string // of the form
}

// quota is one, with what is used of it.
type quota struct {
	Path         string
	Count, Bytes usage
	version      jute.Version
}

// usage is what is used of a limit.
type usage struct {
	Used, Soft, Hard int64 // -1: not known, none
	Level            string
	Part             float64 // of the limit that is nearer, 0 to 1
}

// Limit is the limit that counts.
func (u usage) Limit() int64 {
	if u.Hard >= 0 {
		return u.Hard
	}
	return u.Soft
}

// watchCount is how many watches a server has.
type watchCount struct {
	Server string
	Count  int64
}

// watchedPath is a path with the number of those that watch it.
type watchedPath struct {
	Path  string
	Count int
}

// Bounds of the page: guesses.
const (
	quotasShown  = 500
	quotasLooked = 5000 // znodes below /zookeeper/quota
	watchedShown = 50
	quotaNear    = 0.8 // of a limit
)

// quotasPage shows watches and quotas.
func quotasPage(c *Console, w http.ResponseWriter, r *request) error {
	s, err := r.session()
	if err != nil {
		return err
	}
	q := &quotas{Path: r.URL.Query().Get("path")}
	if err := q.read(r.ctx, s); err != nil {
		if session.CodeOf(err) == jute.OK {
			return err
		}
		_, q.Problem = explain(err)
	}
	q.watches(r)
	show(w, http.StatusOK, &view{Title: "Watches and quotas", Active: "quotas", Console: c,
		visitor: r.visitor, Ensemble: r.ensemble, Body: q})
	return nil
}

// read walks over the quotas.
func (q *quotas) read(ctx context.Context, s *session.Session) error {
	looked := 0
	queue := []string{quotasPath}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		if looked++; looked > quotasLooked || len(q.Quotas) >= quotasShown {
			q.Cut = true
			return nil
		}
		names, _, err := s.Children(ctx, at, false)
		if session.CodeOf(err) == jute.NoNode && at != quotasPath {
			continue
		}
		if err != nil {
			return err
		}
		slices.Sort(names)
		for _, name := range names {
			switch name {
			case limitsName:
				one, err := readQuota(ctx, s, at)
				if err != nil {
					return err
				}
				q.Quotas = append(q.Quotas, one)
			case statsName:
			default:
				queue = append(queue, jute.ChildPath(at, name))
			}
		}
	}
	return nil
}

// readQuota reads the quota whose znodes are below at.
func readQuota(ctx context.Context, s *session.Session, at string) (quota, error) {
	one := quota{Path: "/" + strings.TrimPrefix(strings.TrimPrefix(at, quotasPath), "/")}
	data, stat, err := s.Data(ctx, jute.ChildPath(at, limitsName))
	if err != nil && session.CodeOf(err) != jute.NoAuth {
		return one, err
	}
	one.version = stat.Version
	limits := apply.ParseStatsTrack(data)
	data, _, err = s.Data(ctx, jute.ChildPath(at, statsName))
	if code := session.CodeOf(err); err != nil && code != jute.NoAuth && code != jute.NoNode {
		return one, err
	}
	used := apply.ParseStatsTrack(data)
	one.Count = use(used.Count, limits.Count, limits.CountHard)
	one.Bytes = use(used.Bytes, limits.Bytes, limits.BytesHard)
	return one, nil
}

// use says how near something is to its limit.
func use(used, soft, hard int64) usage {
	u := usage{Used: used, Soft: soft, Hard: hard}
	limit := u.Limit()
	if limit < 0 || used < 0 {
		return u
	}
	u.Part = 1
	if limit > 0 {
		u.Part = float64(used) / float64(limit)
	}
	switch {
	case u.Part > 1 || u.Part == 1 && hard >= 0:
		u.Level = string(survey.Bad)
	case u.Part >= quotaNear:
		u.Level = string(survey.Warn)
	}
	return u
}

// watches adds who watches what.
func (q *quotas) watches(r *request) {
	sample := r.ensemble.survey.Latest(r.ctx)
	for i := range sample.Members {
		m := &sample.Members[i]
		if n, ok := m.Figures.Int("watch_count"); ok {
			q.Servers = append(q.Servers, watchCount{m.Name(), n})
		}
	}
	here := r.ensemble.Here
	if !r.operator || here == nil {
		return
	}
	info := here.Info()
	if !info.Serving {
		return
	}
	q.Known = true
	info.Watches.ByPath(func(path string, sessions []jute.SessionID) bool {
		q.Paths = append(q.Paths, watchedPath{path, len(sessions)})
		if len(q.Paths) > 4*watchedShown {
			q.trimPaths()
		}
		return true
	})
	q.trimPaths()
}

// trimPaths keeps those that most watch.
func (q *quotas) trimPaths() {
	sort.Slice(q.Paths, func(i, j int) bool {
		a, b := &q.Paths[i], &q.Paths[j]
		return a.Count > b.Count || a.Count == b.Count && a.Path < b.Path
	})
	q.Paths = q.Paths[:min(len(q.Paths), watchedShown)]
}

// formLimit is a limit of the form; none is -1.
func formLimit(r *http.Request, name string) (int64, error) {
	text := strings.TrimSpace(r.PostFormValue(name))
	if text == "" {
		return -1, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, &formError{"A limit is a whole number, or nothing for none."}
	}
	return n, nil
}

// setQuota sets the quota of a path, in the place of the one that it has (zkCli's setquota).
func setQuota(_ *Console, w http.ResponseWriter, r *request) error {
	s, path, err := r.formTarget()
	if err != nil {
		return err
	}
	var limits apply.StatsTrack
	for name, into := range map[string]*int64{ // any order: each by itself
		"count": &limits.Count, "bytes": &limits.Bytes, "counthard": &limits.CountHard, "byteshard": &limits.BytesHard,
	} {
		if *into, err = formLimit(r.Request, name); err != nil {
			return err
		}
	}
	if limits.Count < 0 && limits.Bytes < 0 && limits.CountHard < 0 && limits.BytesHard < 0 {
		return &formError{"Give one limit at least."}
	}
	// As zkCli writes it: the sign behind the bytes is where parsers of before hard limits stop.
	text := fmt.Appendf(nil, "count=%d,bytes=%d=;byteHardLimit=%d;countHardLimit=%d", limits.Count, limits.Bytes,
		limits.BytesHard, limits.CountHard)
	if err := writeQuota(r.ctx, s, path, text); err != nil {
		return err
	}
	r.visit.say("The quota is set: %s", plain(path))
	http.Redirect(w, r.Request, Path+r.ensemble.Name+"/quotas", http.StatusSeeOther)
	return nil
}

// writeQuota makes the znodes of a quota. One above or below would count the same znodes.
func writeQuota(ctx context.Context, s *session.Session, path string, limits []byte) error {
	if _, err := s.Stat(ctx, path); err != nil {
		return err
	}
	if path == "/" || path == "/zookeeper" || strings.HasPrefix(path, "/zookeeper/") {
		return &formError{"The root, and what is below /zookeeper, can have no quota."}
	}
	at := quotasPath + path
	_, stat, err := s.Data(ctx, at+"/"+limitsName)
	if err == nil {
		_, err = s.Set(ctx, at+"/"+limitsName, limits, stat.Version)
		return err
	}
	if session.CodeOf(err) != jute.NoNode {
		return err
	}
	if err := noOtherQuota(ctx, s, path); err != nil {
		return err
	}
	acl := client.World()
	var made string
	for name := range strings.SplitSeq(path[1:], "/") {
		made += "/" + name
		_, err := s.Create(ctx, quotasPath+made, client.NewNode{ACL: acl})
		if err != nil && session.CodeOf(err) != jute.NodeExists {
			return err
		}
	}
	for _, n := range []struct {
		name string
		data []byte
	}{{limitsName, limits}, {statsName, []byte("count=0,bytes=0")}} { // the server counts
		_, err := s.Create(ctx, at+"/"+n.name, client.NewNode{Data: n.data, ACL: acl})
		if err != nil && session.CodeOf(err) != jute.NodeExists {
			return err
		}
	}
	return nil
}

// noOtherQuota fails if a path above or below has a quota, as zkCli does.
func noOtherQuota(ctx context.Context, s *session.Session, path string) error {
	for above := jute.ParentPath(path); above != "" && above != "/"; above = jute.ParentPath(above) {
		if _, err := s.Stat(ctx, quotasPath+above+"/"+limitsName); err == nil {
			return &formError{"There is a quota above it already: " + plain(above)}
		}
	}
	var all quotas
	if err := all.read(ctx, s); err != nil {
		return err
	}
	for i := range all.Quotas {
		if strings.HasPrefix(all.Quotas[i].Path, path+"/") {
			return &formError{"There is a quota below it already: " + plain(all.Quotas[i].Path)}
		}
	}
	return nil
}

// removeQuota removes the quota of a path.
func removeQuota(_ *Console, w http.ResponseWriter, r *request) error {
	s, path, err := r.formTarget()
	if err != nil {
		return err
	}
	at := quotasPath + path
	for _, name := range []string{at + "/" + limitsName, at + "/" + statsName} {
		if err := s.Delete(r.ctx, name, jute.AnyVersion); ignoreGone(err) != nil {
			return err
		}
	}
	for p := path; p != "" && p != "/"; p = jute.ParentPath(p) { // what nothing else is below
		if err := s.Delete(r.ctx, quotasPath+p, jute.AnyVersion); err != nil {
			break // it has children, or whoever it is may not: it does nothing
		}
	}
	r.visit.say("The quota is removed: %s", plain(path))
	http.Redirect(w, r.Request, Path+r.ensemble.Name+"/quotas", http.StatusSeeOther)
	return nil
}
