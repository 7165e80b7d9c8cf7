// Command gen writes the records of package jute from its schema.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	schema := flag.String("schema", "schema.txt", "the table of records")
	out := flag.String("out", "records.go", "the file to write")
	flag.Parse()
	if err := run(*schema, *out); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// run reads the schema and writes the records.
func run(schema, out string) error {
	text, err := os.ReadFile(schema)
	if err != nil {
		return fmt.Errorf("read schema: %w", err)
	}
	source, err := Generate(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", schema, err)
	}
	if err := os.WriteFile(out, source, 0o644); err != nil {
		return fmt.Errorf("write records: %w", err)
	}
	return nil
}
