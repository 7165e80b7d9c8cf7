package shell

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"zkd/jute"
	"zkd/jute/client/session"
)

// exportVersion is that of the form in which subtrees are written.
const exportVersion = 1

// exportHeader is the first line of an export.
type exportHeader struct {
	Version int    `json:"zkdExport"`
	Root    string `json:"root"`
}

// exportNode is each further one: a znode, by its path below the root.
type exportNode struct {
	Path string `json:"path,omitempty"`
	dataJSON

	ACL       []aclJSON `json:"acl"`
	Ephemeral string    `json:"ephemeral,omitempty"` // the session that it belongs to: it is not imported
}

// newExportNode is what is written of a znode.
func newExportNode(n *node, root string) exportNode {
	e := exportNode{Path: moved(n.path, root, "/"), dataJSON: newDataJSON(n.data), ACL: newACLJSON(n.acl)}
	if n.ephemeral() {
		e.Ephemeral = sessionText(n.stat.EphemeralOwner)
	}
	return e
}

// errNoExport means a file that is no export.
var errNoExport = errors.New("is no export of zkd cli")

// newNode is what a create needs.
func (e *exportNode) newNode() (session.NewNode, error) {
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
			if permsOf[letter] == 0 {
				return n, fmt.Errorf("the ACL of %q: %q is no permission", e.Path, letter)
			}
			perms |= permsOf[letter]
		}
		n.ACL = append(n.ACL, jute.ACL{Perms: perms, ID: jute.ID{Scheme: a.Scheme, ID: a.ID}})
	}
	if len(n.ACL) == 0 {
		n.ACL = session.World()
	}
	return n, nil
}

// runExport writes a subtree: as lines of JSON, or as files.
func runExport(c *call) error {
	root, err := pathOrRoot(c)
	if err != nil {
		return err
	}
	var to exportTo
	switch {
	case c.has("d") && c.has("f"):
		return failed("give either -d or -f")
	case c.has("d"):
		to, err = newFilesExport(c.values["d"])
	default:
		to, err = newLinesExport(c, c.values["f"], root)
	}
	if err != nil {
		return err
	}
	denied := denials{call: c}
	count := 0
	w := &walker{session: c.session, data: true, acl: true, depth: -1}
	err = w.walk(c.ctx, root, func(n *node) error {
		denied.note(n)
		if n.denied || n.ephemeral() && !c.has("e") {
			return nil
		}
		count++
		return to.put(newExportNode(n, root), n.data)
	})
	if err = errors.Join(err, to.close(err == nil)); err != nil {
		return answered(err, "null")
	}
	c.out.flush()
	c.err.print(itoa(count) + " znodes exported\n")
	return denied.err()
}

// exportTo is where an export goes.
type exportTo interface {
	put(e exportNode, data []byte) error
	close(whole bool) error
}

// linesExport is an export as lines.
type linesExport struct {
	w    *bufio.Writer
	file *os.File // nil: standard output
}

func newLinesExport(c *call, name, root string) (*linesExport, error) {
	l := &linesExport{w: c.out.w}
	if name != "" {
		// Values may be secret, and nothing is overwritten.
		file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the user names it
		if err != nil {
			return nil, err
		}
		l.file, l.w = file, bufio.NewWriter(file)
	}
	return l, l.write(exportHeader{exportVersion, root})
}

func (l *linesExport) write(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = l.w.Write(append(b, '\n'))
	return err
}

func (l *linesExport) put(e exportNode, _ []byte) error { return l.write(e) }

// close removes a file that is not whole.
func (l *linesExport) close(whole bool) error {
	err := l.w.Flush()
	if l.file == nil {
		return err
	}
	err = errors.Join(err, l.file.Close())
	if !whole {
		err = errors.Join(err, os.Remove(l.file.Name()))
	}
	return err
}

// Names of the files of a znode, which is a folder. Those of children never begin with an underscore.
const (
	dataFile = "_data"
	nodeFile = "_znode.json"
)

// filesExport is an export as files.
type filesExport struct{ dir string }

func newFilesExport(dir string) (filesExport, error) {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return filesExport{}, failed("%s is not empty", dir)
	}
	return filesExport{dir}, nil
}

func (f filesExport) put(e exportNode, data []byte) error {
	dir := f.dir
	for name := range strings.SplitSeq(strings.Trim(e.Path, "/"), "/") {
		if name != "" {
			dir = filepath.Join(dir, fileName(name))
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if data != nil {
		if err := os.WriteFile(filepath.Join(dir, dataFile), data, 0o600); err != nil {
			return err
		}
	}
	e.Path, e.dataJSON = "", dataJSON{}
	b, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, nodeFile), append(b, '\n'), 0o600)
}

func (filesExport) close(bool) error { return nil }

// fileName is the name of a znode as that of a folder: %XX for what a file system or a terminal takes for something
// else.
func fileName(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if c := name[i]; c == '%' || c == '\\' || c < ' ' || c == 0x7f || i == 0 && (c == '_' || c == '.') {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// nodeNameOf is the other way.
func nodeNameOf(file string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(file); i++ {
		if file[i] != '%' {
			b.WriteByte(file[i])
			continue
		}
		var c byte
		if i+3 > len(file) {
			return "", fmt.Errorf("%s: %% wants two digits behind it", file)
		}
		if _, err := fmt.Sscanf(file[i+1:i+3], "%02X", &c); err != nil {
			return "", fmt.Errorf("%s: %% wants two digits behind it", file)
		}
		b.WriteByte(c)
		i += 2
	}
	return b.String(), nil
}

// importer makes the znodes of an export.
type importer struct {
	call  *call
	root  string
	batch *batch
	made  int
	kept  int
}

// put makes one. With -f one that is there gets the data and the ACL.
func (i *importer) put(e *exportNode) error {
	c := i.call
	if e.Ephemeral != "" {
		i.kept++
		return nil
	}
	n, err := e.newNode()
	if err != nil {
		return err
	}
	path := moved(e.Path, "/", i.root)
	if err := checkPath(path); err != nil {
		return err
	}
	i.made++
	if !c.has("f") {
		return i.batch.add(session.CreateOp(path, n), opSize(path, n.Data, n.ACL))
	}
	_, err = c.session.Create(c.ctx, path, n)
	if session.CodeOf(err) != jute.NodeExists {
		return err
	}
	if _, err := c.session.Set(c.ctx, path, n.Data, jute.AnyVersion); err != nil {
		return err
	}
	_, err = c.session.SetACL(c.ctx, path, n.ACL, jute.AnyVersion)
	return err
}

// runImport makes what an export has, below the path that it was taken from, or another one.
func runImport(c *call) error {
	from := c.args[1]
	i := &importer{call: c, batch: &batch{ctx: c.ctx, session: c.session}}
	if len(c.args) > 2 {
		if i.root = c.args[2]; checkPath(i.root) != nil {
			return checkPath(i.root)
		}
	}
	info, err := os.Stat(from)
	switch {
	case from != "-" && err != nil:
		return err
	case from != "-" && info.IsDir():
		if i.root == "" {
			return failed("import of a folder wants a path behind it")
		}
		err = i.files(from)
	default:
		err = i.lines(from)
	}
	if err == nil {
		err = i.batch.flush()
	}
	if err != nil {
		return answered(err, "null")
	}
	return c.emit(map[string]int{"imported": i.made, "skipped": i.kept}, func() {
		c.Shell.line(itoa(i.made) + " znodes imported")
	})
}

// lines reads an export of lines.
func (i *importer) lines(name string) error {
	in := i.call.o.Stdin
	if name != "-" {
		file, err := os.Open(name) //nolint:gosec // the user names it
		if err != nil {
			return err
		}
		defer file.Close() //nolint:errcheck // read only
		in = file
	}
	decoder := json.NewDecoder(bufio.NewReader(in))
	var header exportHeader
	if err := decoder.Decode(&header); err != nil || header.Version == 0 {
		return fmt.Errorf("%s %w", name, errNoExport)
	}
	if header.Version != exportVersion {
		return fmt.Errorf("%s was written in form %d, and this zkd reads %d", name, header.Version, exportVersion)
	}
	if i.root == "" {
		if i.root = header.Root; checkPath(i.root) != nil {
			return fmt.Errorf("%s %w: root %q", name, errNoExport, header.Root)
		}
	}
	for {
		var e exportNode
		switch err := decoder.Decode(&e); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := i.put(&e); err != nil {
			return err
		}
	}
}

// files reads an export of files: each folder, then those in it.
func (i *importer) files(dir string) error {
	return filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		rest, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		var e exportNode
		text, err := os.ReadFile(filepath.Join(name, nodeFile)) //nolint:gosec // below the folder that the user names
		if err == nil {
			err = json.Unmarshal(text, &e)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // by hand one may leave it out
			return fmt.Errorf("%s: %w", filepath.Join(name, nodeFile), err)
		}
		e.Path = ""
		for part := range strings.SplitSeq(filepath.ToSlash(rest), "/") {
			if part == "." {
				continue
			}
			one, err := nodeNameOf(part)
			if err != nil {
				return err
			}
			e.Path += "/" + one
		}
		data, err := os.ReadFile(filepath.Join(name, dataFile)) //nolint:gosec // as above
		if err == nil {
			e.dataJSON = newDataJSON(slices.Concat([]byte{}, data))
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return i.put(&e)
	})
}
