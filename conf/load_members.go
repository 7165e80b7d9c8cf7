package conf

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sort"
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
		if !ok {
			l.report(s.problem("the id after the dot must be a whole number"))
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
	sort.Slice(e.Members, func(i, j int) bool { return e.Members[i].ID < e.Members[j].ID })
	l.takeVotes()
	l.loadMyID()
}

// addMember reads one server line.
func (l *loader) addMember(s setting, id int64) {
	m, err := parseMember(id, s.value, l.config.Ensemble.MultiAddress)
	if err != nil {
		l.report(s.problem(err.Error()))
		return
	}
	if id == NoID || id < leastID {
		l.report(s.problem(fmt.Sprintf("%d is the number of no server; take another, from 0 or 1 on", id)))
		return
	}
	same := func(other Member) bool { return other.ID == id }
	if slices.ContainsFunc(l.config.Ensemble.Members, same) {
		l.report(s.problem("this id has two server lines"))
		return
	}
	l.memberLines[id] = s
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
	l.config.Ensemble.Version = dynamicVersion(name)
	l.noticeUnfinished(named)
	entries, broken := parseProperties(content)
	l.reportUnreadable(name, broken)
	byName := map[string]setting{}
	for _, entry := range entries {
		source, order := atLine(name, entry.line), l.given+entry.line
		key := trimJava(entry.key)
		val := trimJava(entry.value)
		if key == "version" {
			// QuorumPeerConfig.parse; the lines of /zookeeper/config, copied as they are, have it.
			allowed := "must not be in this file: its version is what its name ends with; remove the line"
			l.report(Problem{Key: key, Source: source, Value: val, Allowed: allowed, order: order})
			continue
		}
		row, index, ok := l.table.find(key)
		if !ok || !slices.Contains([]string{"server.N", "group.N", "weight.N"}, row.name) {
			allowed := "only server, group and weight lines belong here"
			l.report(Problem{Key: key, Source: source, Allowed: allowed, order: order})
			continue
		}
		byName[key] = setting{row: row, index: index, value: val, source: source, layer: layerFile, order: order}
	}
	for _, s := range byName { // any order: sorted below
		l.members = append(l.members, s)
	}
	sort.Slice(l.members, func(i, j int) bool { return l.members[i].name() < l.members[j].name() })
}

// noticeUnfinished tells about the file that ZooKeeper leaves when it stops in the middle of a reconfiguration.
func (l *loader) noticeUnfinished(named setting) {
	next := l.config.File + dynamicNext
	if _, err := l.readFile(next); l.config.File != "" && err == nil {
		l.notice(named.notice(NoticeIgnored, "counts, and not "+next+
			", which a reconfiguration of ZooKeeper that did not finish has left: the ensemble knows its members"))
	}
}

// dynamicVersion returns the version that the name of a dynamic configuration file ends with, in hexadecimal digits
// behind its last dot; 0 when it ends with none (QuorumPeerConfig.getVersionFromFilename).
func dynamicVersion(name string) int64 {
	digits := name[strings.LastIndexByte(name, '.')+1:]
	version, err := strconv.ParseUint(digits, 16, 63)
	if err != nil || len(digits) == len(name) {
		return 0
	}
	return int64(version)
}

// loadMyID reads the file myid in dataDir, which wins over the image's variable (the image writes the file only when
// there is none) and must agree with any other source. As in ZooKeeper only the first line counts; the blanks that
// ZooKeeper refuses are removed.
func (l *loader) loadMyID() {
	e := &l.config.Ensemble
	given, set := l.settings["myid"]
	l.myIDSource = given.source
	if named, ok := l.settings["zkd.myidFromHostname"]; ok {
		if !l.numberFromHostname(named) {
			return
		}
		given, set = named, true
	}
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
	if !ok {
		l.report(Problem{Key: "myid", Source: atLine(name, 1), Value: trimJava(line),
			Allowed: "must be a whole number"})
		return
	}
	byImage := given.row != nil && given.row.name == "myid" && given.layer == layerImage
	if set && !byImage && e.MyID != id {
		form := "must agree with the file %s, which says %d"
		if given.row.name != "myid" {
			form = fmt.Sprintf("makes this server number %d of %s, and ", e.MyID, l.myIDSource) + form
		}
		l.report(given.problem(fmt.Sprintf(form, name, id)))
	}
	e.MyID, l.myIDSource = id, atLine(name, 1)
}

// numberFromHostname takes the number of this server from the end of its host's name, as zkd.myidFromHostname asks,
// and tells whether there is one. A number that is given as well must agree, but for the image's default.
func (l *loader) numberFromHostname(s setting) bool {
	label, _, _ := strings.Cut(l.hostname, ".")
	digits := label[len(strings.TrimRight(label, "0123456789")):]
	ordinal, ok := parseDecimal(digits)
	add, _ := parseDecimal(s.value) // it was read as a number before
	if !ok || ordinal > maxInt-add {
		l.report(s.problem(fmt.Sprintf("needs a host name that ends with a number, as zkd-0; this host is called %q",
			l.hostname)))
		return false
	}
	e := &l.config.Ensemble
	id, source := ordinal+add, fmt.Sprintf("host name %s", label)
	if given, set := l.settings["myid"]; set && given.source != imageDefault && e.MyID != id {
		const form = "must agree with zkd.myidFromHostname, by which %s is number %d"
		l.report(given.problem(fmt.Sprintf(form, label, id)))
		return false
	}
	e.MyID, l.myIDSource = id, source
	return true
}
