package rules_test

import (
	"bytes"
	"go/ast"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What the house is to be is in docs/decisions/0031. What is not so yet is listed here; the lists may only become
// shorter, and their numbers smaller.

// Limits of the house.
const (
	houseLinesMax     = 600 // of a file
	receiverFilesMost = 6   // that have methods of one receiver
)

// longFiles may be longer than houseLinesMax: how long they were when the house was planned.
var longFiles = map[string]int{}

// wideReceivers have methods in more files than receiverFilesMost, as "folder.Type".
var wideReceivers = map[string]int{}

func TestFilesAreShort(t *testing.T) {
	for _, s := range sources(t) {
		lines := bytes.Count(s.text, []byte("\n"))
		most, listed := longFiles[s.name]
		switch {
		case s.generated:
		case listed && lines <= houseLinesMax:
			t.Errorf("%s: %d lines: take it off longFiles", s.name, lines)
		case lines > max(most, houseLinesMax):
			t.Errorf("%s:%d: %d lines, at most %d: split it by the owner of its state", s.name, lines, lines,
				max(most, houseLinesMax))
		}
	}
	for name := range longFiles { // any order
		read(t, name) // fails if there is none
	}
}

// receiver returns the type that a function is a method of; "" if of none.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) != 1 {
		return ""
	}
	kind := f.Recv.List[0].Type
	for {
		switch x := kind.(type) {
		case *ast.StarExpr:
			kind = x.X
		case *ast.IndexExpr:
			kind = x.X
		case *ast.IndexListExpr:
			kind = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// receivers returns the production files that have methods of each receiver, by "folder.Type".
func receivers(all []*source) map[string]map[string]bool {
	found := map[string]map[string]bool{}
	for _, s := range all {
		if s.isTest() {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || receiver(f) == "" {
				continue
			}
			name := s.folder() + "." + receiver(f)
			if found[name] == nil {
				found[name] = map[string]bool{}
			}
			found[name][s.name] = true
		}
	}
	return found
}

func TestMethodsOfAReceiverStandTogether(t *testing.T) {
	found := receivers(sources(t))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if n, most := len(found[name]), max(wideReceivers[name], receiverFilesMost); n > most {
			t.Errorf("%s has methods in %d files, at most %d: %v: give what they do a type of its own", name, n, most,
				slices.Sorted(maps.Keys(found[name])))
		}
	}
	for name := range wideReceivers { // any order
		if n := len(found[name]); n <= receiverFilesMost {
			t.Errorf("%s has methods in %d files: take it off wideReceivers", name, n)
		}
	}
}

func TestReceiversAreFound(t *testing.T) {
	planted := parse(t, "server/planted.go", `package server

func f() {}
func (a) one() {}
func (*a) two() {}
func (x *b[T]) three() {}
`)
	found := receivers([]*source{planted})
	if len(found) != 2 || !found["server.a"]["server/planted.go"] || !found["server.b"]["server/planted.go"] {
		t.Errorf("found %v", found)
	}
}

// floors are the folders of a root from the ground up: each may import those before it, and no others of its root.
// Those that are not there yet are in the order that the house is planned in.
var floors = map[string][]string{
	"storage": {
		"invariants", "space", "crashfs", "serverid", "acl", "ensemble", "zkdata",
		"entry", "schema", "entry/entrytest", "schema/schematest", "apply", "childlist",
		"disk/disktest", "disk", "crashfs/powercut", "zkdata/zkdatatest", "raftlog", "raftlog/logtest",
		"datadir", "datadir/dirtest",
		"state", "state/statetest", "backup", "migrate", "inspect", ".",
	},
	"quorum": {"clock", "warning", "liveness", "proof", "transport", "snapshot", "member", "batcher", ".", "sim"},
	"server": {
		"stats", "stats/catalog", "traffic", "limits", "socket", "watch", "auth", "auth/sasl", "auth/sasl/gssapi",
		"audit", "fourletter", "traffic/report", "backup", "admin", "console/page", "console/values", "console/session",
		"console/survey", "console", ".",
		"instance/tlsstores", "instance/snapshots", "instance/peers", "instance",
		"sim/goruntime", "sim/costs", "sim/network", "sim",
	},
}

// upward returns what a file imports of its own root that does not stand below it; unknown says that its folder has no
// floor.
func upward(s *source) (edges []string, unknown bool) {
	order := floors[s.root()]
	floor := func(folder string) int {
		if folder == s.root() {
			return slices.Index(order, ".")
		}
		return slices.Index(order, strings.TrimPrefix(folder, s.root()+"/"))
	}
	here := floor(s.folder())
	for _, spec := range s.file.Imports {
		name, _ := strconv.Unquote(spec.Path.Value)
		folder, own := strings.CutPrefix(name, "zkd/")
		if own && (folder == s.root() || strings.HasPrefix(folder, s.root()+"/")) && floor(folder) >= here {
			edges = append(edges, name)
		}
	}
	return edges, here < 0
}

func TestImportsPointDown(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() || floors[s.root()] == nil {
			continue
		}
		edges, unknown := upward(s)
		if unknown {
			t.Errorf("%s:1: the folder %s has no floor: add it to floors", s.name, path.Dir(s.name))
			continue
		}
		for _, name := range edges {
			t.Errorf("%s imports %s, which does not stand below it: declare an interface here and be handed it", s.name,
				name)
		}
	}
}

func TestUpwardImportsAreFound(t *testing.T) {
	planted := parse(t, "quorum/transport/planted.go", `package transport

import (
	_ "zkd/quorum"
	_ "zkd/quorum/clock"
	_ "zkd/quorum/snapshot"
	_ "zkd/storage"
)
`)
	if got, unknown := upward(planted); unknown || !slices.Equal(got, []string{"zkd/quorum", "zkd/quorum/snapshot"}) {
		t.Errorf("found %v, unknown %v", got, unknown)
	}
	if _, unknown := upward(parse(t, "quorum/attic/planted.go", "package attic\n")); !unknown {
		t.Error("a folder without a floor is not found")
	}
}

// pureFolders hold what comes out the same on every server, whatever it runs on.
var pureFolders = []string{
	"storage/serverid", "storage/acl", "storage/ensemble", "storage/zkdata", "storage/entry", "storage/schema",
	"storage/apply",
}

// TestStorageIsAFolder: what is kept is owned by the rooms below, and shared by none.
func TestStorageIsAFolder(t *testing.T) {
	for _, s := range sources(t) {
		if s.folder() == "storage" && s.name != "storage/doc.go" {
			t.Errorf("%s: give it to the room that owns what it is about, in a folder of storage", s.name)
		}
	}
}

// viewsFile may use unsafe, for strings and bytes that are views of one another: nothing comes out differently by it.
const viewsFile = "storage/entry/views.go"

func TestPureFoldersArePure(t *testing.T) {
	found := map[string]bool{}
	for _, s := range sources(t) {
		if s.isTest() || !slices.Contains(pureFolders, s.folder()) {
			continue
		}
		found[s.folder()] = true
		for _, finding := range impure(s) {
			if s.name == viewsFile && strings.HasSuffix(finding, "import of unsafe") {
				continue
			}
			t.Errorf("%s: servers with the same log would differ: take it from the entry, or do it outside this folder",
				finding)
		}
	}
	if len(found) != len(pureFolders) {
		t.Errorf("of %q only %v are there: correct the list", pureFolders, found)
	}
}
