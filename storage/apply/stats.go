package apply

import (
	"slices"
	"strconv"
	"strings"

	"zkd/storage/entry"
)

// StatsTrack is the text of a limits or stats znode (org.apache.zookeeper.StatsTrack): counts and limits, -1 if there
// is none.
type StatsTrack struct {
	Count, Bytes, CountHard, BytesHard int64
	// others are the pairs that zkd does not know, as ZooKeeper keeps them, sorted by key.
	others []statsPair
}

// statsPair is one more pair of a StatsTrack.
type statsPair struct {
	key   string
	value int64
}

// The keys of a StatsTrack.
const (
	countKey     = "count"
	bytesKey     = "bytes"
	countHardKey = "countHardLimit"
	bytesHardKey = "byteHardLimit"
)

// statsTextMax is how much of the text of a limits or stats znode is read, up to the last pair that is whole. It has
// some hundred bytes, and is read and written with each write below the quota, whoever has made it a megabyte.
const statsTextMax = 4 << 10

// ParseStatsTrack reads pairs "key=value" separated by ',' or ';'. Where ZooKeeper trips over what it cannot read
// (and answers that write with an error that is none), a value counts as -1.
func ParseStatsTrack(text []byte) StatsTrack {
	s := StatsTrack{Count: -1, Bytes: -1, CountHard: -1, BytesHard: -1}
	rest := entry.ViewString(text)
	if len(rest) > statsTextMax {
		rest = rest[:max(0, strings.LastIndexAny(rest[:statsTextMax], ",;"))]
	}
	for rest != "" {
		end := strings.IndexAny(rest, ",;")
		pair := rest
		if end < 0 {
			rest = ""
		} else {
			pair, rest = rest[:end], rest[end+1:]
		}
		if key, value, _ := strings.Cut(pair, "="); key != "" {
			value, _, _ = strings.Cut(value, "=") // the stray '=' behind the bytes
			s.set(key, value)
		}
	}
	return s
}

// set takes one pair.
func (s *StatsTrack) set(key, value string) {
	v, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		v = -1
	}
	switch key {
	case countKey:
		s.Count = v
	case bytesKey:
		s.Bytes = v
	case countHardKey:
		s.CountHard = v
		s.setOther(key, v)
	case bytesHardKey:
		s.BytesHard = v
		s.setOther(key, v)
	default:
		s.setOther(key, v)
	}
}

// setOther keeps a pair that is written behind count and bytes.
func (s *StatsTrack) setOther(key string, v int64) {
	byKey := func(p statsPair, key string) int { return strings.Compare(p.key, key) }
	i, found := slices.BinarySearchFunc(s.others, key, byKey)
	if found {
		s.others[i].value = v
		return
	}
	s.others = slices.Insert(s.others, i, statsPair{key, v})
}

// textBytesMax is at least the length of the text.
func (s *StatsTrack) textBytesMax() int {
	n := len("count=,bytes==") + 2*20
	for i := range s.others {
		n += len(s.others[i].key) + 2 + 20
	}
	return n
}

// Append adds the text as StatsTrack.toString writes it: count and bytes first, the rest behind a '=' at which old
// parsers stop.
func (s *StatsTrack) Append(b []byte) []byte {
	b = strconv.AppendInt(append(b, "count="...), s.Count, 10)
	b = strconv.AppendInt(append(b, ",bytes="...), s.Bytes, 10)
	if len(s.others) > 0 {
		b = append(b, '=')
	}
	for i := range s.others {
		b = append(append(b, ';'), s.others[i].key...)
		b = strconv.AppendInt(append(b, '='), s.others[i].value, 10)
	}
	return b
}
