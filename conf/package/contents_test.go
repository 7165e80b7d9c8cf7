package main

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/viper"
)

// made are the files of a stage that are not copied.
var made = []string{
	"doc", "completion-bash", "completion-zsh", "completion-fish", "changelog.gz", "man",
}

// packageConfig is what is looked at of nfpm.yaml.
type packageConfig struct {
	Contents []struct{ Src, Dst, Type string }
	Scripts  map[string]string
}

func readPackageConfig(t *testing.T) packageConfig {
	t.Helper()
	v := viper.New()
	v.SetConfigType("yaml")
	if err := v.ReadConfig(bytes.NewReader(read(t, "conf/package/nfpm.yaml"))); err != nil {
		t.Fatal(err)
	}
	var c packageConfig
	if err := v.Unmarshal(&c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPackageHasWhatIsStaged(t *testing.T) {
	c := readPackageConfig(t)
	staged := (&release{options: options{root: testRoot}}).staged("")
	var used []string
	for _, content := range c.Contents {
		if content.Src == "" || content.Type == "symlink" {
			continue
		}
		used = append(used, content.Src)
		if from, ok := staged[content.Src]; ok && content.Dst != "/usr/bin/zkd" {
			if _, err := os.Stat(from); err != nil {
				t.Errorf("%s: %v", content.Dst, err)
			}
		} else if !ok && !slices.Contains(made, content.Src) {
			t.Errorf("%s: nothing stages %s", content.Dst, content.Src)
		}
		// What the operator edits outlives an upgrade.
		if inEtc := strings.HasPrefix(content.Dst, "/etc/"); inEtc != (content.Type == "config|noreplace") {
			t.Errorf("%s is of type %q", content.Dst, content.Type)
		}
		if strings.HasPrefix(content.Dst, "/var/") {
			t.Errorf("%s is part of the package: the removal would take it away", content.Dst)
		}
	}
	for _, script := range c.Scripts { // any order: each script by itself
		used = append(used, script)
	}
	for name := range staged { // any order: each file by itself
		if !slices.Contains(used, name) {
			t.Errorf("%s is staged, and in no package", name)
		}
	}
}

// link is a link of a document.
var link = regexp.MustCompile(`\]\(([^)\s#]+)(?:#[^)\s]*)?\)`)

// TestLinksOfDocumentsLeadSomewhere: whoever reads a document where it was installed finds what it leads to.
func TestLinksOfDocumentsLeadSomewhere(t *testing.T) {
	files, err := (&release{options: options{root: testRoot}}).documents()
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for name := range files { // any order: each by itself
		for ; name != "."; name = path.Dir(name) {
			there[name] = true
		}
	}
	links := 0
	for name, text := range files { // any order: each by itself
		if path.Ext(name) != ".md" {
			continue
		}
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			if to := found[1]; !strings.Contains(to, "://") {
				links++
				if !there[path.Join(path.Dir(name), to)] {
					t.Errorf("%s leads to %s, which archives and packages do not have", name, to)
				}
			}
		}
	}
	if links == 0 {
		t.Error("no document has a link")
	}
}

// TestPackageHasTheDocuments: whole, below one folder, and with the licence that the README leads to.
func TestPackageHasTheDocuments(t *testing.T) {
	const folder = "/usr/share/doc/zkd"
	found := map[string]string{}
	for _, content := range readPackageConfig(t).Contents {
		found[content.Dst] = content.Type + " " + content.Src
	}
	if found[folder] != "tree doc" || found[folder+"/"+licenceFile] != "symlink copyright" {
		t.Errorf("documents %q, licence %q", found[folder], found[folder+"/"+licenceFile])
	}
	unit := string(read(t, "conf/systemd/zkd.service"))
	_, line, _ := strings.Cut(unit, "Documentation=file://"+folder+"/")
	line, _, _ = strings.Cut(line, "\n")
	if _, err := os.Stat(filepath.Join(testRoot, filepath.FromSlash(line))); err != nil || !slices.Contains(carried,
		path.Dir(line)) {
		t.Errorf("the unit leads to %q: %v", line, err)
	}
}

// TestUnitFitsPackage compares the unit with what the package installs and with the user that it makes.
func TestUnitFitsPackage(t *testing.T) {
	unit := string(read(t, "conf/systemd/zkd.service"))
	for _, line := range []string{
		"Type=notify", "User=zkd", "ExecStart=/usr/bin/zkd serve $ZKD_OPTS /etc/zkd/zoo.cfg",
		"EnvironmentFile=-/etc/default/zkd", "StateDirectory=zkd", "RestartPreventExitStatus=2", "TimeoutStopSec=60",
		"NoNewPrivileges=true", "ProtectSystem=strict", "CapabilityBoundingSet=", "SystemCallFilter=@system-service",
	} {
		if !strings.Contains(unit, "\n"+line+"\n") {
			t.Errorf("zkd.service has no line %s", line)
		}
	}
	if !strings.Contains(string(read(t, "conf/systemd/sysusers.conf")), "\nu zkd ") {
		t.Error("sysusers.conf makes no user zkd")
	}
	if !strings.Contains(string(read(t, "conf/systemd/tmpfiles.conf")), "\nd /var/lib/zkd 0750 zkd zkd -\n") {
		t.Error("tmpfiles.conf does not make the folder for the data")
	}
	sample := string(read(t, "conf/zoo_sample.cfg"))
	if !strings.Contains(sample, "\ndataDir=/var/lib/zkd\n") {
		t.Error("the zoo.cfg of the package keeps its data elsewhere")
	}
	if strings.Contains(sample, "zoo_sample.cfg") {
		t.Error("the file, which the package has as zoo.cfg, names itself otherwise")
	}
}

// TestScriptsLeaveTheData looks for what would remove the data.
func TestScriptsLeaveTheData(t *testing.T) {
	for _, name := range []string{"postinstall", "preremove", "postremove"} {
		text := string(read(t, "conf/package/"+name+".sh"))
		if !strings.HasPrefix(text, "#!/bin/sh\n") || !strings.Contains(text, "\nset -e\n") {
			t.Errorf("%s.sh is no script of sh that stops at the first failure", name)
		}
		for _, word := range []string{"rm ", "userdel", "deluser"} {
			if strings.Contains(text, word) {
				t.Errorf("%s.sh has %q: the data and its owner stay", name, word)
			}
		}
	}
}
