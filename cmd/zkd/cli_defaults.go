package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"zkd/conf"
)

// cliEnv begins the names of the variables that are defaults of zkd cli's flags.
const cliEnv = "ZKD_CLI_"

// setDefaults sets the flags that were not given, from the environment and from ~/.zkdrc, and gathers the properties of
// ZooKeeper's client.
func (f *cliFlags) setDefaults(flags *pflag.FlagSet) error {
	f.properties = map[string]string{}
	for word := range strings.FieldsSeq(os.Getenv("CLIENT_JVMFLAGS") + " " + os.Getenv("JVMFLAGS")) {
		if name, value, ok := strings.Cut(strings.TrimPrefix(word, "-D"), "="); ok && strings.HasPrefix(word, "-D") {
			f.properties[name] = value
		}
	}
	file, err := readDefaults()
	if err != nil {
		return err
	}
	var wrong error
	flags.VisitAll(func(flag *pflag.Flag) {
		name := cliEnv + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
		value, source := os.Getenv(name), "environment variable "+name
		if value == "" {
			value, source = file.values[flag.Name], file.name
		}
		delete(file.values, flag.Name)
		if value == "" || flag.Changed || wrong != nil {
			return
		}
		if err := flag.Value.Set(value); err != nil {
			wrong = fmt.Errorf("%s: %s: %w", source, flag.Name, err)
		}
	})
	for name, value := range file.values { // order: each by itself
		if !strings.Contains(name, ".") {
			return fmt.Errorf("%s: %s is no flag of zkd cli", file.name, name)
		}
		f.properties[name] = value
	}
	if f.clientConfiguration != "" {
		if err := f.readClientConfiguration(); err != nil {
			return err
		}
	}
	return wrong
}

// defaults are those of a file.
type defaults struct {
	name   string
	values map[string]string
}

// readDefaults reads ~/.zkdrc.
func readDefaults() (defaults, error) {
	name, named := os.LookupEnv(cliEnv + "RC")
	if !named {
		home, err := os.UserHomeDir()
		if err != nil {
			return defaults{}, nil //nolint:nilerr // nobody's: no defaults
		}
		name = filepath.Join(home, ".zkdrc")
	}
	d := defaults{name: name, values: map[string]string{}}
	if name == "" {
		return d, nil
	}
	text, err := os.ReadFile(name) //nolint:gosec // the user's own
	if errors.Is(err, fs.ErrNotExist) && !named {
		return d, nil
	}
	if err != nil {
		return d, err
	}
	found, err := conf.ParseProperties(text)
	if err != nil {
		return d, fmt.Errorf("%s: %w", name, err)
	}
	for _, p := range found {
		d.values[p.Key] = strings.TrimSpace(p.Value)
	}
	return d, nil
}

// readClientConfiguration reads what zkCli's -client-configuration names.
func (f *cliFlags) readClientConfiguration() error {
	text, err := os.ReadFile(f.clientConfiguration)
	if err != nil {
		return fmt.Errorf("--client-configuration: %w", err)
	}
	found, err := conf.ParseProperties(text)
	if err != nil {
		return fmt.Errorf("--client-configuration %s: %w", f.clientConfiguration, err)
	}
	for _, p := range found {
		f.properties[p.Key] = strings.TrimSpace(p.Value)
	}
	return nil
}
