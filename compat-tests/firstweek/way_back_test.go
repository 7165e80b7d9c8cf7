package firstweek

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
)

// backup makes a backup of the ensemble while it runs, and looks at it.
func (w *week) backup(t *testing.T) {
	leader := w.awaitInSync(t, 2)
	w.tree = tree(t, leader.Addr)
	admin := "127.0.0.1:" + adminPort(w, leader)
	secret := w.path("super.txt")
	w.command(t, "backup", "--from", admin, w.path("refused.zkdbackup"))
	must(t, os.WriteFile(secret, []byte(target.SuperUser+":"+target.SuperPassword+"\n"), 0o600))
	w.command(t, "backup", "--from", admin, "--credentials-file", secret, w.path("week.zkdbackup"))
	w.command(t, "restore", "--check", w.path("week.zkdbackup"))
}

// adminPort is the admin server's of a server.
func adminPort(w *week, s *ensemble.Server) string {
	for port, name := range w.names { // any order: one has it
		if name == "ADMIN"+string(rune('0'+s.ID)) {
			return port
		}
	}
	return ""
}

// restore makes a server of the backup.
func (w *week) restore(t *testing.T) {
	s := target.New(t, target.Options{Kind: target.Zkd})
	ensemble.MountDisk(t, s.DataDir(), diskBytes)
	s.Binary = w.zkd
	w.names[s.Dir], w.names[s.Port()] = "RESTORED", "CLIENT"
	for range 2 { // the second time there is something
		w.command(t, "restore", w.path("week.zkdbackup"), "--data-dir", s.DataDir())
	}
	w.command(t, "check", s.ConfigPath())
	s.Restart()
	if diff := cmp.Diff(w.tree, tree(t, s.Addr)); diff != "" {
		t.Errorf("the restored server has something else (-before +after):\n%s", diff)
	}
	w.command(t, "status", s.ConfigPath())
	s.Stop()
	w.lookAt(t, s)
}

// lookAt reads the log of a server that is in no ensemble, of which nothing is called for.
func (w *week) lookAt(t *testing.T, s *target.Server) {
	t.Helper()
	log, err := os.ReadFile(s.LogPath())
	must(t, err)
	for _, wrong := range w.lines.look(0, s.LogPath(), string(log)) {
		t.Error(wrong)
	}
}

// export stops the ensemble, the leader last, and writes what Apache ZooKeeper starts from.
func (w *week) export(t *testing.T) {
	leader := w.awaitInSync(t, 2)
	w.tree = tree(t, leader.Addr)
	for _, s := range w.three() {
		if s != leader {
			s.Stop()
		}
	}
	leader.Stop()
	w.names[leader.Dir] = "LEADER"
	w.command(t, "inspect", "summary", leader.DataDir())
	w.command(t, "backup", "--data-dir", leader.DataDir(), w.path("end.zkdbackup"))
	for range 2 { // the second time there is something
		w.command(t, "export", leader.ConfigPath(), "--to", w.path("back"))
	}
}

// moveBack starts Apache ZooKeeper from what was exported.
func (w *week) moveBack(t *testing.T) {
	target.Require(t, target.ToolsOf(target.Zookeeper)...)
	s := target.New(t, target.Options{Kind: target.Zookeeper})
	must(t, os.CopyFS(s.DataDir(), os.DirFS(w.path("back"))))
	s.Restart()
	if diff := cmp.Diff(w.tree, tree(t, s.Addr)); diff != "" {
		t.Errorf("Apache ZooKeeper has something else (-before +after):\n%s", diff)
	}
	w.names[s.Dir], w.names[s.Port()] = "ZOOKEEPER", "CLIENT"
	w.command(t, "status", filepath.Join(s.Dir, "zoo.cfg"))
}
