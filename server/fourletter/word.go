package fourletter

import (
	"encoding/binary"
	"slices"
	"strings"
)

// Word is a command as its four bytes, the first one highest: what a frame's length would be in their place.
type Word uint32

// The words of 3.9.5 (org.apache.zookeeper.server.command.FourLetterCommands).
const (
	Conf Word = 'c'<<24 | 'o'<<16 | 'n'<<8 | 'f'
	Cons Word = 'c'<<24 | 'o'<<16 | 'n'<<8 | 's'
	Crst Word = 'c'<<24 | 'r'<<16 | 's'<<8 | 't'
	Dirs Word = 'd'<<24 | 'i'<<16 | 'r'<<8 | 's'
	Dump Word = 'd'<<24 | 'u'<<16 | 'm'<<8 | 'p'
	Envi Word = 'e'<<24 | 'n'<<16 | 'v'<<8 | 'i'
	Gtmk Word = 'g'<<24 | 't'<<16 | 'm'<<8 | 'k'
	Hash Word = 'h'<<24 | 'a'<<16 | 's'<<8 | 'h'
	Isro Word = 'i'<<24 | 's'<<16 | 'r'<<8 | 'o'
	Mntr Word = 'm'<<24 | 'n'<<16 | 't'<<8 | 'r'
	Ruok Word = 'r'<<24 | 'u'<<16 | 'o'<<8 | 'k'
	Srst Word = 's'<<24 | 'r'<<16 | 's'<<8 | 't'
	Srvr Word = 's'<<24 | 'r'<<16 | 'v'<<8 | 'r'
	Stat Word = 's'<<24 | 't'<<16 | 'a'<<8 | 't'
	Stmk Word = 's'<<24 | 't'<<16 | 'm'<<8 | 'k'
	Wchc Word = 'w'<<24 | 'c'<<16 | 'h'<<8 | 'c'
	Wchp Word = 'w'<<24 | 'c'<<16 | 'h'<<8 | 'p'
	Wchs Word = 'w'<<24 | 'c'<<16 | 'h'<<8 | 's'
	// TelnetClose is what telnet sends when it is interrupted: a known word without an answer.
	TelnetClose Word = 0xfff4fffd
)

// telnetCloseName is the name of TelnetClose in the whitelist and in its refusal.
const telnetCloseName = "telnet close"

// words are all words, in the order of their names.
var words = []Word{
	Conf, Cons, Crst, Dirs, Dump, Envi, Gtmk, Hash, Isro, Mntr, Ruok, Srst, Srvr, Stat, Stmk,
	Wchc, Wchp, Wchs, TelnetClose,
}

// Parse says whether the first four bytes of a connection are a word. What follows them is ignored, but for
// ArgumentBytes.
func Parse(first [4]byte) (Word, bool) {
	w := Word(binary.BigEndian.Uint32(first[:]))
	return w, slices.Contains(words, w)
}

// String returns the word as it is typed.
func (w Word) String() string {
	if w == TelnetClose {
		return telnetCloseName
	}
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(w))
	return string(b[:])
}

// ArgumentBytes returns how many bytes the word takes after its four letters: 8 for stmk, a trace mask, else 0.
func (w Word) ArgumentBytes() int {
	if w == Stmk {
		return 8
	}
	return 0
}

// whitelist is the set of words that are answered.
type whitelist []Word

// parseWhitelist reads the value of 4lw.commands.whitelist: words between commas, * for all. srvr is always on, isro
// when the read-only mode is. What is no word is returned as well: ZooKeeper takes it without a sound.
func parseWhitelist(text string, readOnlyMode bool) (list whitelist, unknown []string) {
	list = append(list, Srvr)
	if readOnlyMode {
		list = append(list, Isro)
	}
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		switch i := slices.IndexFunc(words, func(w Word) bool { return w.String() == name }); {
		case name == "":
		case name == "*":
			return words, unknown
		case i < 0:
			unknown = append(unknown, name)
		default:
			list = append(list, words[i])
		}
	}
	return list, unknown
}
