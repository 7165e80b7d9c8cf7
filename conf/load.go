package conf

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/spf13/viper"
)

// Load reads a configuration from its sources and checks it. With no source at all the result is a standalone server on
// port 2181 that keeps its data in ./zkd-data.
//
// The error is an Errors with every wrong value, or says why zoo.cfg cannot be read. What zkd knows but cannot do yet
// is not an error here: ask Config.Unsupported before starting. Load reads nothing but what s gives it and keeps
// nothing of s.
func Load(s Sources) (*Config, error) {
	s.Path = s.file()
	l := newLoader(s)
	l.assign(layerJVM, jvmFlags(l.env), l.findProperty)
	l.loadImage()
	if err := l.loadFile(s); err != nil {
		return nil, err
	}
	l.loadEnv()
	l.loadFlags(s.Flags)
	l.fill()
	l.loadMembers()
	l.finish()
	l.sortMessages()
	if len(l.problems) > 0 {
		return nil, l.problems
	}
	return l.config, nil
}

// loader is the state of one Load.
type loader struct {
	table    *table
	layers   *viper.Viper // setting by viperKey
	env      environment
	readFile func(string) ([]byte, error)
	hostname string
	hasFile  bool
	config   *Config
	settings map[string]setting // the winners by name, without those whose value is wrong
	members  []setting          // the winning server, group and weight lines, ascending
	problems Errors
	given    int // places taken by what the sources gave so far, for the order of messages
	// memberLines are the settings of config.Ensemble.Members by id.
	memberLines map[int64]setting
	// myIDSource is where the number of this server comes from, for messages.
	myIDSource string
}

// newLoader prepares the lowest layer, the defaults.
func newLoader(s Sources) *loader {
	l := &loader{
		table:    theTable(),
		layers:   viper.NewWithOptions(viper.KeyDelimiter("\x00")),
		env:      newEnvironment(s.Environ),
		readFile: s.reader(),
		hostname: s.Hostname,
		hasFile:  s.Path != "" || s.Text != nil,
		settings: map[string]setting{}, memberLines: map[int64]setting{},
		config: &Config{Unknown: map[string]string{}},
	}
	l.config.Auth.Providers = map[string]string{}
	l.config.Ensemble.MyID = NoID
	for i := range l.table.rows {
		row := &l.table.rows[i]
		if row.def != "" {
			l.layers.SetDefault(viperKey(row.name), setting{row: row, value: row.def})
		}
	}
	if !l.hasFile && !usesImage(l.env) {
		l.setBareDefaults()
	}
	return l
}

// setBareDefaults sets the defaults that hold without a zoo.cfg: those of ZooKeeper's zoo_sample.cfg, but for the
// folder.
func (l *loader) setBareDefaults() {
	bare := map[string]string{"clientPort": "2181", "dataDir": "./zkd-data", "tickTime": "2000"}
	for name, val := range bare { // any order: the keys differ
		row, _, _ := l.table.find(name)
		l.layers.SetDefault(viperKey(name), setting{row: row, value: val})
	}
}

// viperKey writes a name so that viper, which folds capitals, tells all names apart.
func viperKey(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if isUpper(c) {
			b.WriteByte('^')
		}
		b.WriteByte(c)
	}
	return strings.ToLower(b.String())
}

// finder looks a name of one source up.
type finder func(name string) (row *key, index string, ok bool)

// findProperty finds the rows that are JVM properties, by their full name alone.
func (l *loader) findProperty(name string) (row *key, index string, ok bool) {
	row, index, ok = l.table.find(name)
	if !ok || row.property == "" {
		return nil, "", false
	}
	full := row.property
	if prefix, indexed := row.prefix(); indexed {
		full = propertyPrefix + prefix + index
	}
	// FileTxnLog reads this one under both names.
	const bare = "fsync.warningthresholdms"
	return row, index, name == full || name == bare
}

// loadFile reads zoo.cfg into its layer.
func (l *loader) loadFile(s Sources) error {
	if !l.hasFile {
		return nil
	}
	content, name := s.Text, s.Path
	if content == nil {
		var err error
		if content, err = l.readFile(name); err != nil {
			return fmt.Errorf("read configuration file %s: %w", name, err)
		}
	}
	if name == "" {
		name, l.config.text = "zoo.cfg", true
	}
	l.config.File = name
	entries, broken := parseProperties(content)
	l.config.initial = withoutSecrets(content, entries, l.table)
	l.reportUnreadable(name, broken)
	items := make([]assignment, 0, len(entries))
	for _, e := range entries {
		items = append(items, assignment{name: e.key, value: e.value, source: atLine(name, e.line), line: e.line})
	}
	l.assign(layerFile, items, l.table.find)
	return nil
}

// besideFile is the message for a variable of the image that does not count.
const besideFile = "does not count beside a zoo.cfg: the image writes one from it only when there is none"

// loadImage reads the variables of the official image and its defaults into their layer. Beside a zoo.cfg it tells that
// they do not count, for the image's entry point writes a zoo.cfg only when there is none; the number of the server
// counts all the same, for the file myid is written whether there is a zoo.cfg or not.
func (l *loader) loadImage() {
	for _, name := range l.env.names("ZOO_") {
		n := Notice{Kind: NoticeUnknown, Key: name, Source: variable(name)}
		n.Message = "is not a variable of the official image, kept without effect"
		if name == imageConfDir || (l.hasFile && name != imageMyID && isImageSetting(name, l.env[name])) {
			continue
		}
		if slices.Contains(imageMeaningless, name) {
			n.Kind, n.Message = NoticeIgnored, "has no meaning in zkd"
		}
		if isImageVariable(name) {
			if !l.hasFile || name == imageMyID {
				continue
			}
			n.Kind, n.Message = NoticeIgnored, besideFile
		}
		l.notice(n)
	}
	switch {
	case l.hasFile:
		l.assign(layerImage, imageNumber(l.env), l.table.find)
	case usesImage(l.env):
		l.assign(layerImage, imageAssignments(l.env), l.table.find)
	}
}

// loadEnv reads the ZKD_ variables into their layer.
func (l *loader) loadEnv() {
	var items []assignment
	for _, name := range l.env.names(envPrefix) {
		items = append(items, assignment{name: name, value: l.env[name], source: variable(name)})
	}
	l.assign(layerEnv, items, l.table.findEnv)
}

// loadFlags reads the flags of the command line into the highest layer. An unknown one is a wrong value: nobody sets a
// flag for another program.
func (l *loader) loadFlags(flags map[string]string) {
	var items []assignment
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		source := "flag " + name
		if _, _, ok := l.table.find(name); !ok {
			allowed := "no such key" + didYouMean(l.table.nearest(name))
			l.report(Problem{Key: name, Source: source, Allowed: allowed})
			continue
		}
		items = append(items, assignment{name: name, value: flags[name], source: source})
	}
	l.assign(layerFlag, items, l.table.find)
}

// assign puts the values of one source into its layer and tells about the ones it does not know.
func (l *loader) assign(at layer, items []assignment, find finder) {
	own := map[string]setting{}
	before := l.given
	for i, item := range items {
		order := before + cmp.Or(item.line, i+1)
		l.given = max(l.given, order)
		row, index, ok := find(trimJava(item.name))
		if !ok {
			l.unknown(at, item, order)
			continue
		}
		s := setting{
			row: row, index: index, value: trimJava(item.value),
			source: item.source, layer: at, order: order,
		}
		if earlier, seen := own[s.name()]; seen {
			l.noticeTwice(earlier, s)
		}
		own[s.name()] = s
	}
	merged := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		l.noticeOver(own[name])
		if at == layerFlag {
			l.layers.Set(viperKey(name), own[name])
		} else {
			merged[viperKey(name)] = own[name]
		}
	}
	// The only error is a value that viper cannot merge into a map of another shape; all values here are settings.
	if err := l.layers.MergeConfigMap(merged); err != nil {
		l.report(Problem{Key: "(all)", Allowed: err.Error()})
	}
}

// unknown keeps a key that is in no table. Of the JVM flags only ZooKeeper's own are worth a word.
func (l *loader) unknown(at layer, item assignment, order int) {
	name := trimJava(item.name)
	n := Notice{Kind: NoticeUnknown, Key: name, Source: item.source, order: order}
	n.Message = "unknown key, kept without effect"
	switch at {
	case layerJVM:
		bare, ours := strings.CutPrefix(name, propertyPrefix)
		if !ours {
			return
		}
		if l.table.exact[bare] != nil && l.table.exact[bare].property == "" {
			n.Kind, n.Message = NoticeIgnored, "is read from zoo.cfg alone, not as a JVM property"
		}
		n.Nearest = l.table.nearest(bare)
	case layerEnv:
		n.Nearest = l.table.nearestEnv(name)
	default:
		n.Nearest = l.table.nearest(strings.TrimPrefix(name, propertyPrefix))
	}
	if n.Kind == NoticeUnknown {
		n.Message += didYouMean(n.Nearest)
		l.config.Unknown[name] = item.value
	} else {
		n.Nearest = ""
	}
	l.notice(n)
}

// noticeTwice tells that a source has a key twice.
func (l *loader) noticeTwice(earlier, later setting) {
	if earlier.source == imageDefault {
		return
	}
	l.notice(earlier.notice(NoticeDuplicate, "is given again at "+later.source+", which counts"))
}

// noticeOver tells that a JVM flag, or beside a zoo.cfg the image's number of the server, gives way to a different
// value of s. What was made for zkd, the ZKD_ variables and the flags, is known to win.
func (l *loader) noticeOver(s setting) {
	if s.layer != layerImage && s.layer != layerFile {
		return
	}
	below, ok := l.layers.Get(viperKey(s.name())).(setting)
	if ok && below.layer > layerDefault && below.source != imageDefault && below.value != s.value {
		l.notice(below.notice(NoticeOverridden, "gives way to "+s.source))
	}
}

// sortMessages puts problems and notices in the order of what they are about; what is about nothing that was given
// comes last.
func (l *loader) sortMessages() {
	sortProblems(l.problems)
	notices := l.config.Notices
	sort.SliceStable(notices, func(i, j int) bool { return orderLess(notices[i].order, notices[j].order) })
}

// sortProblems sorts problems by their places.
func sortProblems(all []Problem) {
	sort.SliceStable(all, func(i, j int) bool { return orderLess(all[i].order, all[j].order) })
}

// orderLess tells whether the place a comes before b; 0, which is none, comes last.
func orderLess(a, b int) bool { return cmp.Or(a, math.MaxInt) < cmp.Or(b, math.MaxInt) }

// report adds a wrong value.
func (l *loader) report(p Problem) { l.problems = append(l.problems, p) }

// reportUnreadable adds the lines of a file that parseProperties could not read.
func (l *loader) reportUnreadable(file string, broken []brokenLine) {
	for _, b := range broken {
		l.report(Problem{
			Key: "(unreadable)", Source: atLine(file, b.line), Allowed: b.reason, order: l.given + b.line,
		})
	}
}

// notice adds a notice.
func (l *loader) notice(n Notice) { l.config.Notices = append(l.config.Notices, n) }

// fill reads the winning settings by their kinds into the fields of the configuration, in the order of the table.
func (l *loader) fill() {
	for _, s := range l.winners() {
		switch s.row.name {
		case "server.N", "group.N", "weight.N":
			l.members = append(l.members, s)
			continue
		}
		v, ok := s.row.parse(s.value)
		if !ok {
			l.report(s.problem("must be " + s.row.allowed()))
			// What follows is checked with the default, so that one mistake makes one message.
			if v, ok = s.row.parse(s.row.def); ok && s.row.def != "" {
				s.row.set(l.config, v)
			}
			continue
		}
		v.index = s.index
		s.row.set(l.config, v)
		l.settings[s.name()] = s
		l.noticeEffect(s)
		l.noticeExposed(s)
	}
}

// winners returns the settings that count, sorted by row and index. Server lines count as one value: those of the
// highest source that has any.
func (l *loader) winners() []setting {
	var all []setting
	top := layerDefault
	for _, name := range l.layers.AllKeys() {
		s, ok := l.layers.Get(name).(setting)
		if !ok {
			continue
		}
		if s.row.kind == kindMember {
			top = max(top, s.layer)
		}
		all = append(all, s)
	}
	all = slices.DeleteFunc(all, func(s setting) bool { return s.row.kind == kindMember && s.layer < top })
	order := make(map[*key]int, len(l.table.rows))
	for i := range l.table.rows {
		order[&l.table.rows[i]] = i
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(
			cmp.Compare(order[a.row], order[b.row]),
			cmp.Compare(len(a.index), len(b.index)),
			cmp.Compare(a.index, b.index),
		) < 0
	})
	return all
}

// notBuilt is the message for a key that a later release will act on.
const notBuilt = "has no effect yet"

// noticeEffect tells about a key that was set and does nothing.
func (l *loader) noticeEffect(s setting) {
	switch {
	case s.layer == layerDefault || s.source == imageDefault || s.asksForNothing():
	case s.row.effect == ignored:
		l.notice(s.notice(NoticeIgnored, s.row.why))
	}
}

// noticeExposed tells about a secret in the command line, which the system shows to every user.
func (l *loader) noticeExposed(s setting) {
	if s.row.secret && s.layer == layerFlag && s.value != "" {
		l.notice(s.notice(NoticeAdvice, "every user of this machine can read a command line: give this secret in a "+
			"zoo.cfg that only the server can read, or as the environment variable "+envName(s.name())))
	}
}
