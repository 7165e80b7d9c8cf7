package conf

import (
	"math"
	"strconv"
	"strings"
	"sync"
	"time"
)

// kind says how the text of a value is read.
type kind int

const (
	kindText     kind = iota // any text, blanks around it removed
	kindPath                 // a file or folder name
	kindNumber               // a decimal integer, as Integer.parseInt reads it
	kindPort                 // number, 0 to 65535; 0 is not set
	kindProperty             // an integer as Integer.getInteger reads it: decimal, 0x or # hexadecimal, leading 0 octal
	kindMillis               // property in milliseconds
	kindHours                // number of hours
	kindKibibyte             // property in units of 1024 bytes
	kindDecimal              // a floating point number
	kindBoolean              // true or false in any case
	kindYesNo                // yes or no
	kindChoice               // one of the key's choices, case and all
	kindWord                 // one of the key's choices, in any case; the value is the choice
	kindList                 // words with commas between them
	kindMember               // a server line
	kindSize                 // a decimal number of bytes, 64 bits
)

// Mark is what zkd makes of a key.
type mark byte

const (
	must     mark = 'M' // honoured
	should   mark = 'S' // honoured as far as it has a meaning
	tuning   mark = 'P' // accepted and ignored: it tunes a design zkd does not have
	javaOnly mark = 'J' // accepted and ignored: it has no meaning outside the JVM
)

// effect is what setting a key does in this release.
type effect int

const (
	works   effect = iota // it does what the table says
	refused               // the start is refused when it asks for something: see Config.Unsupported
	ignored               // zkd will not act on it: one notice that says why
)

// key is one row of the table of keys. A name that ends in ".N" or ".X" stands for every key with that prefix: N is a
// number, X any word.
type key struct {
	name     string // as in zoo.cfg
	property string // name of the JVM property; empty for the keys that ZooKeeper reads from zoo.cfg alone
	kind     kind
	def      string // default as text; empty is none
	min, max int64  // for the number kinds; both 0 is the whole range of the Java type
	choices  []string
	mark     mark
	effect   effect
	runtime  bool // can change while the server runs
	secret   bool
	doc      string // one sentence for the reference page
	why      string // the notice of an ignored key
	set      func(c *Config, v value)
}

// value is a text read by its kind; one field is filled, text always.
type value struct {
	text  string
	num   int64 // number kinds; bytes for kibibyte
	flag  bool
	span  time.Duration
	ratio float64
	list  []string
	index string // what stands for N or X in the name
}

// prefix returns the part of an indexed name before N or X, the dot included; ok is false for other names.
func (k *key) prefix() (prefix string, ok bool) {
	if base, found := strings.CutSuffix(k.name, ".N"); found {
		return base + ".", true
	}
	if base, found := strings.CutSuffix(k.name, ".X"); found {
		return base + ".", true
	}
	return "", false
}

// bounds returns the smallest and largest number allowed.
func (k *key) bounds() (lowest, highest int64) {
	if k.min != 0 || k.max != 0 {
		return k.min, k.max
	}
	switch k.kind {
	case kindPort:
		return 0, math.MaxUint16
	case kindKibibyte:
		return math.MinInt64 >> 10, math.MaxInt64 >> 10
	default:
		return math.MinInt32, math.MaxInt32
	}
}

// allowed says what may stand as the value, for messages and the reference page.
func (k *key) allowed() string {
	switch k.kind {
	case kindNumber, kindProperty, kindMillis, kindHours, kindKibibyte, kindPort, kindSize:
		return "a whole number" + k.unit() + k.span()
	case kindDecimal:
		return "a number, not negative, such as 0.02"
	case kindBoolean:
		return "true or false"
	case kindYesNo:
		return "yes or no"
	case kindChoice, kindWord:
		return "one of " + strings.TrimPrefix(strings.Join(k.choices, ", "), ", ")
	case kindList:
		return "words with commas between them"
	case kindMember:
		return "host:peerPort:electionPort[:participant|observer][;[clientHost:]clientPort]"
	case kindPath:
		return "a path"
	case kindText:
		return "text"
	}
	return ""
}

// unit names the unit of a number with a blank before it.
func (k *key) unit() string {
	switch k.kind {
	case kindMillis:
		return " of milliseconds"
	case kindHours:
		return " of hours"
	case kindKibibyte:
		return " of units of 1024 bytes"
	case kindSize:
		return " of bytes"
	default:
		return ""
	}
}

// span writes the range of a number with a blank before it, or nothing when it is that of the Java type.
func (k *key) span() string {
	lowest, highest := k.bounds()
	switch {
	case lowest == highest:
		return " that is " + strconv.FormatInt(lowest, 10)
	case lowest == math.MinInt32 && highest == math.MaxInt32, k.kind == kindKibibyte:
		return ""
	case highest == maxLong:
		return " from " + strconv.FormatInt(lowest, 10)
	}
	return " from " + strconv.FormatInt(lowest, 10) + " to " + strconv.FormatInt(highest, 10)
}

// table is the set of keys with its indexes. Nobody changes it.
type table struct {
	rows    []key
	exact   map[string]*key // by name, by property, and by property without `zookeeper.`
	indexed []*key          // rows whose name ends in .N or .X
	byEnv   map[string]*key // by the ZKD_ variable
}

// propertyPrefix begins the name of nearly every JVM property of ZooKeeper; in zoo.cfg it is left out.
const propertyPrefix = "zookeeper."

// theTable is built once: a process that plays simulated servers, or checks many files, reads a configuration for each.
var theTable = sync.OnceValue(newTable)

// newTable indexes all rows.
func newTable() *table {
	t := &table{exact: map[string]*key{}, byEnv: map[string]*key{}}
	for _, part := range [][]key{
		fileKeys, quorumKeys, ownKeys, serverKeys, adminKeys, limitKeys, authKeys, auditKeys,
		tlsKeys, sanKeys, clientTLSKeys, quorumTLSKeys, tuningKeys, javaKeys,
	} {
		t.rows = append(t.rows, part...)
	}
	for i := range t.rows {
		k := &t.rows[i]
		if _, ok := k.prefix(); ok {
			t.indexed = append(t.indexed, k)
			continue
		}
		t.exact[k.name] = k
		if k.property != "" {
			t.exact[k.property] = k
			t.exact[strings.TrimPrefix(k.property, propertyPrefix)] = k
		}
		t.byEnv[envName(k.name)] = k
	}
	return t
}

// find returns the row for a name as it stands in zoo.cfg or as a JVM property, with or without `zookeeper.`, and the
// index of an indexed key. A row that ZooKeeper reads from zoo.cfg alone is not found under a name with the prefix:
// there it would be another key.
func (t *table) find(name string) (row *key, index string, ok bool) {
	if k := t.exact[name]; k != nil {
		return k, "", true
	}
	bare, prefixed := strings.CutPrefix(name, propertyPrefix)
	if prefixed {
		if k := t.exact[bare]; k != nil && k.property != "" {
			return k, "", true
		}
	}
	for _, k := range t.indexed {
		prefix, _ := k.prefix()
		if prefixed && k.property == "" {
			continue
		}
		if rest, found := strings.CutPrefix(bare, prefix); found && rest != "" && k.takes(rest) {
			return k, rest, true
		}
	}
	return nil, "", false
}

// takes tells whether index may stand for the N or X of the key's name. A server line with a word instead of a number
// is taken, so that it is refused with a message rather than passed over as an unknown key.
func (k *key) takes(index string) bool {
	if strings.HasSuffix(k.name, ".X") || k.kind == kindMember {
		return true
	}
	return isDigits(index)
}

// fullName is the name of a key with its index in place of N or X.
func (k *key) fullName(index string) string {
	if prefix, ok := k.prefix(); ok {
		return prefix + index
	}
	return k.name
}

// isDigits tells whether s is one or more decimal digits.
func isDigits(s string) bool {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return s != ""
}
