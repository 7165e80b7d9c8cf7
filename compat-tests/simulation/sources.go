package simulation

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// place is where a source reads otherwise.
type place struct {
	from, to int
	whose    string // plant, knob or costs
	text     string
}

// sources are those that read otherwise in the program that plays plans.
type sources struct {
	root   string             // where the module is
	texts  map[string]string  // as they are, by file
	places map[string][]place // by file
	added  map[string]string  // sources that are added, by file
}

// changedSources returns the sources that are patched for plants, knobs and what counts costs, with those that are
// added, by their names. root is where the module is.
func changedSources(root string, plants []Plant, knobs []Knob, costs []Patch) (map[string]string, error) {
	s := &sources{root: root, texts: map[string]string{}, places: map[string][]place{}, added: map[string]string{}}
	for _, patch := range costs {
		if err := s.patch("costs", patch, "counted.go", countedSource); err != nil {
			return nil, fmt.Errorf("costs: %w", err)
		}
	}
	for i := range plants {
		if err := s.plant(&plants[i]); err != nil {
			return nil, fmt.Errorf("plant %s: %w", plants[i].Name, err)
		}
	}
	for i := range knobs {
		if err := s.knob(&knobs[i]); err != nil {
			return nil, fmt.Errorf("knob %s: %w", knobs[i].Key(), err)
		}
	}
	changed := map[string]string{}
	for file, list := range s.places { // order: each file for itself
		text, err := patched(s.texts[file], list)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		changed[filepath.Join(root, file)] = text
	}
	for file, text := range s.added { // order: each file for itself
		changed[filepath.Join(root, file)] = text
	}
	return changed, nil
}

// text is a source as it is.
func (s *sources) text(file string) (string, error) {
	if text, ok := s.texts[file]; ok {
		return text, nil
	}
	data, err := os.ReadFile(filepath.Join(s.root, file)) //nolint:gosec // our own sources
	if err != nil {
		return "", err
	}
	s.texts[file] = string(data)
	return s.texts[file], nil
}

// add adds a source to the package of a file.
func (s *sources) add(beside, name, source string) error {
	syntax, err := parser.ParseFile(token.NewFileSet(), beside, s.texts[beside], parser.PackageClauseOnly)
	if err == nil {
		s.added[filepath.Join(filepath.Dir(beside), name)] = fmt.Sprintf(source, syntax.Name.Name)
	}
	return err
}

// plant adds the patches of a plant.
func (s *sources) plant(p *Plant) error {
	for _, patch := range p.Patches {
		if err := s.patch(p.Name, patch, "planted.go", plantedSource); err != nil {
			return err
		}
	}
	return nil
}

// patch adds one patch, with the source that it needs beside it.
func (s *sources) patch(whose string, patch Patch, name, source string) error {
	text, err := s.text(patch.File)
	if err != nil {
		return err
	}
	if n := strings.Count(text, patch.Old); n != 1 {
		return fmt.Errorf("%q is %d times in %s", patch.Old, n, patch.File)
	}
	at := strings.Index(text, patch.Old)
	s.places[patch.File] = append(s.places[patch.File], place{at, at + len(patch.Old), whose, patch.New})
	return s.add(patch.File, name, source)
}

// knob makes a variable of a constant.
func (s *sources) knob(k *Knob) error {
	text, err := s.text(k.File)
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	syntax, err := parser.ParseFile(set, k.File, text, 0)
	if err != nil {
		return err
	}
	name, value := constant(syntax, k.Name)
	if name == nil {
		return fmt.Errorf("%s has no constant of its own line with that name", k.File)
	}
	at := func(p token.Pos) int { return set.Position(p).Offset }
	otherwise := text[at(value.Pos()):at(value.End())]
	gone, variable := place{at(name.Pos()), at(name.End()), k.Key(), "_"}, ""
	if len(k.Values) > 0 {
		variable = fmt.Sprintf("\nvar %s = %s(knob(%q, int64(%s)))\n", k.Name, k.Type, k.Key(), otherwise)
	} else { // what it is computed from is no constant any more
		gone.to, gone.text = at(value.End()), "_ = 0"
		variable = fmt.Sprintf("\nvar %s = %s(%s)\n", k.Name, k.Type, otherwise)
	}
	s.places[k.File] = append(s.places[k.File], gone, place{len(text), len(text), k.Key(), variable})
	return s.add(k.File, "knobs.go", knobSource)
}

// constant finds the declaration of a constant at the level of the package; nil if there is none that stands alone.
func constant(file *ast.File, name string) (*ast.Ident, ast.Expr) {
	for _, d := range file.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			v, ok := spec.(*ast.ValueSpec)
			if ok && len(v.Names) == 1 && len(v.Values) == 1 && v.Names[0].Name == name {
				return v.Names[0], v.Values[0]
			}
		}
	}
	return nil, nil
}

// patched is a source with all of its patches, which must not overlap.
func patched(text string, list []place) (string, error) {
	slices.SortStableFunc(list, func(a, b place) int { return cmp.Compare(a.from, b.from) })
	var b strings.Builder
	end := 0
	for i, p := range list {
		if p.from < end {
			return "", fmt.Errorf("%s and %s patch the same place", list[i-1].whose, p.whose)
		}
		b.WriteString(text[end:p.from] + p.text)
		end = p.to
	}
	return b.String() + text[end:], nil
}
