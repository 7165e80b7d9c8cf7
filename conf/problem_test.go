package conf

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
)

func TestSecretsAreHidden(t *testing.T) {
	for _, k := range newTable().rows {
		s := setting{row: &k, value: "hunter2", source: "zoo.cfg:1"}
		shown := s.problem("x").String() + s.notice(NoticeAdjusted, "x").Message
		secret := strings.Contains(strings.ToLower(k.name), "password") || strings.Contains(k.name, "superDigest")
		if secret = secret && !strings.HasSuffix(k.name, "passwordPath"); secret == strings.Contains(shown, "hunter2") {
			t.Errorf("%s: secret %t, shown as %q", k.name, secret, shown)
		}
	}
}

func TestErrorText(t *testing.T) {
	one := Problem{Key: "tickTime", Source: "zoo.cfg:3", Value: "x", Allowed: "must be a number"}
	other := Problem{Key: "dataDir", Allowed: "must be set"}
	odd := Problem{Key: "a", Source: "flag a", Value: "line\nbreak\xff", Allowed: "no"}
	long := Problem{Key: "a", Value: strings.Repeat("é", 150), Allowed: "no"}
	for want, err := range map[string]Errors{ // any order: each by itself
		"configuration: zoo.cfg:3: tickTime=x: must be a number":                                       {one},
		"configuration: 2 problems\n  zoo.cfg:3: tickTime=x: must be a number\n  dataDir: must be set": {one, other},
		`configuration: flag a: a="line\nbreak\xff": no`:                                               {odd},
		"configuration: a=" + strings.Repeat("é", 100) + "…: no":                                       {long},
	} {
		if got := err.Error(); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}

func TestLoadTellsWhyFileCannotBeRead(t *testing.T) {
	_, err := Load(Sources{Path: "/etc/zoo.cfg"})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "/etc/zoo.cfg") {
		t.Errorf("got %v, want one that names the file and is fs.ErrNotExist", err)
	}
	read := func(name string) ([]byte, error) {
		if name == "/etc/zoo.cfg" {
			return []byte("dataDir=/d\nclientPort=2182"), nil
		}
		return nil, fs.ErrNotExist
	}
	config, err := Load(Sources{Path: "/etc/zoo.cfg", ReadFile: read})
	if err != nil {
		t.Fatal(err)
	}
	if config.File != "/etc/zoo.cfg" || config.Client.Addr != ":2182" {
		t.Errorf("got file %q and address %q", config.File, config.Client.Addr)
	}
}

// TestLoadKeepsNothing checks that a Config does not change with what it was made of.
func TestLoadKeepsNothing(t *testing.T) {
	text := []byte("dataDir=/d\nclientPort=2181\n4lw.commands.whitelist=ruok,stat\nunknown=1\n")
	flags := map[string]string{"maxCnxns": "5"}
	config, err := Load(Sources{Text: text, Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	before := fmt.Sprintf("%+v", *config)
	for i := range text {
		text[i] = 'x'
	}
	flags["maxCnxns"] = "6"
	if after := fmt.Sprintf("%+v", *config); after != before {
		t.Errorf("the configuration changed from\n%s\nto\n%s", before, after)
	}
}
