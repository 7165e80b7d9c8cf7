package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRecordsAreGenerated holds the committed records against the schema. If it fails: go generate ./jute
func TestRecordsAreGenerated(t *testing.T) {
	dir := filepath.Join("..", "..")
	out := filepath.Join(t.TempDir(), "records.go")
	if err := run(filepath.Join(dir, "schema.txt"), out); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "records.go"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("records.go is not what the schema says; run go generate ./jute (-generated +committed):\n%s", diff)
	}
}

func TestRunNamesTheFile(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing.txt")
	if err := run(missing, filepath.Join(dir, "out.go")); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("missing schema: error %v does not name %s", err, missing)
	}
	schema := filepath.Join(dir, "schema.txt")
	if err := os.WriteFile(schema, []byte("record A: a.\n  X wrong\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := run(schema, filepath.Join(dir, "out.go"))
	if err == nil || !strings.Contains(err.Error(), schema+": line 2") {
		t.Errorf("wrong schema: error %v does not name %s and line 2", err, schema)
	}
	if err := os.WriteFile(schema, []byte("record A: a.\n  X int\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err = run(schema, filepath.Join(dir, "no", "out.go"))
	if err == nil || !strings.Contains(err.Error(), "write records") {
		t.Errorf("directory that is not there: error %v", err)
	}
}

func TestSchemaErrors(t *testing.T) {
	const head = "record A: a.\n  X int\n"
	nine := "record B: b.\n"
	for _, name := range strings.Split("ABCDEFGHI", "") {
		nine += "  " + name + " ustring\n"
	}
	tests := []struct{ name, schema, want string }{
		{"empty", "# nothing\n\n", "no records"},
		{"head without comment", "record A\n", "line 1: want a record's head"},
		{"head with a small letter", "record a: a.\n", "line 1: want a record's head"},
		{"same record twice", head + head, "line 3: record A is there already"},
		{"field first", "  X int\n", "line 1: field before any record"},
		{"field without type", "record A: a.\n  X\n", "line 2: want a record's head"},
		{"three words", "record A: a.\n  X int int\n", "line 2: want a record's head"},
		{"open bracket", "record A: a.\n  X [ustring\n", "line 2: want a record's head"},
		{"close bracket", "record A: a.\n  X ustring]\n", "line 2: want a record's head"},
		{"unknown type", "record A: a.\n  X short\n", `line 2: unknown type "short"`},
		{"later record", "record A: a.\n  X B\nrecord B: b.\n  X int\n", `line 2: unknown type "B"`},
		{"own record", "record A: a.\n  X int\n  Y [A]\n", `line 3: unknown type "A"`},
		{"same field twice", head + "  X long\n", "line 3: field X is there already"},
		{"reserved field", head + "  Nulls long\n", "line 3: field Nulls is there already"},
		{"optional int", "record A: a.\n  X int?\n", "line 2: optional field X is not a bool"},
		{"optional vector", "record A: a.\n  X [bool]?\n", "line 2: optional field X is not a bool"},
		{"field after an optional one", head + "  Y bool?\n  Z int\n", "line 4: field Z follows an optional one"},
		{"vector of int", "record A: a.\n  X [int]\n", "line 2: vector of int"},
		{"vector of strings in an echo", "echo A: a.\n  X [ustring]\n", "line 2: vector of ustring"},
		{"record without bytes", "record A: a.\nrecord B: b.\n  X [A]\n", "line 3: A has no end or no bytes"},
		{"record with an optional", head + "  Y bool?\nrecord B: b.\n  Z A\n", "line 5: A has no end or no bytes"},
		{"nine strings", nine, "line 10: field I is string 9 of its record"},
		{"Go keyword as a type's neighbour", "record A: a.\n  X int:Y Z\n", "line 2: want a record's head"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Generate(test.schema)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestGenerateText(t *testing.T) {
	source, err := Generate("record A: is inside.\n  S ustring\nrecord E: is in a vector.\n  N int\n" +
		"echo R: replies.\n  T ustring\n  A A\n  E [E]\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"func (r *A) Append(b []byte) []byte {\n\tb = AppendUstring(b, r.S, r.Nulls, 0)",
		"func (r *A) appendEcho(b []byte) []byte {\n\tb = appendEcho(b, r.S, r.Nulls, 0)",
		"b = appendEcho(b, r.T, r.Nulls, 0)",
		"b = r.A.appendEcho(b)",
		"b = r.E[i].Append(b)",
		"// minEBytes is the size of the smallest encoding of an E.\nconst minEBytes = 4",
	} {
		if !strings.Contains(string(source), want) {
			t.Errorf("generated source lacks\n%s", want)
		}
	}
	for _, unwanted := range []string{"minABytes", "minRBytes", "func (r *E) appendEcho", "func (r *R) appendEcho"} {
		if strings.Contains(string(source), unwanted) {
			t.Errorf("generated source holds %q, which nothing uses", unwanted)
		}
	}
}
