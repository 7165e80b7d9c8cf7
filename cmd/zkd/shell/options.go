package shell

import (
	"regexp"
	"slices"
	"sort"
	"strings"
)

// argument finds the words of a line, as ZooKeeperMain.ARGS_PATTERN does: one in quotes is one word, and a quote
// without its end is passed over.
var argument = regexp.MustCompile(`\s*([^"']\S*|"[^"]*"|'[^']*')\s*`)

// words splits a line.
func words(line string) []string {
	var found []string
	for _, match := range argument.FindAllStringSubmatch(line, -1) {
		word := match[1]
		if n := len(word); n > 1 && (word[0] == '"' || word[0] == '\'') && word[n-1] == word[0] {
			word = word[1 : n-1]
		}
		found = append(found, word)
	}
	return found
}

// option is one that a command takes.
type option struct {
	name  string // without its dash
	takes bool   // an argument
	help  string
}

// optionSet is what a command takes. Of those of a group one may be given, and must be if it is required.
type optionSet struct {
	options  []option
	grouped  bool // all of them are one group
	required bool
}

// find returns the option with a name.
func (s *optionSet) find(name string) *option {
	for i := range s.options {
		if s.options[i].name == name {
			return &s.options[i]
		}
	}
	return nil
}

// parsed is a command line: the options with their values, and what else there is, the command first.
type parsed struct {
	values map[string]string
	args   []string
}

// has tells whether an option was given.
func (p *parsed) has(name string) bool {
	_, ok := p.values[name]
	return ok
}

// The exceptions of commons-cli, whose names zkCli prints.
const (
	unrecognizedOption = "org.apache.commons.cli.UnrecognizedOptionException: Unrecognized option: "
	missingArgument    = "org.apache.commons.cli.MissingArgumentException: Missing argument for option: "
	missingOption      = "org.apache.commons.cli.MissingOptionException: Missing required option: "
	alreadySelected    = "org.apache.commons.cli.AlreadySelectedException: The option "
)

// optionParser reads words as org.apache.commons.cli.DefaultParser does with short options alone. They may have names
// of several letters.
type optionParser struct {
	set     *optionSet
	into    parsed
	open    *option // waits for its argument
	skip    bool    // after --
	chosen  string  // of the group
	problem string
}

// parse reads a command line; an error is what zkCli says.
func (s *optionSet) parse(line []string) (*parsed, error) {
	p := optionParser{set: s, into: parsed{values: map[string]string{}}}
	for _, word := range line {
		if p.take(word); p.problem != "" {
			return nil, failure{text: p.problem}
		}
	}
	if p.close(); p.problem == "" && s.required && p.chosen == "" {
		var each []string
		for _, o := range s.options {
			each = append(each, "-"+o.name+" "+o.help)
		}
		p.problem = missingOption + "[" + strings.Join(each, ", ") + "]"
	}
	if p.problem != "" {
		return nil, failure{text: p.problem}
	}
	return &p.into, nil
}

// take is DefaultParser.handleToken.
func (p *optionParser) take(word string) {
	switch {
	case p.skip:
		p.into.args = append(p.into.args, word)
	case word == "--":
		p.skip = true
	case p.open != nil && p.isArgument(word):
		p.into.values[p.open.name] = unquoted(word)
		p.open = nil
	case strings.HasPrefix(word, "--"):
		p.problem = unrecognizedOption + word
	case strings.HasPrefix(word, "-") && word != "-":
		p.option(word)
	default:
		p.into.args = append(p.into.args, word)
	}
}

// isArgument tells whether a word is what an option before it waits for.
func (p *optionParser) isArgument(word string) bool {
	name := strings.TrimLeft(word, "-")
	if !strings.HasPrefix(word, "-") || word == "-" || negative.MatchString(word) {
		return true
	}
	name, _, _ = strings.Cut(name, "=")
	return name == "" || p.set.find(name) == nil && p.set.find(name[:1]) == nil
}

// negative is a number below 0, which is no option.
var negative = regexp.MustCompile(`^-(\d+\.?\d*|\.\d+)$`)

// option is DefaultParser.handleShortAndLongOption.
func (p *optionParser) option(word string) {
	name := strings.TrimLeft(word, "-")
	before, value, equals := strings.Cut(name, "=")
	switch o := p.set.find(name); {
	case o != nil:
		p.choose(o)
	case equals && len(before) == 1 && p.set.find(before) != nil && p.set.find(before).takes:
		p.choose(p.set.find(before))
		p.into.values[before] = value
		p.open = nil
	case equals || len(name) == 1:
		p.problem = unrecognizedOption + word
	default:
		p.joined(word)
	}
}

// joined is DefaultParser.handleConcatenatedOptions: -sw, or -v5.
func (p *optionParser) joined(word string) {
	for i, letter := range word[1:] {
		o := p.set.find(string(letter))
		if o == nil {
			p.problem = unrecognizedOption + word
			return
		}
		if p.choose(o); p.problem != "" {
			return
		}
		if rest := word[1+i+len(string(letter)):]; p.open != nil && rest != "" {
			p.into.values[o.name] = rest
			p.open = nil
			return
		}
	}
}

// choose is DefaultParser.handleOption.
func (p *optionParser) choose(o *option) {
	if p.close(); p.problem != "" {
		return
	}
	if p.set.grouped && p.chosen != "" && p.chosen != o.name {
		p.problem = alreadySelected + "'" + o.name + "' was specified but an option from this group has already been " +
			"selected: '" + p.chosen + "'"
		return
	}
	p.chosen = o.name
	if _, given := p.into.values[o.name]; !given {
		p.into.values[o.name] = ""
	}
	if o.takes {
		p.open = o
	}
}

// close is called where an option must have got its argument.
func (p *optionParser) close() {
	if p.open != nil {
		p.problem = missingArgument + p.open.name
	}
}

// unquoted takes the quotes around a word away if there are none in it.
func unquoted(word string) string {
	if n := len(word); n > 1 && word[0] == '"' && word[n-1] == '"' && !strings.Contains(word[1:n-1], `"`) {
		return word[1 : n-1]
	}
	return word
}

// help is how commons-cli prints options, by their names without regard to case.
func (s *optionSet) help() string {
	sorted := slices.Clone(s.options)
	sort.Slice(sorted, func(i, j int) bool {
		return strings.ToLower(sorted[i].name) < strings.ToLower(sorted[j].name)
	})
	var names []string
	widest := 0
	for _, o := range sorted {
		name := " -" + o.name
		if o.takes {
			name += " <arg>"
		}
		names = append(names, name)
		widest = max(widest, len(name))
	}
	var b strings.Builder
	for i, o := range sorted {
		b.WriteString("\n" + names[i] + strings.Repeat(" ", widest-len(names[i])+3) + o.help)
	}
	return b.String()
}
