package simulation

import (
	"strings"
	"testing"

	"zkd/compat-tests/faults"
)

// TestKnobSources: each knob is a constant of the sources as they are, and can be set beside all plants.
func TestKnobSources(t *testing.T) {
	all := knobs()
	if _, err := changedSources("../..", plants(), all, costPatches()); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i := range all {
		k := &all[i]
		if seen[k.Key()] {
			t.Errorf("%s is there twice", k.Key())
		}
		seen[k.Key()] = true
	}
}

// TestKnobPatches: a constant becomes a variable, one that is computed from it follows, and one that is not there any
// more is named.
func TestKnobPatches(t *testing.T) {
	read := func(knobs ...Knob) (map[string]string, error) { return changedSources("testdata", nil, knobs, nil) }
	changed, err := read(Knob{"limits/limits.go", "most", "int", of(1)}, Knob{"limits/limits.go", "half", "int64", nil})
	if err != nil {
		t.Fatal(err)
	}
	text := changed["testdata/limits/limits.go"]
	for _, want := range []string{"_ ", "= 1 << 10 // of all", `var most = int(knob("limits.most", int64(1 << 10)))`,
		"const _ = 0\n", "var half = int64(most / 2)"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if !strings.HasPrefix(changed["testdata/limits/knobs.go"], "package limits\n") {
		t.Error("the package has nothing that reads its knobs")
	}
	if _, err := read(Knob{"limits/limits.go", "other", "int", of(1)}); err == nil ||
		!strings.Contains(err.Error(), "limits.other") {
		t.Errorf("a knob without its constant: %v", err)
	}
}

// TestDrawKnobs: plans have knobs at times, each of them comes, and a process is told of all.
func TestDrawKnobs(t *testing.T) {
	const plans = 500
	some, seen := 0, map[string]map[int64]bool{}
	for seed := range uint64(plans) {
		drawn := drawKnobs(&Plan{Seed: seed})
		if len(drawn) > 0 {
			some++
		}
		for key, value := range drawn { // order: each for itself
			if seen[key] == nil {
				seen[key] = map[int64]bool{}
			}
			seen[key][value] = true
		}
	}
	if some < plans/4 || some > plans/2 {
		t.Errorf("%d of %d plans have knobs", some, plans)
	}
	all := knobs()
	for i := range all {
		if k := &all[i]; len(seen[k.Key()]) != len(k.Values) {
			t.Errorf("%s: drawn are %v of %v", k.Key(), seen[k.Key()], k.Values)
		}
	}
	meets := []Plan{{Settings: []string{"zkd.snapshotRate=4096"}}, {Settings: []string{"zkd.log.retainBytes=1024"}},
		{Stays: &Deed{What: SlowLines}}, {Roles: []faults.Cast{{Role: faults.Large}}}}
	if len(meets) != len(unsuited) {
		t.Fatalf("there are %d rules", len(unsuited))
	}
	for i, u := range unsuited {
		for _, key := range u.knobs {
			if len(seen[key]) == 0 {
				t.Errorf("%s is no knob", key)
			}
			for seed := range uint64(plans) {
				p := meets[i]
				p.Seed = seed
				if _, ok := drawKnobs(&p)[key]; ok {
					t.Fatalf("seed %d has %s, of rule %d", seed, key, i)
				}
			}
		}
	}
	if text := knobsText(map[string]int64{"b.two": 2, "a.one": 1}); text != "a.one=1,b.two=2" {
		t.Errorf("a process is told %q", text)
	}
}
