package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// documented is a command line of zkd, alone in its line, without what the shell makes of its output.
var documented = regexp.MustCompile(`(?m)^ +(?:[a-z][^|#\n]* \| )?(?:\./)?zkd ([^#|>\n]+)`)

// quoted is what the shell takes for one argument.
var quoted = regexp.MustCompile(`'[^'\n]*'`)

// TestDocumentedCommandLinesAreRight: what the README, the documents and the examples of the help show can be typed as
// it is shown.
func TestDocumentedCommandLinesAreRight(t *testing.T) {
	texts := map[string]string{}
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("documents %q: %v", files, err)
	}
	for _, file := range append(files, "../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[file] = string(text)
	}
	addExamples(texts, newRootCommand())
	lines := 0
	for where, text := range texts { // any order: each by itself
		for _, line := range documented.FindAllStringSubmatch(text, -1) {
			root := newRootCommand()
			cmd, args, err := root.Find(strings.Fields(quoted.ReplaceAllString(line[1], "quoted")))
			if err != nil || cmd == root { // a sentence
				continue
			}
			lines++
			cmd.InitDefaultHelpFlag()
			if err = cmd.ParseFlags(args); err == nil {
				err = cmd.ValidateArgs(cmd.Flags().Args())
			}
			if err != nil {
				t.Errorf("%s: zkd %s: %v", where, line[1], err)
			}
			if cmd.Name() == "backup" && cmd.Flags().Changed("from") && !cmd.Flags().Changed("credentials-file") {
				t.Errorf("%s: zkd %s: no server gives a backup without credentials", where, line[1])
			}
		}
	}
	if lines < 20 {
		t.Errorf("%d command lines were found", lines)
	}
}

// addExamples adds the examples of a command and of those below it.
func addExamples(texts map[string]string, cmd *cobra.Command) {
	texts[cmd.CommandPath()+" --help"] = cmd.Example
	for _, below := range cmd.Commands() {
		addExamples(texts, below)
	}
}
