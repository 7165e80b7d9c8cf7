package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"zkd/jute"
)

// watchingHonest is what was told on a connection that nothing is wrong with.
func watchingHonest() *Watching {
	return &Watching{Since: 10, Watches: []Standing{{"/w", true}, {"/w/a", false}}, Told: []Told{
		{Event: jute.EventNone, Path: "/w/a", Zxid: 10, Exists: true, Stat: jute.Stat{Czxid: 1, Mzxid: 9, Version: 4}},
		{Event: jute.EventNodeDataChanged, Path: "/w/a", Zxid: 11},
		{Event: jute.EventNodeCreated, Path: "/w/a/x", Zxid: 12},
		{Event: jute.EventNodeChildrenChanged, Path: "/w/a", Zxid: 12},
		{Event: jute.EventNone, Path: "/w/a", Zxid: 12, Exists: true,
			Stat: jute.Stat{Czxid: 1, Mzxid: 11, Pzxid: 12, Version: 5}},
		{Event: jute.EventNone, Path: "/w/a/x", Zxid: 12, Exists: true,
			Stat: jute.Stat{Czxid: 12, Mzxid: 12, Pzxid: 12}},
		{Event: jute.EventNodeDeleted, Path: "/w/a/x", Zxid: 14},
		{Event: jute.EventNone, Path: "/w/a/x", Zxid: 14},
	}}
}

func TestWatchingLies(t *testing.T) {
	without := func(i int) func(*Watching) { return func(w *Watching) { w.Told = slices.Delete(w.Told, i, i+1) } }
	tests := map[string]struct {
		lie  func(w *Watching)
		want string // "" for what is true
	}{
		"none":            {func(*Watching) {}, ""},
		"change not told": {without(1), "not told before"},
		"create not told": {func(w *Watching) { w.Told = slices.Delete(w.Told, 2, 4) },
			"the children was not told"},
		"delete not told": {without(6), "a delete was not told"},
		"change told late": {func(w *Watching) { w.Told[1], w.Told[4] = w.Told[4], w.Told[1] },
			"not told before"},
		"event twice":            {func(w *Watching) { w.Told = slices.Insert(w.Told, 2, w.Told[1]) }, "twice"},
		"event out of order":     {func(w *Watching) { w.Told[1], w.Told[2] = w.Told[2], w.Told[1] }, "out of order"},
		"event without a zxid":   {func(w *Watching) { w.Told[1].Zxid = -1 }, "without a zxid"},
		"event without a watch":  {func(w *Watching) { w.Told[1].Path = "/v" }, "without a watch"},
		"children of another":    {func(w *Watching) { w.Told[3].Path = "/w" }, "without a watch"},
		"change in between":      {func(w *Watching) { w.Told[4].Stat.Version = 6 }, "1 changes were told"},
		"answer before an event": {func(w *Watching) { w.Told[4].Zxid = 11 }, "from before an event"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w, got := watchingHonest(), ""
			test.lie(w)
			CheckWatching(w, func(format string, args ...any) { got += fmt.Sprintf(format, args...) })
			if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
				t.Errorf("found %q, want %q in it", got, test.want)
			}
		})
	}
}
