package state

import (
	"zkd/storage/apply"
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
	all, err := apply.QuotasOf(v.at.scanRange)
	if err != nil {
		v.at.m.fail(err)
		return
	}
	paths := all.All()
	for _, path := range paths[:min(most, len(paths))] {
		q := Quota{Path: path}
		if path == schema.RootPath {
			path = ""
		}
		if n, ok := v.Get(schema.LimitsPrefix + path + schema.LimitsName); ok {
			limits := apply.ParseStatsTrack(n.Data())
			q.CountLimit, q.BytesLimit = limits.Count, limits.Bytes
			if limits.CountHard > -1 {
				q.CountLimit = limits.CountHard
			}
			if limits.BytesHard > -1 {
				q.BytesLimit = limits.BytesHard
			}
		}
		if n, ok := v.Get(schema.LimitsPrefix + path + schema.StatsName); ok {
			stats := apply.ParseStatsTrack(n.Data())
			q.Count, q.Bytes = stats.Count, stats.Bytes
		}
		f(q)
	}
}
