package conf

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestLoad runs the scripts in testdata/load. The one command is `load`; its input has sections that begin with `--
// name --`: zoo.cfg, env (one NAME=value a line), flags (one key=value a line), hostname, and any other name for a
// file that ReadFile finds. Printed are the fields that differ from those of a zoo.cfg with `dataDir=/d` and
// `clientPort=2181`, then the notices and what is unsupported; or the errors.
func TestLoad(t *testing.T) {
	datadriven.Walk(t, "testdata/load", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "load" {
				d.Fatalf(t, "unknown command %q", d.Cmd)
			}
			return runLoad(t, d.Input)
		})
	})
}

// runLoad loads the sources of one script command and prints the outcome.
func runLoad(t *testing.T, input string) string {
	t.Helper()
	config, err := Load(scriptSources(t, input))
	var b strings.Builder
	if err != nil {
		fmt.Fprintf(&b, "%v\n", err)
		return b.String()
	}
	baseline, err := Load(Sources{Text: []byte("dataDir=/d\nclientPort=2181")})
	if err != nil {
		t.Fatal(err)
	}
	printChanges(&b, "", reflect.ValueOf(*baseline), reflect.ValueOf(*config))
	for _, n := range config.Notices {
		fmt.Fprintf(&b, "notice %s: %s: %s: %s\n", n.Kind, n.Source, n.Key, n.Message)
	}
	for _, p := range config.Unsupported() {
		fmt.Fprintf(&b, "unsupported %s\n", p)
	}
	if b.Len() == 0 {
		return "defaults\n"
	}
	return b.String()
}

// printChanges prints the exported fields of got that differ from base, one a line.
func printChanges(b *strings.Builder, name string, base, got reflect.Value) {
	for i := range got.NumField() {
		field := got.Type().Field(i)
		if !field.IsExported() || field.Name == "Notices" || field.Name == "File" {
			continue
		}
		full := strings.TrimPrefix(name+"."+field.Name, ".")
		if got.Field(i).Kind() == reflect.Struct {
			printChanges(b, full, base.Field(i), got.Field(i))
			continue
		}
		if !reflect.DeepEqual(base.Field(i).Interface(), got.Field(i).Interface()) {
			fmt.Fprintf(b, "%s = %+v\n", full, got.Field(i).Interface())
		}
	}
}

// scriptSources makes Sources of the sections of a script command.
func scriptSources(t *testing.T, input string) Sources {
	t.Helper()
	files := map[string]string{}
	section := ""
	for line := range strings.Lines(input) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "-- "); ok && strings.HasSuffix(name, " --") {
			section = strings.TrimSuffix(name, " --")
			files[section] = ""
			continue
		}
		if section == "" {
			t.Fatalf("line outside of a section: %q", line)
		}
		files[section] += line
	}
	s := Sources{ReadFile: func(name string) ([]byte, error) {
		content, ok := files[name]
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		if strings.TrimSpace(content) == "<unreadable>" {
			return nil, errors.New("input/output error")
		}
		return []byte(content), nil
	}}
	if text, ok := files["zoo.cfg"]; ok {
		s.Path, s.Text = "zoo.cfg", []byte(strings.TrimSuffix(text, "\n"))
	}
	s.Environ = strings.Split(strings.TrimSpace(files["env"]), "\n")
	s.Hostname = strings.TrimSpace(files["hostname"])
	s.Flags = map[string]string{}
	for line := range strings.Lines(files["flags"]) {
		name, val, _ := strings.Cut(strings.TrimSpace(line), "=")
		s.Flags[name] = val
	}
	return s
}
