package faults

import (
	"fmt"
	"strings"
	"testing"
)

// holdsHonest are turns that nothing is wrong with.
func holdsHonest() []Hold {
	return []Hold{
		{Client: 1, Token: 10, Before: textAtFirst, Text: "a", Zxid: 11, Outcome: Done},
		{Client: 3, Token: 15, Before: "b", Text: "d", Zxid: 16, Outcome: Done},
		{Client: 2, Token: 12, Before: "a", Text: "b", Outcome: Unknown},
		{Client: 2, Token: 13, Before: "a", Text: "c", Outcome: Refused},
		{Client: 3, Token: 15, Before: "d", Text: "e", Zxid: 17, Outcome: Done},
	}
}

func TestLockLies(t *testing.T) {
	tests := map[string]struct {
		lie  func(all []Hold)
		want string // "" for what is true
	}{
		"none":                         {func([]Hold) {}, ""},
		"unknown one has not happened": {func(all []Hold) { all[1].Before = "a" }, ""},
		"lost update":                  {func(all []Hold) { all[4].Before = "b" }, "a client found"},
		"two at once":                  {func(all []Hold) { all[1].Before = textAtFirst }, "a client found"},
		"refused one has happened":     {func(all []Hold) { all[1].Before = "c" }, "a client found"},
		"earlier lock later":           {func(all []Hold) { all[4].Token = 9 }, "used later"},
		"one lock, two clients":        {func(all []Hold) { all[4].Client = 4 }, "have one token"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			all, got := holdsHonest(), ""
			test.lie(all)
			CheckHolds(all, func(format string, args ...any) { got += fmt.Sprintf(format, args...) })
			if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
				t.Errorf("found %q, want %q in it", got, test.want)
			}
		})
	}
}
