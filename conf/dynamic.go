package conf

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// dynamicInfix is what stands between the name of zoo.cfg and the version in the name of a dynamic file.
const dynamicInfix = ".dynamic."

// dynamicNext is the end of the name of the file in which ZooKeeper keeps a configuration that is not agreed on yet.
const dynamicNext = ".dynamic.next"

// backupSuffix is the end of the name under which the first zoo.cfg is kept.
const backupSuffix = ".bak"

// Files is what WriteDynamic needs of a file system. An implementation is in DiskFiles.
type Files interface {
	// ReadFile is os.ReadFile.
	ReadFile(name string) ([]byte, error)
	// WriteFile puts content in place of the file name, or makes it, with the permissions of the file like if that is
	// not empty. After a crash at any time the file is the old one or the new one, whole; when WriteFile returns it is
	// the new one.
	WriteFile(name, like string, content []byte) error
	// Remove is os.Remove.
	Remove(name string) error
}

// Membership is what a reconfiguration has made of the members, for WriteDynamic.
type Membership struct {
	// Static is the name of zoo.cfg, from Config.MembershipFile.
	Static string
	// MyID is the number of this server.
	MyID int64
	// Lines are the server lines as /zookeeper/config has them, `server.N=…` each, without the one of the version.
	Lines []string
	// Version is that of the configuration, at least 0.
	Version int64
}

// MembershipFile returns the zoo.cfg that follows reconfigurations. It is empty when none can, and why then says so for
// the log: without reconfigEnabled=true, in a standalone server, and when the members come from elsewhere, so that a
// file would not count at the next start.
func (c *Config) MembershipFile() (static, why string) {
	switch named, isNamed := c.settings["dynamicConfigFile"]; {
	case !c.Ensemble.Distributed:
		return "", "a standalone server has no members"
	case !c.Tree.Reconfig:
		return "", "reconfigEnabled is false"
	case c.File == "" || c.text:
		return "", "the server was started without a zoo.cfg"
	case isNamed && named.layer > layerDefault && named.layer != layerFile:
		return "", "dynamicConfigFile comes from " + named.source
	case len(c.members) > 0 && c.members[0].layer != layerFile:
		return "", "the server lines come from " + c.members[0].source
	}
	return c.File, ""
}

// WriteDynamic writes the members into a dynamic configuration file beside zoo.cfg, whose name ends with the version,
// and makes zoo.cfg name it; it returns that name. It does what ZooKeeper does when a configuration takes effect
// (QuorumPeer.setQuorumVerifier, QuorumPeerConfig.writeDynamicConfig and editStaticConfig):
//
//   - The dynamic file has the lines sorted as text, without the version and without a line end behind the last.
//   - Lines of zoo.cfg about members go: server.N, group.N, weight.N, peerType, an older dynamicConfigFile, and
//     clientPort and clientPortAddress if the own server line has a client address. Unlike in ZooKeeper, which writes
//     all keys anew without comments in any order, everything else stays as it is, byte for byte.
//   - A zoo.cfg that named no dynamic file before is kept under its name and `.bak`, readable by whom it was.
//   - The file `.dynamic.next` that ZooKeeper may have left is removed. Older dynamic files stay, as they do there.
//
// A crash in between leaves the old zoo.cfg or the new one, each with its dynamic file. To call it again with the same
// membership is free. A zoo.cfg without a single key is an error: whoever saves it may have emptied it first, and the
// next start would find what was put in its place meanwhile, which names the members and nothing else.
func WriteDynamic(files Files, m Membership) (name string, err error) {
	static, err := filepath.Abs(m.Static)
	if err != nil {
		return "", fmt.Errorf("find the folder of %s: %w", m.Static, err)
	}
	old, err := files.ReadFile(static)
	if err != nil {
		return "", fmt.Errorf("read the configuration file to name the new members in it: %w", err)
	}
	name = static + dynamicInfix + strconv.FormatInt(m.Version, 16)
	edited, backup, err := editStatic(old, name, m.ownHasClientAddr())
	if err != nil {
		return "", fmt.Errorf("name %s in %s: %w", name, static, err)
	}
	if err := writeChanged(files, name, "", m.content()); err != nil {
		return "", err
	}
	if backup {
		// Nobody reads there the passwords who may not read them in zoo.cfg.
		if err := writeChanged(files, static+backupSuffix, static, old); err != nil {
			return "", err
		}
	}
	if err := writeChanged(files, static, "", edited); err != nil {
		return "", err
	}
	if err := files.Remove(static + dynamicNext); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("remove what an unfinished reconfiguration has left; remove it by hand: %w", err)
	}
	return name, nil
}

// content is the text of the dynamic file.
func (m Membership) content() []byte {
	return []byte(strings.Join(slices.Sorted(slices.Values(m.Lines)), "\n"))
}

// ownHasClientAddr tells whether the own server line has a client address, which then counts in place of clientPort.
func (m Membership) ownHasClientAddr() bool {
	prefix := fmt.Sprintf("server.%d=", m.MyID)
	for _, line := range m.Lines {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			_, client, _ := strings.Cut(rest, ";")
			return client != ""
		}
	}
	return false
}

// writeChanged writes a file unless it has that content already; like is as in Files.
func writeChanged(files Files, name, like string, content []byte) error {
	if have, err := files.ReadFile(name); err == nil && bytes.Equal(have, content) {
		return nil
	}
	if err := files.WriteFile(name, like, content); err != nil {
		return fmt.Errorf("write the members to %s; a restart would not know the new ones: %w", name, err)
	}
	return nil
}

// errEdit is an invariant: the edited text must read as the old one without the lines about members.
var errEdit = errors.New("the edited text would read differently; write the file anew with one key a line")

// errBlank is for a zoo.cfg that is not what any server was started with: it has the members, or names their file.
var errBlank = errors.New("it has no keys, as while somebody saves it")

// editStatic returns text without its lines about members and with the line that names the dynamic file: in the place
// of the one before it, else at the end. backup tells that there was none before.
func editStatic(text []byte, dynamic string, eraseClient bool) (edited []byte, backup bool, err error) {
	entries, broken := parseProperties(text)
	if len(broken) > 0 {
		return nil, false, fmt.Errorf("line %d: %s", broken[0].line, broken[0].reason)
	}
	if len(entries) == 0 {
		return nil, false, errBlank
	}
	pointer := []byte("dynamicConfigFile=" + escapeValue(dynamic) + lineEnd(text))
	backup = true
	var kept []entry
	done := 0
	for _, e := range entries {
		key := trimJava(e.key)
		if !isMemberKey(key, eraseClient) {
			kept = append(kept, e)
			continue
		}
		edited = append(edited, text[done:e.begin]...)
		done = e.end
		if key == "dynamicConfigFile" && backup {
			line := pointer
			if e.key == key && e.value == dynamic {
				line = text[e.begin:e.end] // as it is, line end and all: to edit again changes nothing
			}
			edited, backup = append(edited, line...), false
		}
	}
	edited = append(edited, text[done:]...)
	if !backup {
		return edited, false, checkEdit(edited, kept, dynamic)
	}
	last := edited
	if len(last) > 0 && !isLineEnd(last[len(last)-1]) {
		last = append(slices.Clip(last), lineEnd(text)...)
	}
	last = append(slices.Clip(last), pointer...)
	if err := checkEdit(last, kept, dynamic); err != nil {
		// A backslash at the end of the text would take the line in; nothing does at its beginning.
		last = append(pointer, edited...)
	}
	return last, true, checkEdit(last, kept, dynamic)
}

// checkEdit tells whether text has the entries kept and the name of the dynamic file, and nothing else.
func checkEdit(text []byte, kept []entry, dynamic string) error {
	entries, broken := parseProperties(text)
	rest := make([]entry, 0, len(entries))
	named := 0
	for _, e := range entries {
		if e.key == "dynamicConfigFile" && e.value == dynamic {
			named++
			continue
		}
		rest = append(rest, e)
	}
	same := func(a, b entry) bool { return a.key == b.key && a.value == b.value }
	if len(broken) > 0 || named != 1 || !slices.EqualFunc(rest, kept, same) {
		return errEdit
	}
	return nil
}

// isMemberKey tells whether a key of zoo.cfg moves to the dynamic file or goes.
func isMemberKey(key string, eraseClient bool) bool {
	switch key {
	case "dynamicConfigFile", "peerType":
		return true
	case "clientPort", "clientPortAddress":
		return eraseClient
	}
	for _, prefix := range []string{"server.", "group.", "weight."} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// lineEnd is what the lines of text end with, by its first.
func lineEnd(text []byte) string {
	i := bytes.IndexAny(text, "\r\n")
	switch {
	case i < 0 || text[i] == '\n':
		return "\n"
	case i+1 < len(text) && text[i+1] == '\n':
		return "\r\n"
	}
	return "\r"
}

// escapeValue writes a value so that parseProperties reads it back.
func escapeValue(s string) string {
	var b strings.Builder
	for i, unit := range utf16.Encode([]rune(s)) {
		switch {
		case unit == '\\', unit == ' ' && i == 0:
			b.WriteByte('\\')
			b.WriteByte(byte(unit))
		case unit < ' ' || unit > '~':
			fmt.Fprintf(&b, "\\u%04x", unit)
		default:
			b.WriteByte(byte(unit))
		}
	}
	return b.String()
}
