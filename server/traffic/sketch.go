package traffic

import (
	"sort"
)

// sketch is a space-saving sketch: it keeps the keys of the greatest weight. Where there is no room for a new one it
// takes the place of the lightest, and its weight, which may be wrong by that much. So the weight of an entry is never
// less than what was added for its key, at most missed more, and whoever has more than the total weight divided by the
// number of entries is there.
type sketch[K comparable] struct {
	max     int
	clone   func(K) K     // of a key that is kept
	index   map[K]int32   // entries by key
	entries []sketched[K] // a heap by weight, the lightest first
}

// sketched is an entry.
type sketched[K comparable] struct {
	key    K
	weight uint64 // with what may not be its own
	missed uint64 // of weight, at most so much is not its own: and so much of its counts may be missing
	counts *Counts
}

// newSketch returns an empty sketch with room for so many entries.
func newSketch[K comparable](entriesMax int, clone func(K) K) sketch[K] {
	return sketch[K]{max: entriesMax, clone: clone}
}

// same is the clone of a key that refers to nothing.
func same[K comparable](k K) K { return k }

// add adds weight for key and returns what is counted of it, to be counted on. It is valid until the next add.
func (s *sketch[K]) add(key K, weight uint64) *Counts {
	if s.index == nil {
		s.index = map[K]int32{}
	}
	i, known := s.index[key]
	switch {
	case known:
		s.entries[i].weight += weight
	case len(s.entries) < s.max:
		i = int32(len(s.entries))
		key = s.clone(key)
		s.entries = append(s.entries, sketched[K]{key: key, weight: weight, counts: &Counts{}})
		s.index[key] = i
		s.up(i)
		return s.entries[s.index[key]].counts
	default:
		e := &s.entries[0]
		i = 0
		delete(s.index, e.key)
		e.key = s.clone(key)
		s.index[e.key] = 0
		e.missed = e.weight
		e.weight += weight
		*e.counts = Counts{}
	}
	counts := s.entries[i].counts
	s.down(i)
	return counts
}

// up moves an entry towards the root while it is lighter than what is above it.
func (s *sketch[K]) up(i int32) {
	for i > 0 {
		above := (i - 1) / 2
		if s.entries[above].weight <= s.entries[i].weight {
			return
		}
		s.swap(i, above)
		i = above
	}
}

// down moves an entry away from the root while it is heavier than what is below it.
func (s *sketch[K]) down(i int32) {
	n := int32(len(s.entries))
	for {
		least := i
		for below := 2*i + 1; below <= 2*i+2 && below < n; below++ {
			if s.entries[below].weight < s.entries[least].weight {
				least = below
			}
		}
		if least == i {
			return
		}
		s.swap(i, least)
		i = least
	}
}

// swap swaps two entries.
func (s *sketch[K]) swap(a, b int32) {
	s.entries[a], s.entries[b] = s.entries[b], s.entries[a]
	s.index[s.entries[a].key], s.index[s.entries[b].key] = a, b
}

// seal returns what is in the sketch, which is not used any more.
func (s *sketch[K]) seal() sealed[K] {
	out := sealed[K]{entries: s.entries}
	if len(s.entries) == s.max {
		out.floor = s.entries[0].weight
	}
	return out
}

// sealed is a sketch that does not change any more.
type sealed[K comparable] struct {
	entries []sketched[K]
	floor   uint64 // what a key that is not there weighs at most
}

// Row is what is known of one key in a window.
type Row[K comparable] struct {
	Key K
	Counts
	// Missed bounds what is missing: of requests, of notices, of writes that were applied, and of bytes in units of
	// UnitBytes, together. It is 0 as long as there was room for all keys.
	Missed uint64

	weight uint64
	floors uint64 // of the sketches that have the key
}

// merged are several sketches that were put together.
type merged[K comparable] struct {
	index  map[K]int
	rows   []Row[K]
	floors uint64 // of all of them
}

// add takes a sketch in.
func (m *merged[K]) add(s *sealed[K]) {
	m.floors += s.floor
	if m.index == nil && len(s.entries) > 0 {
		m.index = make(map[K]int, len(s.entries))
	}
	for i := range s.entries {
		e := &s.entries[i]
		at, known := m.index[e.key]
		if !known {
			at = len(m.rows)
			m.index[e.key] = at
			m.rows = append(m.rows, Row[K]{Key: e.key})
		}
		r := &m.rows[at]
		r.add(e.counts)
		r.weight += e.weight
		r.Missed += e.missed
		r.floors += s.floor
	}
}

// sorted returns the rows, the heaviest first, at most so many, and what a key that is not among them weighs at most.
func (m *merged[K]) sorted(rowsMax int, less func(a, b K) int) (rows []Row[K], floor uint64) {
	floor = m.floors
	for i := range m.rows {
		r := &m.rows[i]
		lacks := m.floors - r.floors // where it is not, it may have been just below what is there
		r.weight += lacks
		r.Missed += lacks
	}
	sort.Slice(m.rows, func(i, j int) bool {
		a, b := &m.rows[i], &m.rows[j]
		return a.weight > b.weight || a.weight == b.weight && less(a.Key, b.Key) < 0
	})
	if len(m.rows) > rowsMax {
		floor = max(floor, m.rows[rowsMax].weight)
		m.rows = m.rows[:rowsMax:rowsMax]
	}
	return m.rows, floor
}

// sealAgain returns them as one sketch.
func (m *merged[K]) sealAgain(entriesMax int, less func(a, b K) int) sealed[K] {
	rows, floor := m.sorted(entriesMax, less)
	out := sealed[K]{entries: make([]sketched[K], len(rows)), floor: floor}
	for i := range rows {
		r := &rows[i]
		counts := r.Counts // alone: the rows that are left out are not to be kept with it
		out.entries[i] = sketched[K]{key: r.Key, weight: r.weight, missed: r.Missed, counts: &counts}
	}
	return out
}
