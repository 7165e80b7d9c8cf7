package shell

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"zkd/jute"
	"zkd/jute/client/session"
)

// runEdit gives a value to the user's editor, and writes what comes of it if nobody else has written meanwhile.
func runEdit(c *call) error {
	path, err := c.path()
	if err != nil {
		return err
	}
	data, stat, err := c.session.Get(c.ctx, path, false)
	missing := session.CodeOf(err) == jute.NoNode && c.has("c")
	if err != nil && !missing {
		return answered(err, "null")
	}
	dir, err := os.MkdirTemp("", "zkd-edit-")
	if err != nil {
		return err
	}
	name := filepath.Join(dir, fileName(jute.BaseName(path))+".txt")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		return err
	}
	after, err := letEdit(c, name)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	if bytes.Equal(after, data) && !missing {
		c.Shell.line("not changed")
		return os.RemoveAll(dir)
	}
	if missing {
		_, err = c.session.Create(c.ctx, path, session.NewNode{Data: after, ACL: session.World()})
	} else {
		_, err = c.session.Set(c.ctx, path, after, stat.Version)
	}
	switch {
	case session.CodeOf(err) == jute.BadVersion || session.CodeOf(err) == jute.NodeExists:
		return failed("somebody else has written %s meanwhile: what you have made of it is in %s", path, name)
	case err != nil:
		return fmt.Errorf("%w; what you have made of it is in %s", answered(err, "null"), name)
	}
	c.Shell.line("written: " + c.name(path))
	return os.RemoveAll(dir)
}

// letEdit runs the user's editor on a file, and returns what is in it then.
func letEdit(c *call, name string) ([]byte, error) {
	editor := c.o.Getenv("VISUAL")
	if editor == "" {
		editor = c.o.Getenv("EDITOR")
	}
	if editor == "" {
		editor = "vi"
	}
	c.out.flush()
	words := append(strings.Fields(editor), name)
	cmd := exec.CommandContext(c.ctx, words[0], words[1:]...) //nolint:gosec // the user's own
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, failed("the editor %s: %v", words[0], err)
	}
	return os.ReadFile(name) //nolint:gosec // ours
}
