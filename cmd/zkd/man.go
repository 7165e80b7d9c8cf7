package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newManCommand returns the command that writes the manual pages.
func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages of all commands into a directory",
		Long: `Write the manual pages of all commands, zkd.1 and zkd-serve.1 and so on, into a directory that is made
if need be. They are made from the same texts as --help.`,
		Example: "  zkd man /usr/local/share/man/man1",
		Args:    required("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			return writeManual(cmd.Root(), args[0])
		},
	}
}

// newExitCodesTopic returns the help topic about exit statuses.
func newExitCodesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "The exit statuses of all commands",
		Long: `The exit statuses of all commands:

  0  the command did what it was to do; a server has stopped cleanly
  1  it did not, or the server stopped by itself: the message says why
  2  the command line or the configuration is wrong: all that is wrong is listed

What 0 and 1 mean where a command's answer is a judgement:

  check    0  the server would start, maybe with warnings, or runs already
           1  it would not, because of data, disk, ports or certificates
           2  the configuration is wrong, or asks for what zkd has not
  status   0  every server serves, and one of them leads or stands alone
           1  a server does not serve, or none leads, or more than one says so
  backup   0  the file is complete, synced and verified; otherwise there is none
  restore  0  the directory is complete and synced; otherwise nothing is in it;
              with --check: the backup is whole

With --output json the result is on standard output whatever the status; messages are on standard error.`,
	}
}

// writeManual writes the page of cmd and those of its commands.
func writeManual(cmd *cobra.Command, dir string) error {
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	if err := os.WriteFile(filepath.Join(dir, name+".1"), []byte(manualPage(cmd, name)), 0o644); err != nil {
		return err
	}
	for _, c := range cmd.Commands() {
		if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		if err := writeManual(c, dir); err != nil {
			return err
		}
	}
	return nil
}

// manualPage is the page of one command, in the macros of man(7).
func manualPage(cmd *cobra.Command, name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %q \"1\" \"\" \"zkd\" \"User Commands\"\n", strings.ToUpper(name))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(name), roff(cmd.Short))
	if cmd.Runnable() {
		fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(cmd.UseLine()))
	}
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s", roffText(cmd.Long, cmd.Short))
	if cmd.HasAvailableLocalFlags() {
		b.WriteString(".SH OPTIONS\n")
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { roffFlag(&b, f) })
	}
	if cmd.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(cmd.Example))
	}
	var related []string
	if cmd.HasParent() {
		related = append(related, strings.ReplaceAll(cmd.Parent().CommandPath(), " ", "-"))
	}
	for _, c := range cmd.Commands() {
		if !c.Hidden && c.Name() != "help" && c.Name() != "completion" {
			related = append(related, name+"-"+c.Name())
		}
	}
	if len(related) > 0 {
		fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", strings.Join(related, " (1),\n.BR "))
	}
	return b.String()
}

// roffText is a text of paragraphs; lines that are indented keep their form.
func roffText(text, fallback string) string {
	if text == "" {
		text = fallback + "."
	}
	var b strings.Builder
	literal := false
	for line := range strings.Lines(text + "\n") {
		line = strings.TrimRight(line, "\n")
		if indented := strings.HasPrefix(line, "  "); indented != literal && line != "" {
			b.WriteString(map[bool]string{true: ".nf\n", false: ".fi\n"}[indented])
			literal = indented
		}
		if line == "" {
			line = ".PP"
			if literal {
				line = ""
			}
			b.WriteString(line + "\n")
			continue
		}
		b.WriteString(roff(line) + "\n")
	}
	if literal {
		b.WriteString(".fi\n")
	}
	return b.String()
}

// roffFlag writes one flag.
func roffFlag(b *strings.Builder, f *pflag.Flag) {
	if f.Hidden {
		return
	}
	argument, help := pflag.UnquoteUsage(f)
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	if argument != "" {
		argument = " " + argument
	}
	fmt.Fprintf(b, ".TP\n\\fB%s\\fR%s\n%s", roff(name), roff(argument), roff(help))
	if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" && f.DefValue != "0" {
		fmt.Fprintf(b, " (default %s)", roff(f.DefValue))
	}
	b.WriteByte('\n')
}

// roff escapes what has a meaning in roff.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", `\[u2026]`).Replace(text)
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			b.WriteString(`\&`)
		}
		b.WriteString(line)
	}
	return b.String()
}
