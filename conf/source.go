package conf

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// Sources is what a configuration is made of, lowest precedence first: built-in defaults, the JVM flags, without a
// zoo.cfg the ZOO_ variables of the official image, zoo.cfg, the ZKD_ variables, and the flags of the command line.
type Sources struct {
	// Path is the name of the zoo.cfg; empty is the one in ZOO_CONF_DIR if that is there, as in the official image, or
	// none. It is read with ReadFile unless Text is given.
	Path string
	// Text is the content of the zoo.cfg. It may be given without a Path and is then called zoo.cfg in messages. Load
	// does not keep it.
	Text []byte
	// Environ is the environment as os.Environ gives it.
	Environ []string
	// Hostname is the name of this host, for zkd.myidFromHostname; empty is unknown.
	Hostname string
	// Flags holds values from the command line by key name, as docs/configuration.md has them (`clientPort`,
	// `server.1`).
	Flags map[string]string
	// ReadFile reads zoo.cfg, the file myid in dataDir, and the dynamic configuration file. A file that does not exist
	// must give an error for which errors.Is(err, fs.ErrNotExist) holds. nil is a file system without files.
	ReadFile func(name string) ([]byte, error)
}

// file is the name of the zoo.cfg to read, or empty.
func (s Sources) file() string {
	if s.Path != "" || s.Text != nil {
		return s.Path
	}
	return imageFile(newEnvironment(s.Environ), s.reader())
}

// reader is ReadFile, or one that finds nothing.
func (s Sources) reader() func(name string) ([]byte, error) {
	if s.ReadFile != nil {
		return s.ReadFile
	}
	return func(name string) ([]byte, error) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
}

// layer is the precedence of a source; a higher one wins.
type layer int

const (
	layerDefault layer = iota
	layerJVM
	layerImage
	layerFile
	layerEnv
	layerFlag
)

// setting is one value of a key and where it comes from. It is what viper stores and layers.
type setting struct {
	row    *key
	index  string // what stands for N or X in the name
	value  string // blanks around it removed
	source string // for messages; empty for a default
	layer  layer
	order  int // place among all that was given, from 1; 0 for a default
}

// name is the key's name with its index.
func (s setting) name() string { return s.row.fullName(s.index) }

// isDefault tells whether the value is the same as the default.
func (s setting) isDefault() bool {
	return s.value == s.row.def || (s.row.kind == kindBoolean && strings.EqualFold(s.value, s.row.def))
}

// asksForNothing tells whether a key without effect was set to what holds anyway: the default. The image sets all its
// variables, so what it sets them to says nothing either.
func (s setting) asksForNothing() bool {
	if s.layer == layerImage && isImageDefault(s.name(), s.value) {
		return true
	}
	return s.row.def != "" && s.isDefault()
}

// shown is the value for messages.
func (s setting) shown() string {
	if s.row.secret && s.value != "" {
		return hidden
	}
	return s.value
}

// problem makes the Problem of a wrong value.
func (s setting) problem(allowed string) Problem {
	return Problem{Key: s.name(), Source: s.source, Value: s.shown(), Allowed: allowed, order: s.order}
}

// notice makes a Notice about a value.
func (s setting) notice(kind NoticeKind, message string) Notice {
	return Notice{Kind: kind, Key: s.name(), Source: s.source, Message: message, order: s.order}
}

// assignment is a key and a value as a source has them, before the key is looked up.
type assignment struct {
	name   string
	value  string
	source string
	line   int // in a file; 0 elsewhere
}

// environment is an environment by variable name. Of a repeated name the first counts, as in os.LookupEnv.
type environment map[string]string

// newEnvironment splits `NAME=value` strings.
func newEnvironment(environ []string) environment {
	env := environment{}
	for _, entry := range environ {
		name, val, found := strings.Cut(entry, "=")
		if _, seen := env[name]; found && !seen {
			env[name] = val
		}
	}
	return env
}

// names returns the variables that begin with prefix and are not empty, sorted.
func (e environment) names(prefix string) []string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(e)) {
		if strings.HasPrefix(name, prefix) && e[name] != "" {
			found = append(found, name)
		}
	}
	return found
}

// variable names an environment variable in messages.
func variable(name string) string { return "environment variable " + name }

// envPrefix begins the name of every environment variable of zkd.
const envPrefix = "ZKD_"

// ownPrefix begins the names of the keys that ZooKeeper has not.
const ownPrefix = "zkd."

// envName is the environment variable of a key: ZKD_ and the name in capitals, with an underscore for each dot and dash
// and before each capital that begins a word. clientPort is ZKD_CLIENT_PORT, jute.maxbuffer ZKD_JUTE_MAXBUFFER, skipACL
// ZKD_SKIP_ACL, server.1 ZKD_SERVER_1. The `zkd.` of our own keys is not written twice.
func envName(name string) string {
	name = strings.TrimPrefix(name, ownPrefix)
	var b strings.Builder
	b.WriteString(envPrefix)
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c == '.' || c == '-' {
			b.WriteByte('_')
			continue
		}
		if beginsWord(name, i) {
			b.WriteByte('_')
		}
		b.WriteString(strings.ToUpper(string(rune(c))))
	}
	return b.String()
}

// beginsWord tells whether the capital at name[i] begins a new word of a camel-case name: after a small letter or
// before one. A digit is part of the word it follows.
func beginsWord(name string, i int) bool {
	if i == 0 || !isUpper(name[i]) || name[i-1] == '.' || name[i-1] == '-' || name[i-1] == '_' {
		return false
	}
	if isLower(name[i-1]) {
		return true
	}
	return i+1 < len(name) && isLower(name[i+1]) && name[i+1:] != "s"
}

func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }
func isLower(c byte) bool { return c >= 'a' && c <= 'z' }

// findEnv returns the row and index for a ZKD_ variable. What stands for an X is in small letters, since the variable
// has only capitals.
func (t *table) findEnv(name string) (row *key, index string, ok bool) {
	if k := t.byEnv[name]; k != nil {
		return k, "", true
	}
	for _, k := range t.indexed {
		prefix, _ := k.prefix()
		rest, found := strings.CutPrefix(name, envName(strings.TrimSuffix(prefix, "."))+"_")
		if found && rest != "" && k.takes(rest) {
			return k, strings.ToLower(rest), true
		}
	}
	return nil, "", false
}

// jvmFlags returns the -Dname=value words of SERVER_JVMFLAGS and JVMFLAGS, in the order in which zkServer.sh hands them
// to java, where the last one wins. The shell splits the variables at blanks and removes no quotes, so neither does
// this.
func jvmFlags(env environment) []assignment {
	var found []assignment
	for _, name := range []string{"SERVER_JVMFLAGS", "JVMFLAGS"} {
		for word := range strings.FieldsSeq(env[name]) {
			definition, ok := strings.CutPrefix(word, "-D")
			if !ok {
				continue
			}
			key, val, _ := strings.Cut(definition, "=")
			found = append(found, assignment{name: key, value: val, source: variable(name)})
		}
	}
	return found
}

// atLine names a line of a file in messages.
func atLine(file string, line int) string { return fmt.Sprintf("%s:%d", file, line) }
