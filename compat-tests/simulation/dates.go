package simulation

import (
	"cmp"
	"slices"

	"zkd/compat-tests/faults"
	"zkd/jute"
)

// checkDates sees to it that what was written later bears no earlier date, whichever server took it: clocks are wrong
// by less than a leader waits for.
func checkDates(tree faults.Tree, violated func(format string, args ...any)) {
	type date struct {
		zxid jute.Zxid
		at   jute.Millis
		path string
	}
	var dates []date
	for path, node := range tree { // order: sorted below
		s := node.Stat
		dates = append(dates, date{s.Czxid, s.Ctime, path}, date{s.Mzxid, s.Mtime, path})
	}
	slices.SortFunc(dates, func(a, b date) int {
		return cmp.Or(cmp.Compare(a.zxid, b.zxid), cmp.Compare(a.path, b.path))
	})
	for i := 1; i < len(dates); i++ {
		if a, b := dates[i-1], dates[i]; b.at < a.at {
			violated("%s was written at zxid %#x and bears date %d, %s at %#x and %d", a.path, a.zxid, a.at, b.path,
				b.zxid, b.at)
			return
		}
	}
}
