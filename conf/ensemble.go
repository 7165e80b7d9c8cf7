package conf

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// loadMembers reads the server, group and weight lines, from the dynamic configuration file if there is one, and the
// file myid.
func (l *loader) loadMembers() {
	if l.config.Ensemble.DynamicConfigFile != "" {
		l.loadDynamicFile()
	}
	e := &l.config.Ensemble
	e.Groups, e.Weights = map[int64][]int64{}, map[int64]int64{}
	for _, s := range l.members {
		id, ok := parseDecimal(s.index)
		if !ok || id < 0 {
			l.report(s.problem("the id after the dot must be a whole number, not negative"))
			continue
		}
		switch s.row.name {
		case "server.N":
			l.addMember(s, id)
		case "group.N":
			ids, ok := parseGroup(s.value)
			if !ok {
				l.report(s.problem("must be ids of servers with colons between them"))
			}
			e.Groups[id] = ids
		case "weight.N":
			v, ok := s.row.parse(s.value)
			if !ok {
				l.report(s.problem("must be " + s.row.allowed()))
			}
			e.Weights[id] = v.num
		}
	}
	slices.SortFunc(e.Members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	l.loadMyID()
}

// addMember reads one server line.
func (l *loader) addMember(s setting, id int64) {
	m, err := parseMember(id, s.value, l.config.Ensemble.MultiAddress)
	if err != nil {
		l.report(s.problem(err.Error()))
		return
	}
	same := func(other Member) bool { return other.ID == id }
	if slices.ContainsFunc(l.config.Ensemble.Members, same) {
		l.report(s.problem("this id has two server lines"))
		return
	}
	l.config.Ensemble.Members = append(l.config.Ensemble.Members, m)
}

// loadDynamicFile replaces the server lines with those of the dynamic configuration file. Lines in zoo.cfg beside it
// are refused, and so is any other key in it, as QuorumPeerConfig.parseDynamicConfig does.
func (l *loader) loadDynamicFile() {
	for _, s := range l.members {
		l.report(s.problem("must be in the file named by dynamicConfigFile"))
	}
	l.members = nil
	name := l.config.Ensemble.DynamicConfigFile
	named := l.settings["dynamicConfigFile"]
	content, err := l.readFile(name)
	if err != nil {
		l.report(named.problem("cannot be read: " + err.Error()))
		return
	}
	entries, broken := parseProperties(content)
	l.reportUnreadable(name, broken)
	byName := map[string]setting{}
	for _, entry := range entries {
		source, order := atLine(name, entry.line), l.given+entry.line
		key := trimJava(entry.key)
		val := trimJava(entry.value)
		if key == "version" {
			l.setVersion(setting{source: source, value: val, order: order})
			continue
		}
		row, index, ok := l.table.find(key)
		if !ok || !slices.Contains([]string{"server.N", "group.N", "weight.N"}, row.name) {
			allowed := "only server, group, weight and version lines belong here"
			l.report(Problem{Key: key, Source: source, Allowed: allowed, order: order})
			continue
		}
		byName[key] = setting{row: row, index: index, value: val, source: source, layer: layerFile, order: order}
	}
	for _, s := range byName { // any order: sorted below
		l.members = append(l.members, s)
	}
	slices.SortFunc(l.members, func(a, b setting) int { return cmp.Compare(a.name(), b.name()) })
}

// setVersion reads the version of the dynamic configuration, in hexadecimal digits.
func (l *loader) setVersion(s setting) {
	version, err := strconv.ParseInt(s.value, 16, 64)
	if err != nil {
		allowed := "must be a number in hexadecimal digits"
		l.report(Problem{Key: "version", Source: s.source, Value: s.value, Allowed: allowed, order: s.order})
	}
	l.config.Ensemble.Version = version
}

// loadMyID reads the file myid in dataDir, which wins over the image's variable (the image writes the file only when
// there is none) and must agree with any other source. As in ZooKeeper only the first line counts; the blanks that
// ZooKeeper refuses are removed.
func (l *loader) loadMyID() {
	e := &l.config.Ensemble
	l.myIDSource = l.settings["myid"].source
	if l.config.Storage.DataDir == "" {
		return
	}
	name := filepath.Join(l.config.Storage.DataDir, "myid")
	content, err := l.readFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		l.report(Problem{Key: "myid", Source: name, Allowed: "cannot be read: " + err.Error()})
		return
	}
	line, _, _ := strings.Cut(string(content), "\n")
	id, ok := parseDecimal(trimJava(line))
	if !ok || id < 0 {
		l.report(Problem{Key: "myid", Source: atLine(name, 1), Value: trimJava(line),
			Allowed: "must be a whole number that is not negative"})
		return
	}
	given, set := l.settings["myid"]
	if set && given.layer != layerImage && e.MyID != id {
		l.report(given.problem(fmt.Sprintf("must agree with the file %s, which says %d", name, id)))
	}
	e.MyID, l.myIDSource = id, atLine(name, 1)
}

// member returns this server's own line, or nil.
func (e *Ensemble) member() *Member {
	for i := range e.Members {
		if e.Members[i].ID == e.MyID {
			return &e.Members[i]
		}
	}
	return nil
}

// voters counts the members that vote.
func (e *Ensemble) voters() int {
	n := 0
	for _, m := range e.Members {
		if !m.Observer {
			n++
		}
	}
	return n
}
