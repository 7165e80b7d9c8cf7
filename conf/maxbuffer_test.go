package conf_test

import (
	"fmt"
	"strings"
	"testing"

	"zkd/conf"
	"zkd/quorum/batcher"
)

// TestRequestsThatCannotBeReplicatedAreRefused: a jute.maxbuffer that takes what no server can send another one is
// refused with the bound, however it is given.
func TestRequestsThatCannotBeReplicatedAreRefused(t *testing.T) {
	if room := batcher.ProposalBytesMax - conf.RequestBytesMax; room < 1<<20 {
		t.Errorf("the largest request leaves %d bytes for identities", room)
	}
	load := func(maxbuffer int, environ ...string) error {
		text := "dataDir=/d\nclientPort=2181\n"
		if maxbuffer > 0 {
			text += fmt.Sprintf("jute.maxbuffer=%d\n", maxbuffer)
		}
		_, err := conf.Load(conf.Sources{Text: []byte(text), Environ: environ})
		return err
	}
	if err := load(conf.RequestBytesMax); err != nil {
		t.Errorf("the bound itself: %v", err)
	}
	for name, err := range map[string]error{
		"in zoo.cfg":        load(conf.RequestBytesMax + 1),
		"as a JVM property": load(0, "SERVER_JVMFLAGS=-Djute.maxbuffer=104857600"),
	} {
		want := fmt.Sprintf("must be a whole number from 1 to %d", conf.RequestBytesMax)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
