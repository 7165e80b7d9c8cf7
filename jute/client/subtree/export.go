package subtree

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"zkd/jute"
	"zkd/jute/client/session"
)

// Version is that of the form in which subtrees are written.
const Version = 1

// Header is the first line of an export.
type Header struct {
	Version int    `json:"zkdExport"`
	Root    string `json:"root"`
}

// Value is a value: as text where it is UTF-8, else in base64. Neither is null.
type Value struct {
	Data   *string `json:"data,omitempty"`
	Base64 *string `json:"base64,omitempty"`
}

// NewValue is data as it is written.
func NewValue(data []byte) Value {
	text := string(data)
	switch {
	case data == nil:
		return Value{}
	case utf8.Valid(data):
		return Value{Data: &text}
	}
	text = base64.StdEncoding.EncodeToString(data)
	return Value{Base64: &text}
}

// ACLEntry is one entry of an ACL.
type ACLEntry struct {
	Scheme string `json:"scheme"`
	ID     string `json:"id"`
	Perms  string `json:"perms"`
}

// NewACL is an ACL as it is written.
func NewACL(acl []jute.ACL) []ACLEntry {
	all := []ACLEntry{}
	for _, a := range acl {
		all = append(all, ACLEntry{a.ID.Scheme, a.ID.ID, PermsText(a.Perms)})
	}
	return all
}

// PermsOf are the letters of permissions.
var PermsOf = map[rune]jute.Perms{'r': jute.PermRead, 'w': jute.PermWrite, 'c': jute.PermCreate, 'd': jute.PermDelete,
	'a': jute.PermAdmin}

// PermsText is ZKUtil.getPermString.
func PermsText(perms jute.Perms) string {
	var b strings.Builder
	for _, p := range []struct {
		bit    jute.Perms
		letter byte
	}{{jute.PermCreate, 'c'}, {jute.PermDelete, 'd'}, {jute.PermRead, 'r'}, {jute.PermWrite, 'w'},
		{jute.PermAdmin, 'a'}} {
		if perms&p.bit != 0 {
			b.WriteByte(p.letter)
		}
	}
	return b.String()
}

// Entry is each further line of an export: a znode, by its path below the root.
type Entry struct {
	Path string `json:"path,omitempty"`
	Value

	ACL       []ACLEntry `json:"acl"`
	Ephemeral string     `json:"ephemeral,omitempty"` // the session that it belongs to: it is not imported
}

// NewEntry is what is written of a znode.
func NewEntry(n *Node, root string) Entry {
	e := Entry{Path: Moved(n.Path, root, "/"), Value: NewValue(n.Data), ACL: NewACL(n.ACL)}
	if n.Ephemeral() {
		e.Ephemeral = jute.Hex(n.Stat.EphemeralOwner)
	}
	return e
}

// NewNode is what a create needs.
func (e *Entry) NewNode() (session.NewNode, error) {
	n := session.NewNode{}
	switch {
	case e.Data != nil:
		n.Data = []byte(*e.Data)
	case e.Base64 != nil:
		var err error
		if n.Data, err = base64.StdEncoding.DecodeString(*e.Base64); err != nil {
			return n, fmt.Errorf("the data of %q: %w", e.Path, err)
		}
	}
	for _, a := range e.ACL {
		var perms jute.Perms
		for _, letter := range a.Perms {
			if PermsOf[letter] == 0 {
				return n, fmt.Errorf("the ACL of %q: %q is no permission", e.Path, letter)
			}
			perms |= PermsOf[letter]
		}
		n.ACL = append(n.ACL, jute.ACL{Perms: perms, ID: jute.ID{Scheme: a.Scheme, ID: a.ID}})
	}
	if len(n.ACL) == 0 {
		n.ACL = session.World()
	}
	return n, nil
}

// WriteLine writes a header or an entry.
func WriteLine(w io.Writer, line any) error {
	b, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// Errors of exports that are read.
var (
	// ErrNoExport means something that is no export.
	ErrNoExport = errors.New("is no export of zkd")
	// ErrVersion means one of another version.
	ErrVersion = errors.New("was written in a form that this zkd does not read")
)

// Reader reads an export of lines.
type Reader struct{ lines *json.Decoder }

// NewReader reads the header.
func NewReader(r io.Reader) (*Reader, Header, error) {
	in := &Reader{json.NewDecoder(bufio.NewReader(r))}
	var h Header
	if err := in.lines.Decode(&h); err != nil || h.Version == 0 {
		return nil, h, ErrNoExport
	}
	if h.Version != Version {
		return nil, h, fmt.Errorf("%w: %d, and it reads %d", ErrVersion, h.Version, Version)
	}
	return in, h, nil
}

// Next reads an entry; io.EOF is the end.
func (r *Reader) Next() (*Entry, error) {
	e := &Entry{}
	return e, r.lines.Decode(e)
}
