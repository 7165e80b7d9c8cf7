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
		return unknownCommand(cmd, args[0])
	}
}

// newHelpCommand returns the command that shows the help of another one. One that there is not is an error, as it is
// without help before it.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		Long:  "Show the help of a command, as its flag --help does, or of a topic.",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
			of, _, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, below := range of.Commands() {
				if strings.HasPrefix(below.Name(), start) {
					names = append(names, cobra.CompletionWithDesc(below.Name(), below.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			if err != nil {
				return usageError{err}
			}
			if len(rest) > 0 {
				return unknownCommand(of, rest[0])
			}
			of.InitDefaultHelpFlag()
			of.InitDefaultVersionFlag()
			return of.Help()
		},
	}
}

// unknownCommand is the error of a command that cmd has not.
func unknownCommand(cmd *cobra.Command, name string) error {
	err := fmt.Errorf("unknown command %q for %q", name, cmd.CommandPath())
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		err = fmt.Errorf("%w: did you mean %s?", err, strings.Join(near, " or "))
	}
	return usageError{err}
}
