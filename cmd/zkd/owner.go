package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// ownerFlag is the flag --owner of who makes a data directory for a server that runs as somebody else.
type ownerFlag struct{ name string }

// addTo adds the flag.
func (f *ownerFlag) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.name, "owner", "", "the `user[:group]` that the server runs as, who is to own the data; "+
		"for root")
}

// ids are the user and the group that were named, as a name or a number each. The group is that of the user if none is
// named. -1, -1: nobody was.
func (f *ownerFlag) ids() (uid, gid int, err error) {
	if f.name == "" {
		return -1, -1, nil
	}
	name, group, named := strings.Cut(f.name, ":")
	u, err := user.Lookup(name)
	if err != nil {
		if u, err = user.LookupId(name); err != nil {
			u = &user.User{Uid: name, Gid: name} // a container may not know whom its volumes belong to
		}
	}
	if named {
		u.Gid = group
		if g, err := user.LookupGroup(group); err == nil {
			u.Gid = g.Gid
		}
	}
	uid, errUser := strconv.Atoi(u.Uid)
	gid, errGroup := strconv.Atoi(u.Gid)
	if errUser != nil || errGroup != nil || uid < 0 || gid < 0 {
		return 0, 0, usageError{fmt.Errorf("--owner %q: want user[:group], as names that this machine knows or as "+
			"numbers", f.name)}
	}
	return uid, gid, nil
}

// give gives away what is in directories, and them, but for the data of Apache ZooKeeper. To root who names nobody it
// says on hint what that comes to.
func (f *ownerFlag) give(hint io.Writer, dirs ...string) error {
	uid, gid, err := f.ids()
	if err != nil {
		return err
	}
	if uid < 0 {
		if os.Geteuid() == 0 {
			_, _ = fmt.Fprintf(hint, "note: %s is root's: if the server runs as another user, as that of the packages "+
				"does, give it away with chown -R, or use --owner next time\n", strings.Join(distinct(dirs), " and "))
		}
		return nil
	}
	for _, dir := range distinct(dirs) {
		if err := giveDir(dir, uid, gid); err != nil {
			return fmt.Errorf("give %s to %s: %w: the data itself is whole", dir, f.name, err)
		}
	}
	return nil
}

// giveDir gives a directory away, with what is in it. Links lead nowhere else.
func giveDir(dir string, uid, gid int) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // it was only looked into
	return fs.WalkDir(root.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == apacheDataName:
			return fs.SkipDir
		}
		return root.Lchown(path, uid, gid)
	})
}

// apacheDataName is where Apache ZooKeeper keeps its data.
const apacheDataName = "version-2"

// distinct are directories without those that are named twice, or not at all.
func distinct(dirs []string) (out []string) {
	seen := map[string]bool{"": true}
	for _, dir := range dirs {
		if !seen[dir] {
			out = append(out, dir)
		}
		seen[dir] = true
	}
	return out
}
