package fourletter

import (
	"encoding/binary"
	"slices"
	"strings"
)

// Command is a command as its four bytes, the first one highest: what a frame's length would be in their place.
type Command uint32

// The commands of 3.9.5 (org.apache.zookeeper.server.command.FourLetterCommands).
const (
	Conf Command = 'c'<<24 | 'o'<<16 | 'n'<<8 | 'f'
	Cons Command = 'c'<<24 | 'o'<<16 | 'n'<<8 | 's'
	Crst Command = 'c'<<24 | 'r'<<16 | 's'<<8 | 't'
	Dirs Command = 'd'<<24 | 'i'<<16 | 'r'<<8 | 's'
	Dump Command = 'd'<<24 | 'u'<<16 | 'm'<<8 | 'p'
	Envi Command = 'e'<<24 | 'n'<<16 | 'v'<<8 | 'i'
	Gtmk Command = 'g'<<24 | 't'<<16 | 'm'<<8 | 'k'
	Hash Command = 'h'<<24 | 'a'<<16 | 's'<<8 | 'h'
	Isro Command = 'i'<<24 | 's'<<16 | 'r'<<8 | 'o'
	Mntr Command = 'm'<<24 | 'n'<<16 | 't'<<8 | 'r'
	Ruok Command = 'r'<<24 | 'u'<<16 | 'o'<<8 | 'k'
	Srst Command = 's'<<24 | 'r'<<16 | 's'<<8 | 't'
	Srvr Command = 's'<<24 | 'r'<<16 | 'v'<<8 | 'r'
	Stat Command = 's'<<24 | 't'<<16 | 'a'<<8 | 't'
	Stmk Command = 's'<<24 | 't'<<16 | 'm'<<8 | 'k'
	Wchc Command = 'w'<<24 | 'c'<<16 | 'h'<<8 | 'c'
	Wchp Command = 'w'<<24 | 'c'<<16 | 'h'<<8 | 'p'
	Wchs Command = 'w'<<24 | 'c'<<16 | 'h'<<8 | 's'
	// TelnetClose is what telnet sends when it is interrupted: a known command without an answer.
	TelnetClose Command = 0xfff4fffd
)

// telnetCloseName is the name of TelnetClose in the whitelist and in its refusal.
const telnetCloseName = "telnet close"

// commands are all commands, in the order of their names.
var commands = []Command{
	Conf, Cons, Crst, Dirs, Dump, Envi, Gtmk, Hash, Isro, Mntr, Ruok, Srst, Srvr, Stat, Stmk,
	Wchc, Wchp, Wchs, TelnetClose,
}

// Parse says whether the first four bytes of a connection are a command. What follows them is ignored, but for
// ArgumentBytes.
func Parse(first [4]byte) (Command, bool) {
	w := Command(binary.BigEndian.Uint32(first[:]))
	return w, slices.Contains(commands, w)
}

// String returns the command as it is typed.
func (w Command) String() string {
	if w == TelnetClose {
		return telnetCloseName
	}
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(w))
	return string(b[:])
}

// ArgumentBytes returns how many bytes the command takes after its four letters: 8 for stmk, a trace mask, else 0.
func (w Command) ArgumentBytes() int {
	if w == Stmk {
		return 8
	}
	return 0
}

// whitelist is the set of commands that are answered.
type whitelist []Command

// parseWhitelist reads the value of 4lw.commands.whitelist: commands between commas, * for all. srvr is always on, isro
// when the read-only mode is. What is no command is returned as well: ZooKeeper takes it without a sound.
func parseWhitelist(text string, readOnlyMode bool) (list whitelist, unknown []string) {
	list = append(list, Srvr)
	if readOnlyMode {
		list = append(list, Isro)
	}
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		switch i := slices.IndexFunc(commands, func(w Command) bool { return w.String() == name }); {
		case name == "":
		case name == "*":
			return commands, unknown
		case i < 0:
			unknown = append(unknown, name)
		default:
			list = append(list, commands[i])
		}
	}
	return list, unknown
}
