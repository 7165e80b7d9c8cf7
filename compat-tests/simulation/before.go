package simulation

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// beforeRevision is the version before: the last one of feature level 2. It is to be one of the level before the
// newest.
const beforeRevision = "7509aabecbbb6c1b0d15071a22f5bb435831e363"

// The packages of the version before are in the program beside those of this one, under other names.
const (
	modulePath = "zkd/"
	beforePath = "zkd/before/"
)

// beforeFolders are those of the version before that a server consists of.
var beforeFolders = []string{"conf", "jute", "quorum", "server", "storage"}

// beforeShared are packages that both versions share: what the world hands to a server has their types.
var beforeShared = []string{"zkd/quorum/clock"}

// errNoBefore says that the version before is not in the history that is here.
var errNoBefore = errors.New("needs revision " + beforeRevision + " of the history: git fetch --unshallow")

// findBefore fails with errNoBefore where the version before is not.
func findBefore(ctx context.Context, root string) error {
	find := exec.CommandContext(ctx, "git", "-C", root, "cat-file", "-e", beforeRevision+"^{commit}")
	if out, err := find.CombinedOutput(); err != nil {
		return fmt.Errorf("%w (%w: %s)", errNoBefore, err, bytes.TrimSpace(out))
	}
	return nil
}

// beforeSources returns the sources of the version before, which are nowhere but in the history, by the names under
// which the program has them, with what starts a server of that version. root is where the module is.
func beforeSources(ctx context.Context, root string) (map[string]string, error) {
	if err := findBefore(ctx, root); err != nil {
		return nil, err
	}
	args := append([]string{"-C", root, "archive", "--format=tar", beforeRevision, "--"}, beforeFolders...)
	archive, err := exec.CommandContext(ctx, "git", args...).Output()
	if err != nil {
		return nil, fmt.Errorf("read the version before: %w", err)
	}
	sources := map[string]string{filepath.Join(root, "server/sim/before_start.go"): beforeStart}
	for files := tar.NewReader(bytes.NewReader(archive)); ; {
		file, err := files.Next()
		if errors.Is(err, io.EOF) {
			return sources, mend(root, sources)
		}
		if err != nil {
			return nil, fmt.Errorf("read the version before: %w", err)
		}
		if !partOfBefore(file.Name) {
			continue
		}
		text, err := io.ReadAll(files)
		if err != nil {
			return nil, fmt.Errorf("read the version before: %w", err)
		}
		//nolint:gosec // the archive is of our own history, and nothing is written there
		name := filepath.Join(root, strings.TrimPrefix(beforePath, modulePath), file.Name)
		// That version asks the operating system for the process id, whose length shows in how much room is left.
		same := strings.ReplaceAll(string(text), "strconv.Itoa(os.Getpid())", "strconv.Itoa(min(1, os.Getpid()))")
		if sources[name], err = renamed(file.Name, same); err != nil {
			return nil, err
		}
	}
}

// partOfBefore tells whether a file is a source of a server.
func partOfBefore(name string) bool {
	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") &&
		!strings.HasPrefix(name, "server/sim/") && !slices.Contains(beforeShared, modulePath+path.Dir(name))
}

// renamed is a source that imports the packages of the version before.
func renamed(name, text string) (string, error) {
	set := token.NewFileSet()
	syntax, err := parser.ParseFile(set, name, text, parser.ImportsOnly)
	if err != nil {
		return "", err
	}
	var list []place
	for _, spec := range syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return "", err
		}
		if rest, ours := strings.CutPrefix(imported, modulePath); ours && !slices.Contains(beforeShared, imported) {
			from, to := set.Position(spec.Path.Pos()).Offset, set.Position(spec.Path.End()).Offset
			list = append(list, place{from, to, name, strconv.Quote(beforePath + rest)})
		}
	}
	return patched(text, list)
}

// beforeStart is what is added to package sim in a program that has the version before.
const beforeStart = `package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/before/conf"
	older "zkd/before/server/instance"
	"zkd/server/instance"
	"zkd/storage/disk"
)

func init() { before = runBefore }

func runBefore(ctx context.Context, w instance.World, logger *slog.Logger) error {
	c, err := conf.Load(conf.Sources{Path: zooCfg, ReadFile: w.Files.ReadFile})
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	i, err := older.Open(ctx, c, older.World{Clock: w.Clock, FS: soundFS{disk.BlobFS{FS: w.FS}},
		Files: w.Files, Network: w.Network, Random: w.Random, System: olderFigures{}}, older.Options{Logger: logger})
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	return errors.Join(i.Run(ctx), i.Close())
}

// soundFS finds the damage of stores over which Pebble panics, as the present version does by itself: that ends the
// program. Of a state that is being received there may be less.
type soundFS struct{ disk.BlobFS }

func (f soundFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if dir := filepath.Base(filepath.Dir(name)); dir != "state" && dir != "raftlog" {
		return f.FS.Open(name, opts...)
	}
	if disk.IsManifest(name) {
		if _, err := disk.CheckManifest(f.FS, filepath.Dir(name)); err != nil {
			return nil, err
		}
	}
	return f.BlobFS.Open(name, opts...)
}

type olderFigures struct{ noFigures }

func (olderFigures) Process() older.Process { return older.Process{Host: "sim"} }
`
