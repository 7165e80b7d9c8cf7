package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// suggestionDistance is how many letters a command may differ from what was typed and still be meant.
const suggestionDistance = 2

// arguments takes an argument for each of the names, and as many more as there are optional ones. Each that is missing
// is named, as in the command's usage.
func arguments(names []string, optional int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usageError{fmt.Errorf("missing %s: %s", strings.Join(names[len(args):], " and "), cmd.UseLine())}
		case len(args) > len(names)+optional:
			return usageError{fmt.Errorf("unexpected argument %q: %s", args[len(names)+optional], cmd.UseLine())}
		}
		return nil
	}
}

// required takes an argument for each of the names.
func required(names ...string) cobra.PositionalArgs { return arguments(names, 0) }

// oneOptional takes an argument or none.
func oneOptional() cobra.PositionalArgs { return arguments(nil, 1) }

// group makes cmd one that only has others below it: alone it shows its help, and of a command that there is not it
// says which one may be meant.
func group(cmd *cobra.Command) {
	cmd.SuggestionsMinimumDistance = suggestionDistance
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		err := fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			err = fmt.Errorf("%w: did you mean %s?", err, strings.Join(near, " or "))
		}
		return usageError{err}
	}
}
