package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// allowedLicences are those that a module in the binary may have: they ask for no more than that their text comes
// along, and MPL-2.0 that the sources of its own files can be had, which the module's path and version see to. A module
// with another one needs a decision, not a row here.
var allowedLicences = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0"}

// licencesFile is the committed list of modules and their licences, from the root.
const licencesFile = "conf/package/licences.txt"

// module is a Go module that is part of the binary.
type module struct {
	path     string
	version  string
	dir      string   // where its sources are
	licences []string // SPDX identifiers, ascending
	texts    []string // its licence files and notices
}

// licencePhrases tell a licence by words that stand in it and in no other.
var licencePhrases = []struct {
	id     string
	phrase *regexp.Regexp
	not    *regexp.Regexp // nil, or words that rule it out
}{
	{"Apache-2.0", words("Apache License Version 2.0"), nil},
	{"MIT", words("Permission is hereby granted, free of charge, to any person obtaining a copy"), nil},
	{"ISC", words("Permission to use, copy, modify, and(/or)? distribute this software for any purpose"), nil},
	{"BSD-3-Clause", words("(Neither the names? of|The names? of).* (may be used|may not be used)"), nil},
	{
		"BSD-2-Clause", words("Redistribution and use in source and binary forms"),
		words("(Neither the names? of|The names? of).* (may be used|may not be used)"),
	},
	{"MPL-2.0", words("Mozilla Public License,? Version 2.0"), nil},
	{"GPL", words("GNU (LESSER |AFFERO )?GENERAL PUBLIC LICENSE"), words("Mozilla Public License")}, // which names it
}

// words compiles a pattern that takes any blanks and line feeds between words, in any case.
func words(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`(?is)` + strings.ReplaceAll(pattern, " ", `[\s,"']+`))
}

// classify returns the SPDX identifiers of the licences whose text is in text, ascending.
func classify(text string) []string {
	var found []string
	for _, l := range licencePhrases {
		if l.phrase.MatchString(text) && (l.not == nil || !l.not.MatchString(text)) {
			found = append(found, l.id)
		}
	}
	slices.Sort(found)
	return found
}

// licenceName finds the files of a module that say under what licence it is.
var licenceName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice)([-._].*)?$`)

// readLicences fills in the licences of a module from the files in its folder.
func (m *module) readLicences() error {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return fmt.Errorf("licence of %s: %w", m.path, err)
	}
	for _, entry := range entries {
		if !entry.Type().IsRegular() || !licenceName.MatchString(entry.Name()) ||
			strings.HasSuffix(entry.Name(), ".go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(m.dir, entry.Name()))
		if err != nil {
			return fmt.Errorf("licence of %s: %w", m.path, err)
		}
		m.texts = append(m.texts, strings.TrimSpace(string(text)))
		if !strings.HasPrefix(strings.ToLower(entry.Name()), "notice") {
			m.licences = append(m.licences, classify(string(text))...)
		}
	}
	slices.Sort(m.licences)
	m.licences = slices.Compact(m.licences)
	return nil
}

// check tells what is wrong with the licences of a module.
func (m *module) check() error {
	if len(m.licences) == 0 {
		return fmt.Errorf("module %s has no licence that is known here: read its files, and add the words of the "+
			"licence to licence.go if it may be used", m.path)
	}
	for _, id := range m.licences {
		if !slices.Contains(allowedLicences, id) {
			return fmt.Errorf("module %s is under %s, which is none of %s: do without it", m.path, id,
				strings.Join(allowedLicences, ", "))
		}
	}
	return nil
}

// modules returns the modules whose packages are in the binary of any of the targets, ascending, with their licences.
func modules(ctx context.Context, root string, targets []target) ([]*module, error) {
	known := map[string]*module{}
	for _, t := range targets {
		text, err := output(ctx, root, buildEnviron(t), "go", "list", "-deps", "-json=Module", "./cmd/zkd")
		if err != nil {
			return nil, err
		}
		if err := addModules(known, strings.NewReader(text)); err != nil {
			return nil, err
		}
	}
	var all []*module
	for _, m := range known { // any order: sorted below
		if err := m.readLicences(); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *module) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

// addModules adds the modules of what go list prints.
func addModules(known map[string]*module, list io.Reader) error {
	decoder := json.NewDecoder(list)
	for {
		var pkg struct {
			Module *struct {
				Path, Version, Dir string
				Main               bool
			}
		}
		err := decoder.Decode(&pkg)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read what go list says: %w", err)
		}
		if m := pkg.Module; m != nil && !m.Main && known[m.Path] == nil {
			known[m.Path] = &module{path: m.Path, version: m.Version, dir: m.Dir}
		}
	}
}

// licencesTable is the content of licencesFile. It has no versions: those are in go.mod.
func licencesTable(all []*module) string {
	var b strings.Builder
	b.WriteString("# The modules in the binary and their licences (SPDX). Written by \"go generate ./conf/package\".\n")
	for _, m := range all {
		fmt.Fprintf(&b, "%s %s\n", m.path, strings.Join(m.licences, ","))
	}
	return b.String()
}

// writeLicences writes licencesFile, or says which module must not be in the binary.
func writeLicences(ctx context.Context, root string) error {
	targets, err := parseTargets(strings.Join(allTargets, ","))
	if err != nil {
		return err
	}
	all, err := modules(ctx, root, targets)
	if err != nil {
		return err
	}
	for _, m := range all {
		if err := m.check(); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(root, filepath.FromSlash(licencesFile)), []byte(licencesTable(all)), 0o644)
}

// thirdParty is the text that comes with every binary: each licence and notice once, below the modules that it is of.
func thirdParty(all []*module, goLicence string) string {
	var b strings.Builder
	b.WriteString("zkd is under the Apache License 2.0. Its binary contains the software below.\n")
	of := map[string][]string{}
	var texts []string
	add := func(name, text string) {
		if of[text] == nil {
			texts = append(texts, text)
		}
		of[text] = append(of[text], name)
	}
	add("the standard library of Go", strings.TrimSpace(goLicence))
	for _, m := range all {
		for _, text := range m.texts {
			add(m.path+" "+m.version, text)
		}
	}
	for _, text := range texts {
		fmt.Fprintf(&b, "\n%s\n\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(of[text], "\n"), text)
	}
	return b.String()
}
