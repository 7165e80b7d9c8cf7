package conf

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the generated files anew")

// TestGenerated compares the reference page and the sample files with what the table of keys makes of them; -update
// writes them.
func TestGenerated(t *testing.T) {
	for name, content := range map[string]string{ // any order: each file by itself
		"../docs/configuration.md": referencePage(t),
		"zoo_sample.cfg":           sampleFile(),
		"zoo_ensemble.cfg":         ensembleFile(),
	} {
		if *update {
			if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatalf("%v; run go generate ./conf", err)
		}
		if diff := cmp.Diff(content, string(got)); diff != "" {
			t.Errorf("%s does not agree with the table of keys, run go generate ./conf (-want +got):\n%s", name, diff)
		}
	}
}

// section is a part of the reference page.
type section struct {
	title string
	rows  []key
}

var sections = []section{
	{"One server", fileKeys},
	{"Members", quorumKeys},
	{"What ZooKeeper has not", ownKeys},
	{"Tree and durability", serverKeys},
	{"What the server tells operators", adminKeys},
	{"Limits", limitKeys},
	{"Who a client is", authKeys},
	{"Audit log", auditKeys},
	{"TLS", tlsKeys},
	{"Names in certificates of clients", sanKeys},
	{"TLS with clients", clientTLSKeys},
	{"TLS with members", quorumTLSKeys},
}

// referencePage is docs/configuration.md: the prose of testdata/reference with the tables between.
func referencePage(t *testing.T) string {
	t.Helper()
	head, err := os.ReadFile("testdata/reference/head.md")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := os.ReadFile("testdata/reference/keys.md")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.Write(head)
	b.WriteString("\n")
	b.WriteString("| variable | key | the image's default |\n|---|---|---|\n")
	for _, v := range imageVariables {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", v.name, v.key, code(v.def))
	}
	fmt.Fprintf(&b, "| %s | server lines, with blanks between them | %s |\n", imageServers, code(imageServersAtHome))
	fmt.Fprintf(&b, "| %s | any lines of zoo.cfg, with blanks between them | |\n", imageExtra)
	b.WriteString("\nThe image writes the file `dataDir/myid` from ZOO_MY_ID when there is no such file, zoo.cfg or " +
		"not: so ZOO_MY_ID counts\nbeside a zoo.cfg too, and the file wins over it.\n")
	b.WriteString("\n")
	b.Write(keys)
	for _, s := range sections {
		fmt.Fprintf(&b, "\n### %s\n\n", s.title)
		b.WriteString("| key | default | allowed | meaning | property | mark | effect |\n")
		b.WriteString("|---|---|---|---|---|---|---|\n")
		for i := range s.rows {
			writeRow(&b, &s.rows[i])
		}
	}
	b.WriteString("\n### Accepted without effect\n\n")
	b.WriteString("P tunes something that zkd does not have; J has no meaning outside the JVM.\n\n")
	b.WriteString("| key | property | mark |\n|---|---|---|\n")
	for _, rows := range [][]key{tuningKeys, javaKeys} {
		for _, k := range rows {
			fmt.Fprintf(&b, "| %s | %s | %c |\n", code(k.name), code(k.property), k.mark)
		}
	}
	return b.String()
}

func writeRow(b *strings.Builder, k *key) {
	effects := map[effect]string{works: "works", refused: "refused", ignored: "ignored"}
	runtime := ""
	if k.runtime {
		runtime = "; by reconfig"
	}
	escape := strings.NewReplacer("|", `\|`)
	fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %c | %s%s |\n", code(k.name), code(k.def),
		escape.Replace(k.allowed()), escape.Replace(k.doc), code(k.property), k.mark, effects[k.effect], runtime)
}

// code is s in backquotes, or nothing.
func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

const generatedMark = "# Generated from the table of keys in conf/ by \"go generate ./conf\".\n" +
	"# docs/configuration.md has every key.\n"

// ofEnsembles tells whether only an ensemble has a use for a key.
func ofEnsembles(k *key) bool {
	for _, rows := range [][]key{quorumKeys, ownKeys, quorumTLSKeys} {
		if slices.ContainsFunc(rows, func(row key) bool { return row.name == k.name }) {
			return true
		}
	}
	return strings.HasPrefix(k.name, "sslQuorum") || strings.HasPrefix(k.name, "localSessions") ||
		k.name == "portUnification"
}

// sampleFile is conf/zoo_sample.cfg: the few keys that a server is given, and below them, as comments, all others that
// have an effect in a standalone server, with their defaults.
func sampleFile() string {
	var b strings.Builder
	b.WriteString("# A standalone server. Start it by zkd serve with the name of this file.\n" + generatedMark)
	given := map[string]string{"tickTime": "2000", "dataDir": "/var/lib/zkd", "clientPort": "2181"}
	for _, name := range []string{"tickTime", "dataDir", "clientPort"} {
		writeSample(&b, "", name, given[name])
	}
	b.WriteString("\n# ---- The defaults of everything else that has an effect ----\n")
	writeDefaults(&b, given, func(k *key) bool { return !ofEnsembles(k) })
	return b.String()
}

// ensembleFile is conf/zoo_ensemble.cfg, likewise for what only an ensemble has a use for.
func ensembleFile() string {
	var b strings.Builder
	b.WriteString("# One of three servers. The file myid in dataDir holds the number of this one: 1, 2 or 3.\n")
	b.WriteString(generatedMark)
	given := map[string]string{"tickTime": "2000", "initLimit": "10", "syncLimit": "5", "dataDir": "/var/lib/zkd"}
	for _, name := range []string{"tickTime", "initLimit", "syncLimit", "dataDir"} {
		writeSample(&b, "", name, given[name])
	}
	b.WriteString("\n# host:peerPort:electionPort[:participant|observer];[clientHost:]clientPort\n")
	for id := range 3 {
		fmt.Fprintf(&b, "server.%d=zkd%d.example.net:2888:3888;2181\n", id+1, id+1)
	}
	b.WriteString("\n# ---- The defaults of everything else that only an ensemble has a use for ----\n")
	b.WriteString("# zoo_sample.cfg has the rest.\n")
	writeDefaults(&b, given, ofEnsembles)
	return b.String()
}

// writeDefaults writes the keys that have an effect and that wanted takes as comments with their defaults.
func writeDefaults(b *strings.Builder, given map[string]string, wanted func(k *key) bool) {
	for _, s := range sections {
		for i := range s.rows {
			k := &s.rows[i]
			_, done := given[k.name]
			if _, indexed := k.prefix(); done || indexed || k.effect != works || k.name == "myid" || !wanted(k) {
				continue
			}
			writeSample(b, "#", k.name, k.def)
		}
	}
}

// writeSample writes the sentence of a key as a comment and the key below it.
func writeSample(b *strings.Builder, comment, name, val string) {
	row, _, _ := newTable().find(name)
	fmt.Fprintf(b, "\n%s\n%s%s=%s\n", wrapComment(row.doc), comment, name, val)
}

// wrapComment breaks a sentence into comment lines of at most 100 columns.
func wrapComment(sentence string) string {
	const columns = 100
	line, lines := "#", []string(nil)
	for word := range strings.FieldsSeq(sentence) {
		if len(line)+1+len(word) > columns {
			lines, line = append(lines, line), "#"
		}
		line += " " + word
	}
	return strings.Join(append(lines, line), "\n")
}

// TestSamplesLoad checks that the sample files are configurations: with their comments, and the standalone one with
// every comment taken as a key.
func TestSamplesLoad(t *testing.T) {
	readID := func(string) ([]byte, error) { return []byte("2\n"), nil }
	sample := []byte(sampleFile())
	config, err := Load(Sources{Text: sample})
	if err != nil {
		t.Fatal(err)
	}
	if len(config.Notices) > 0 || len(config.Unsupported()) > 0 {
		t.Errorf("zoo_sample.cfg: notices %v, unsupported %v", config.Notices, config.Unsupported())
	}
	full := bytes.ReplaceAll(sample, []byte("\n#"), []byte("\n"))
	full = bytes.ReplaceAll(full, []byte("\n "), []byte("\n# ")) // the prose
	for _, empty := range []string{"clientPortAddress", "secureClientPort", "secureClientPortAddress"} {
		full = bytes.ReplaceAll(full, []byte("\n"+empty+"=\n"), []byte("\n"))
	}
	if _, err := Load(Sources{Text: full}); err != nil {
		t.Errorf("zoo_sample.cfg with its comments as keys: %v", err)
	}
	ensemble, err := Load(Sources{Text: []byte(ensembleFile()), ReadFile: readID})
	if err != nil {
		t.Fatal(err)
	}
	if len(ensemble.Notices) > 0 || len(ensemble.Unsupported()) > 0 {
		t.Errorf("zoo_ensemble.cfg: notices %v, unsupported %v", ensemble.Notices, ensemble.Unsupported())
	}
	if e := ensemble.Ensemble; !e.Distributed || len(e.Members) != 3 || e.MyID != 2 {
		t.Errorf("zoo_ensemble.cfg: got %+v", e)
	}
}
