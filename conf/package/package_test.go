package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// testRoot is the folder of go.mod, seen from here.
const testRoot = "../.."

var testStamp = stamp{version: "1.2.3-rc.1", commit: "0123456789abcdef", time: time.Unix(1_700_000_000, 0).UTC()}

// TestLicencesAreKnown fails when a module comes into the binary whose licence nobody has looked at.
func TestLicencesAreKnown(t *testing.T) {
	targets, err := parseTargets(strings.Join(allTargets, ","))
	if err != nil {
		t.Fatal(err)
	}
	all, err := modules(t.Context(), testRoot, targets)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if err := m.check(); err != nil {
			t.Error(err)
		}
	}
	want, err := os.ReadFile(filepath.Join(testRoot, licencesFile))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), licencesTable(all)); diff != "" {
		t.Errorf("%s is not what the binary contains: look at the licence of what is new, then run "+
			"go generate ./conf/package (-file +binary):\n%s", licencesFile, diff)
	}
}

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"none", "All rights reserved.", nil},
		{
			"MIT over two lines", "Permission is hereby granted, free of\n charge, to any person obtaining a copy",
			[]string{"MIT"},
		},
		{"Apache", "                 Apache License\n           Version 2.0, January 2004", []string{"Apache-2.0"}},
		{"BSD of two clauses", "Redistribution and use in source and binary forms", []string{"BSD-2-Clause"}},
		{
			"BSD of three", "Redistribution and use in source and binary forms\n" +
				"* Neither the name of X nor the\nnames may be used",
			[]string{"BSD-3-Clause"},
		},
		{"copyleft", "GNU AFFERO GENERAL PUBLIC LICENSE", []string{"GPL"}},
		{"weak copyleft", "Mozilla Public License, version 2.0\nthe GNU General Public License", []string{"MPL-2.0"}},
	} {
		if got := classify(c.text); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestLicenceThatIsNotAllowedIsRefused(t *testing.T) {
	for _, ids := range [][]string{nil, {"GPL"}, {"GPL", "MIT"}} {
		if err := (&module{path: "example.com/m", licences: ids}).check(); err == nil {
			t.Errorf("a module under %v is taken", ids)
		}
	}
	if err := (&module{path: "example.com/m", licences: []string{"BSD-3-Clause", "MIT"}}).check(); err != nil {
		t.Error(err)
	}
}

func TestSBOM(t *testing.T) {
	info := &buildinfo.BuildInfo{GoVersion: "go1.26.8", Deps: []*debug.Module{
		{Path: "example.com/a", Version: "v1.0.0", Sum: "h1:sum"},
		{Path: "example.com/b", Version: "v2.0.0", Replace: &debug.Module{Path: "example.com/c", Version: "v3.0.0"}},
	}}
	known := []*module{{path: "example.com/a", licences: []string{"Apache-2.0", "MIT"}}}
	system := target{"linux", "arm64"}
	if _, err := describe(info, [32]byte{}, testStamp, system, known); err == nil {
		t.Error("a module whose licence is not known is taken")
	}
	known = append(known, &module{path: "example.com/c", licences: []string{"MIT"}})
	bom, err := describe(info, [32]byte{1}, testStamp, system, known)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range bom.Components {
		var ids []string
		for _, l := range c.Licences {
			ids = append(ids, l.Licence.ID)
		}
		got = append(got, c.PURL+" "+strings.Join(ids, ","))
	}
	want := []string{
		"pkg:golang/std@1.26.8 BSD-3-Clause", "pkg:golang/example.com/a@v1.0.0 Apache-2.0,MIT",
		"pkg:golang/example.com/c@v3.0.0 MIT",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("components (-want +got):\n%s", diff)
	}
	if own := bom.Metadata.Component; own.PURL != "pkg:generic/zkd@1.2.3-rc.1?arch=arm64&os=linux" ||
		!strings.HasPrefix(own.Hashes[0].Content, "0100") || bom.Metadata.Timestamp != "2023-11-14T22:13:20Z" ||
		bom.Serial != "urn:uuid:01000000-0000-8000-8000-000000000000" {
		t.Errorf("the binary is described as %+v of %s, %s", own, bom.Metadata.Timestamp, bom.Serial)
	}
}

func TestArchive(t *testing.T) {
	r := &release{options: options{root: testRoot}, stamp: testStamp, thirdParty: "licences"}
	help := t.TempDir()
	for _, name := range []string{"completion-bash", "completion-zsh", "completion-fish", "man/zkd.1"} {
		file := filepath.Join(help, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o750), os.WriteFile(file, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	content, err := r.archive("zkd_1", []byte("binary"), help)
	if err != nil {
		t.Fatal(err)
	}
	again, err := r.archive("zkd_1", []byte("binary"), help)
	if err != nil || !bytes.Equal(content, again) {
		t.Errorf("a second archive differs (error %v)", err)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for files := tar.NewReader(unzipped); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !header.ModTime.Equal(testStamp.time) || header.Uid != 0 {
			t.Errorf("%s has the time %v and the user %d", header.Name, header.ModTime, header.Uid)
		}
		got = append(got, header.Name)
	}
	want := []string{
		"zkd_1/CHANGELOG.md", "zkd_1/LICENSE", "zkd_1/README.md", "zkd_1/THIRD_PARTY.txt", "zkd_1/completion/_zkd",
		"zkd_1/completion/zkd.bash", "zkd_1/completion/zkd.fish", "zkd_1/conf/grafana/zkd.json",
		"zkd_1/conf/prometheus/zkd-alerts.yml", "zkd_1/conf/systemd/zkd.service", "zkd_1/conf/zoo_ensemble.cfg",
		"zkd_1/conf/zoo_sample.cfg", "zkd_1/docs/decisions/0001-the-request-is-replicated.md",
		"zkd_1/docs/formats/backup.md", "zkd_1/docs/operations.md", "zkd_1/man/zkd.1", "zkd_1/zkd",
	}
	want = append(want, sampleFiles(t)...)
	for _, name := range want {
		if !slices.Contains(got, name) {
			t.Errorf("%s is not in the archive", name)
		}
	}
	isSource := func(name string) bool { return strings.HasSuffix(name, ".go") }
	if !slices.IsSorted(got) || slices.ContainsFunc(got, isSource) {
		t.Errorf("files %v", got)
	}
}

// sampleFiles are the files below conf that the README and the documents lead to, as an archive has them.
func sampleFiles(t *testing.T) (names []string) {
	t.Helper()
	documents, err := filepath.Glob(filepath.Join(testRoot, "docs", "*.md"))
	if err != nil || len(documents) == 0 {
		t.Fatalf("documents %q: %v", documents, err)
	}
	sample := regexp.MustCompile(`(?:\.\./|[^/\w])(conf/[a-z/_-]+\.(?:cfg|json|ya?ml|service))\b`)
	for _, document := range append(documents, filepath.Join(testRoot, "README.md")) {
		text, err := os.ReadFile(document) //nolint:gosec // of this repository
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range sample.FindAllStringSubmatch(string(text), -1) {
			names = append(names, "zkd_1/"+found[1])
		}
	}
	return names
}

// TestBuildDependsOnNothingAround looks for what would let two builds of one commit differ.
func TestBuildDependsOnNothingAround(t *testing.T) {
	args := strings.Join(buildArgs(testStamp, "f"), " ")
	for _, want := range []string{
		"-trimpath", "-buildvcs=false", "-X main.releaseName=1.2.3-rc.1", "-X main.releaseCommit=0123456789abcdef",
		"-X main.releaseTime=1700000000",
	} {
		if !strings.Contains(args, want) {
			t.Errorf("go %s: lacks %s", args, want)
		}
	}
	for _, name := range []string{"GOFLAGS=", "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT="} {
		if !slices.Contains(buildEnviron(target{"linux", "amd64"}), name) {
			t.Errorf("the environment of the build does not set %s", name)
		}
	}
	version := string(read(t, "cmd/zkd/version.go"))
	for _, name := range []string{"releaseName", "releaseCommit", "releaseTime"} {
		if !strings.Contains(version, "\t"+name+" ") {
			t.Errorf("cmd/zkd/version.go has no variable %s: the linker would stamp nothing", name)
		}
	}
	if !strings.Contains(version, "\nconst unnamed = \""+devVersion+"\"\n") {
		t.Errorf("cmd/zkd/version.go takes %s for a release", devVersion)
	}
}

func TestTargets(t *testing.T) {
	if _, err := parseTargets("linux/amd64,plan9/mips"); err == nil {
		t.Error("a system that nothing is released for is taken")
	}
	targets, err := parseTargets(strings.Join(allTargets, ","))
	if err != nil || names(targets) != strings.Join(allTargets, ",") {
		t.Errorf("targets %v, error %v", targets, err)
	}
}

// read returns a file of this repository.
func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testRoot, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return text
}
