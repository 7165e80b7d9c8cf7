package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"zkd/cmd/zkd/shell"
	"zkd/quorum/clock"
)

// cliFlags are what zkd cli is told.
type cliFlags struct {
	server, timeout     string
	readOnly, wait      bool
	clientConfiguration string
	tls                 bool
	caFile, certFile    string
	jaas, authFile      string
	auth                []string
	output              outputFlag
	quiet, noColor      bool
	properties          map[string]string // of the client, as Java calls them
}

// newCLICommand returns the shell.
func newCLICommand() *cobra.Command {
	f := cliFlags{}
	cmd := &cobra.Command{
		Use:   "cli [flags] [command arguments]",
		Short: "Look into a server and change what is there, as zkCli.sh does",
		Long: `Look into a server of the ZooKeeper protocol and change what is there: zkd, Apache ZooKeeper, others.

Without a command it is a shell: at a terminal with a history, completion of commands, options and paths, and
colours; from a pipe it runs a line after the other. With a command it runs that one.

The commands of zkCli.sh 3.9 are there with their options, their output and their exit status, and so are its flags
with one dash (-server, -timeout, -r, -waitforconnection, -client-configuration), so that a script moves over by
putting "zkd cli" where it says zkCli.sh. What zkCli.sh has not is listed by "zkd cli help": tree, find, du, cp, mv,
edit, export, import, diff, watch, lock, elect, ping.

Flags stand before the command. Defaults come from the environment (ZKD_CLI_SERVER, ZKD_CLI_AUTH, and so on: the
flag's name in capitals), then from ~/.zkdrc (or the file that ZKD_CLI_RC names), a line "server=a,b,c/chroot" for a
flag. CLIENT_JVMFLAGS is looked at as zkCli.sh does, for -Dzookeeper.ssl.…, -Dzookeeper.client.secure and
-Djava.security.auth.login.config.

Exit status: 0 the command, or the last one of a session, did what it should; 1 not so; 2 the flags are wrong; 127
there is no such command; 130 it was interrupted.`,
		Example: `  zkd cli
  zkd cli -server a:2181,b:2181,c:2181/app get /config
  zkd cli --quiet --output json ls / | jq
  zkd cli lock /locks/backup -- /usr/local/bin/backup`,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args)
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return shell.Names(start), cobra.ShellCompDirectiveNoFileComp
		},
	}
	f.addTo(cmd)
	return cmd
}

// addTo adds the flags to the command.
func (f *cliFlags) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	flags.StringVar(&f.server, "server", "localhost:2181", "`host:port`, more with commas between them, and a chroot")
	flags.StringVar(&f.timeout, "timeout", "30000", "of the session, in `milliseconds` or as 30s")
	flags.BoolVarP(&f.readOnly, "read-only", "r", false, "be served by a server without a quorum, too")
	flags.BoolVar(&f.wait, "waitforconnection", false, "wait for a connection before the first command")
	flags.StringVar(&f.clientConfiguration, "client-configuration", "", "`file` with properties of ZooKeeper's client")
	flags.BoolVar(&f.tls, "tls", false, "speak TLS")
	flags.StringVar(&f.caFile, "ca-file", "",
		"with --tls: `file` with the certificates to trust, PEM; default those of the system")
	flags.StringVar(&f.certFile, "cert-file", "", "with --tls: `file` with a certificate and its key, PEM")
	flags.StringVar(&f.jaas, "jaas", "", "`file` of JAAS whose section Client says how to log in by SASL")
	flags.StringArrayVar(&f.auth, "auth", nil, "`scheme:auth`, as addauth; others can see it: prefer --auth-file")
	flags.StringVar(&f.authFile, "auth-file", "", "`file` with such lines")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print results alone, nothing about the connection")
	flags.BoolVar(&f.noColor, "no-color", false, "no colours; they are off without a terminal and with NO_COLOR, too")
	f.output.addTo(cmd)
}

// parse reads the flags, those of zkCli with one dash as well, and returns the command.
func (f *cliFlags) parse(cmd *cobra.Command, args []string) ([]string, error) {
	translated := make([]string, 0, len(args))
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; arg {
		case "-server", "-timeout", "-client-configuration":
			if i+1 == len(args) {
				return nil, fmt.Errorf("no argument found for option %s", arg)
			}
			i++
			translated = append(translated, "-"+arg, args[i])
		case "-waitforconnection":
			translated = append(translated, "-"+arg)
		default:
			translated = append(translated, arg)
			if name := strings.TrimLeft(arg, "-"); arg == name || arg == "--" { // the command
				return f.parsed(cmd, append(translated, args[i+1:]...))
			} else if !strings.Contains(name, "=") && cmd.Flags().Lookup(name) != nil &&
				cmd.Flags().Lookup(name).NoOptDefVal == "" && i+1 < len(args) {
				i++
				translated = append(translated, args[i])
			}
		}
	}
	return f.parsed(cmd, translated)
}

func (f *cliFlags) parsed(cmd *cobra.Command, args []string) ([]string, error) {
	cmd.InitDefaultHelpFlag()
	if err := cmd.Flags().Parse(args); err != nil {
		return nil, err
	}
	return cmd.Flags().Args(), f.setDefaults(cmd.Flags())
}

// run is the shell.
func (f *cliFlags) run(cmd *cobra.Command, args []string) error {
	words, err := f.parse(cmd, args)
	if err != nil {
		return usageError{err}
	}
	if help, _ := cmd.Flags().GetBool("help"); help || len(words) == 1 && words[0] == "help" {
		if err := cmd.Help(); err != nil {
			return err
		}
		_, err := fmt.Fprint(cmd.OutOrStdout(), "\nCommands:\n"+shell.Help())
		return err
	}
	o, err := f.options()
	if err != nil {
		return usageError{err}
	}
	o.Interactive = len(words) == 0 && isTerminal(os.Stdin) && o.Terminal && os.Getenv("TERM") != "dumb"
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if !o.Interactive {
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGINT)
		defer stop()
	}
	if status := shell.New(o).Run(ctx, words); status != 0 {
		return statusError{loggedError{fmt.Errorf("exit status %d", status)}, status}
	}
	return nil
}

// options are the shell's.
func (f *cliFlags) options() (shell.Options, error) {
	timeout, err := sessionTimeout(f.timeout)
	if err != nil {
		return shell.Options{}, err
	}
	if _, _, err := shell.ParseConnect(f.server); err != nil {
		return shell.Options{}, err
	}
	opener, err := f.opener(timeout)
	if err != nil {
		return shell.Options{}, err
	}
	terminal := isTerminal(os.Stdout)
	return shell.Options{Connect: f.server, Timeout: timeout, Wait: f.wait, JSON: f.output.json, Quiet: f.quiet,
		Open: opener.open, SASL: opener.login != nil, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Terminal: terminal, Color: terminal && !f.noColor && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
		Clock: clock.Real(), Zone: time.Local, Getenv: os.Getenv, Version: versionText(), Interrupt: untilInterrupt,
	}, nil
}

// untilInterrupt is ctx until Ctrl-C.
func untilInterrupt(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, syscall.SIGINT)
}

// sessionTimeout reads a number of milliseconds, as zkCli takes it, or a duration.
func sessionTimeout(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		d, err = time.ParseDuration(text + "ms")
	}
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("--timeout %q: want a number of milliseconds, or a duration as 30s", text)
	}
	return d, nil
}
