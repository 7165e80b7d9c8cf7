package faults

import (
	"fmt"
	"strings"
	"testing"
)

func TestLargeLies(t *testing.T) {
	tests := map[string]struct {
		read Value
		want string // "" for what is true
	}{
		"the last":             {Value{Number: 2, Call: 25, Ret: 26}, ""},
		"the one in doubt":     {Value{Number: 3, Call: 35, Ret: 36}, ""},
		"before it":            {Value{Number: 2, Call: 35, Ret: 36}, ""},
		"the first":            {Value{Number: 0, Call: 5, Ret: 6}, ""},
		"older":                {Value{Number: 1, Call: 25, Ret: 26}, "older than"},
		"not whole":            {Value{Number: -1, Call: 25, Ret: 26}, "not whole"},
		"not yet written":      {Value{Number: 3, Call: 25, Ret: 26}, "nobody had written"},
		"one that was refused": {Value{Number: 4, Call: 45, Ret: 46}, "nobody had written"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := ""
			test.read.Read, test.read.Outcome = true, Done
			CheckValues([]Value{
				{Number: 1, Call: 10, Ret: 11, Outcome: Done}, {Number: 2, Call: 20, Ret: 21, Outcome: Done},
				{Number: 3, Call: 30, Ret: 31, Outcome: Unknown}, {Number: 4, Call: 40, Ret: 41, Outcome: Declined},
				test.read,
			}, func(format string, args ...any) { got += fmt.Sprintf(format, args...) })
			if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
				t.Errorf("found %q, want %q in it", got, test.want)
			}
		})
	}
	l := newLarge(part{})
	value := l.value(3, 14)
	for what, changed := range map[string]string{"short": value[:len(value)-1], "another's": "4" + value[1:],
		"damaged": value[:1000] + "x" + value[1001:], "empty": ""} {
		if l.numberOf(3, changed) != -1 {
			t.Errorf("a value that is %s is taken for whole", what)
		}
	}
	if l.numberOf(3, value) != 14 || len(value) < LargeMost/4 || len(value) >= LargeMost {
		t.Errorf("a value of %d bytes is number %d", len(value), l.numberOf(3, value))
	}
}
