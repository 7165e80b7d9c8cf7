package storage

import (
	"maps"
	"slices"

	"zkd/storage/schema"
)

// Quota is what one quota allows and counts; -1 for no limit. A hard limit comes before a soft one.
type Quota struct {
	Path                   string
	CountLimit, BytesLimit int64
	Count, Bytes           int64
}

// Quotas calls f for the quotas, most of them at the most, in the order of their paths.
func (v View) Quotas(most int, f func(Quota)) {
	all, err := quotasOf(v.at)
	if err != nil {
		v.at.m.fail(err)
		return
	}
	paths := slices.Sorted(maps.Keys(all))
	for _, path := range paths[:min(most, len(paths))] {
		q := Quota{Path: path}
		if path == schema.RootPath {
			path = ""
		}
		if n, ok := v.Get(schema.LimitsPrefix + path + schema.LimitsName); ok {
			limits := parseStatsTrack(n.Data())
			q.CountLimit, q.BytesLimit = limits.count, limits.bytes
			if limits.countHard > -1 {
				q.CountLimit = limits.countHard
			}
			if limits.bytesHard > -1 {
				q.BytesLimit = limits.bytesHard
			}
		}
		if n, ok := v.Get(schema.LimitsPrefix + path + schema.StatsName); ok {
			stats := parseStatsTrack(n.Data())
			q.Count, q.Bytes = stats.count, stats.bytes
		}
		f(q)
	}
}
