package shell

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"zkd/jute/client/subtree"
)

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
	w := &subtree.Walker{Session: c.session, Data: true, ACL: true, Depth: -1}
	err = w.Walk(c.ctx, root, func(n *subtree.Node) error {
		denied.note(n)
		if n.Denied || n.Ephemeral() && !c.has("e") {
			return nil
		}
		count++
		return to.put(subtree.NewEntry(n, root), n.Data)
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
	put(e subtree.Entry, data []byte) error
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
	return l, l.write(subtree.Header{Version: subtree.Version, Root: root})
}

func (l *linesExport) write(v any) error {
	return subtree.WriteLine(l.w, v)
}

func (l *linesExport) put(e subtree.Entry, _ []byte) error { return l.write(e) }

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

func (f filesExport) put(e subtree.Entry, data []byte) error {
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
	e.Path, e.Value = "", subtree.Value{}
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
	subtree.Importer

	call *call
}

// put makes one. With -f one that is there gets the data and the ACL.
func (i *importer) put(e *subtree.Entry) error {
	if path := subtree.Moved(e.Path, "/", i.Root); e.Ephemeral == "" {
		if err := checkPath(path); err != nil {
			return err
		}
	}
	return i.Make(i.call.ctx, e)
}

// runImport makes what an export has, below the path that it was taken from, or another one.
func runImport(c *call) error {
	from := c.args[1]
	i := &importer{call: c}
	i.Session, i.Overwrite = c.session, c.has("f")
	if len(c.args) > 2 {
		if i.Root = c.args[2]; checkPath(i.Root) != nil {
			return checkPath(i.Root)
		}
	}
	info, err := os.Stat(from)
	switch {
	case from != "-" && err != nil:
		return err
	case from != "-" && info.IsDir():
		if i.Root == "" {
			return failed("import of a folder wants a path behind it")
		}
		err = i.files(from)
	default:
		err = i.lines(from)
	}
	if err == nil {
		err = i.Flush(c.ctx)
	}
	if err != nil {
		return answered(err, "null")
	}
	return c.emit(map[string]int{"imported": i.Made, "skipped": i.Kept}, func() {
		c.Shell.line(itoa(i.Made) + " znodes imported")
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
	reader, header, err := subtree.NewReader(in)
	if err != nil {
		return fmt.Errorf("%s %w", name, err)
	}
	if i.Root == "" {
		if i.Root = header.Root; checkPath(i.Root) != nil {
			return fmt.Errorf("%s %w: root %q", name, subtree.ErrNoExport, header.Root)
		}
	}
	for {
		e, err := reader.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := i.put(e); err != nil {
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
		var e subtree.Entry
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
			e.Value = subtree.NewValue(slices.Concat([]byte{}, data))
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return i.put(&e)
	})
}
