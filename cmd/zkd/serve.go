package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"zkd/conf"
	"zkd/quorum/clock"
	"zkd/server/instance"
	"zkd/storage/disk"
)

// newServeCommand returns the command that runs a server.
func newServeCommand() *cobra.Command {
	var (
		set      []string
		dataDir  string
		port     int
		logLevel string
		logJSON  bool
	)
	cmd := &cobra.Command{
		Use:   "serve [zoo.cfg]",
		Short: "Run a server",
		Long: `Run a server until SIGTERM or SIGINT.

Without a file, here or in $ZOO_CONF_DIR, it listens on port 2181 and keeps its data in ./zkd-data. A zoo.cfg of
Apache ZooKeeper is taken as it is; docs/configuration.md lists its keys. Any key can also be given by --set
key=value, by the environment (ZKD_CLIENT_PORT for clientPort), or as -Dname=value in SERVER_JVMFLAGS.`,
		Example: `  zkd serve
  zkd serve /etc/zookeeper/zoo.cfg
  zkd serve --port 2182 --data-dir /var/lib/zkd --set 4lw.commands.whitelist='*'`,
		Args: oneOptional(),
		RunE: func(cmd *cobra.Command, args []string) error {
			flags, err := keyValues(set)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("data-dir") {
				flags["dataDir"] = dataDir
			}
			if cmd.Flags().Changed("port") {
				flags["clientPort"] = fmt.Sprint(port)
			}
			logger, err := newLogger(logLevel, logJSON)
			if err != nil {
				return usageError{err}
			}
			config, err := loadConfig(configSources(flags, args), logger)
			if err != nil {
				return usageError{err}
			}
			raiseThreads()
			limitMemory()
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			return serve(ctx, config, logger)
		},
	}
	cmd.Flags().StringArrayVar(&set, "set", nil, "set a `key=value` of zoo.cfg; may be repeated")
	cmd.Flags().StringVar(&dataDir, "data-dir", "./zkd-data", "where the data lives (dataDir)")
	cmd.Flags().IntVar(&port, "port", 2181, "the port for clients (clientPort)")
	cmd.Flags().StringVar(&logLevel, "log-level", "info", "debug, info, warn or error")
	cmd.Flags().BoolVar(&logJSON, "log-json", false, "write the log as JSON")
	return cmd
}

// serve runs a server until ctx ends or it fails.
func serve(ctx context.Context, config *conf.Config, logger *slog.Logger) error {
	manager := newNotifier(logger)
	i, err := instance.Open(ctx, config, realWorld(logger), instanceOptions(logger, manager))
	if err != nil {
		return toldError(interrupted(ctx, err,
			"the server was not started yet; an import that had begun is taken away"))
	}
	tuning, done := context.WithCancel(ctx)
	defer done()
	// Not before: a heap that grows from nothing would be collected all the time.
	go tuneCollector(tuning, clock.Real())
	return toldError(errors.Join(i.Run(ctx), i.Close()))
}

// toldError marks the failure of a disk as one that stderr has already, in the log.
func toldError(err error) error {
	if disk.Logged(err) {
		return loggedError{err}
	}
	return err
}

// instanceOptions is what the command line tells a server.
func instanceOptions(logger *slog.Logger, manager *notifier) instance.Options {
	revision, built := buildInfo()
	return instance.Options{Logger: logger, Release: release(), Revision: revision, Built: built,
		Notify: manager.notify, Beat: manager.beat}
}

// configSources says where the configuration of a command is read from: flags have values of keys, args a zoo.cfg or
// nothing.
func configSources(flags map[string]string, args []string) conf.Sources {
	s := conf.Sources{Environ: os.Environ(), Flags: flags, ReadFile: os.ReadFile}
	s.Hostname, _ = os.Hostname() // only zkd.myidFromHostname needs it, and says that it has none
	if len(args) == 1 {
		s.Path = args[0]
	}
	return s
}

// keyValues splits the values of --set; its errors are wrong usage.
func keyValues(set []string) (map[string]string, error) {
	flags := map[string]string{}
	for _, kv := range set {
		key, value, ok := strings.Cut(kv, "=")
		if !ok || key == "" {
			return nil, usageError{fmt.Errorf("--set %q: want key=value", kv)}
		}
		flags[key] = value
	}
	return flags, nil
}

// newLogger returns a logger to stderr.
func newLogger(level string, json bool) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: want debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: l}
	if json {
		return slog.New(slog.NewJSONHandler(os.Stderr, options)), nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, options)), nil
}

// loadConfig reads the configuration, logs what the operator should know about it, and refuses what is not there yet.
func loadConfig(sources conf.Sources, logger *slog.Logger) (*conf.Config, error) {
	config, err := conf.Load(sources)
	if err != nil {
		return nil, fmt.Errorf("the configuration is wrong:\n%w", err)
	}
	for _, n := range config.Notices {
		logger.Info("configuration notice", slog.String("key", n.Key), slog.String("source", n.Source),
			slog.String("notice", n.Message))
	}
	missing := config.Unsupported()
	if len(missing) == 0 {
		return config, nil
	}
	lines := make([]string, len(missing))
	for i, p := range missing {
		lines[i] = p.String()
	}
	return nil, fmt.Errorf("the configuration asks for what this version has not:\n%s", strings.Join(lines, "\n"))
}
