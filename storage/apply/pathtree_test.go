package apply

import (
	"math/rand/v2"
	"slices"
	"testing"

	"zkd/storage/schema"
)

// TestPathTree compares a pathTree with a map of the paths, whose ancestors are looked up one by one.
func TestPathTree(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	path := func() (p string) {
		for range random.IntN(6) {
			p += "/" + string(rune('a'+random.IntN(3)))
		}
		if p == "" {
			return schema.RootPath
		}
		return p
	}
	var tree pathTree[int]
	is := map[string]int{}
	for step := range 20_000 {
		p := path()
		if random.IntN(2) == 0 {
			tree.put(p, step, false)
			is[p] = step
		} else {
			tree.drop(p)
			delete(is, p)
		}
		p = path()
		var want []foundPath[int]
		above := []string{p}
		schema.EachAbove(p, func(path string) { above = append(above, path) })
		for _, path := range slices.Backward(above) {
			if v, ok := is[path]; ok {
				want = append(want, foundPath[int]{len(path), v})
			}
		}
		if got := tree.upTo(p, nil); !slices.Equal(got, want) {
			t.Fatalf("step %d: %s has %v above it, want %v", step, p, got, want)
		}
		if tree.count != len(is) {
			t.Fatalf("step %d: %d paths, want %d", step, tree.count, len(is))
		}
	}
	var all []int
	tree.each(func(v int) { all = append(all, v) })
	slices.Sort(all)
	values := make([]int, 0, len(is))
	for _, v := range is { // order: sorted below
		values = append(values, v)
	}
	slices.Sort(values)
	if !slices.Equal(all, values) {
		t.Errorf("each tells %v, want %v", all, values)
	}
	for p := range is { // order: any
		tree.drop(p)
	}
	if len(tree.root.below) > 0 || tree.root.is {
		t.Errorf("of an empty tree %v is left", tree.root)
	}
}
