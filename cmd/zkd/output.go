package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// writeTable writes lines whose cells are separated by tabs, in columns.
func writeTable(w io.Writer, lines string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(t, lines); err != nil {
		return err
	}
	return t.Flush()
}

// hexText writes a zxid or the id of a session as ZooKeeper does: 0x and hexadecimal digits.
func hexText[T ~int64](n T) string { return fmt.Sprintf("%#x", uint64(n)) }

// outputFlag is the value of --output.
type outputFlag struct{ json bool }

// String implements pflag.Value.
func (o *outputFlag) String() string {
	if o.json {
		return "json"
	}
	return "text"
}

// Set implements pflag.Value.
func (o *outputFlag) Set(s string) error {
	if s != "text" && s != "json" {
		return errors.New("want text or json")
	}
	o.json = s == "json"
	return nil
}

// Type implements pflag.Value.
func (o *outputFlag) Type() string { return "text|json" }

// addTo adds the flag --output to cmd.
func (o *outputFlag) addTo(cmd *cobra.Command) {
	cmd.Flags().VarP(o, "output", "o", "how the result is written")
	// It fails for a flag that is not there only.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"},
		cobra.ShellCompDirectiveNoFileComp))
}

// write writes v as JSON, or what text writes.
func (o *outputFlag) write(w io.Writer, v any, text func(w io.Writer) error) error {
	if !o.json {
		return text(w)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}
