package instance

import (
	"context"
	"net/http"
	"time"

	"zkd/server/admin"
	"zkd/server/stats"
	"zkd/server/stats/catalog"
)

// figures are what the process measures itself.
type figures struct {
	opening    stats.Histogram // milliseconds to open the stores
	slowFsyncs stats.Counter   // beyond fsync.warningthresholdms
	scrubs     scrubFigures
}

// metricsIdle is for how long a client of the metrics' port may say nothing. A guess: twice what scrapers wait.
const metricsIdle = 2 * time.Minute

// metricsPage is the page for Prometheus.
func (i *Instance) metricsPage() (http.Handler, error) {
	return admin.NewPage(admin.PageOptions{Clock: i.world.Clock, Logger: i.logger, Metrics: i.server.SetMetrics,
		Runtime: i.config.Metrics.Runtime})
}

// openMetrics opens the ports of the metrics (metricsProvider.httpPort and httpsPort).
func (i *Instance) openMetrics(ctx context.Context, page http.Handler) error {
	m := &i.config.Metrics
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", page)
	o := admin.PortOptions{Handler: mux, Clock: i.world.Clock, Logger: i.logger, IdleTimeout: metricsIdle}
	if m.Port >= 0 && m.Port != m.TLSPort {
		if err := i.operators.open(ctx, "metrics", admin.NewPort(o), joinPort(m.Host, m.Port)); err != nil {
			return err
		}
	}
	if m.TLSPort < 0 {
		return nil
	}
	end := operatorsEnd(m.TLS, m.NeedClientAuth)
	var err error
	if o.TLS, err = i.operatorTLS(&end, "metricsProvider.ssl."); err != nil {
		return err
	}
	o.Unified = m.Port == m.TLSPort
	return i.operators.open(ctx, "metrics", admin.NewPort(o), joinPort(m.Host, m.TLSPort))
}

// setMetrics sets what the server itself does not know: the stores, the streams to other members, the admin server.
func (i *Instance) setMetrics(v *catalog.Values) {
	v.SetKeyed("zkd_build_info", i.build(), 1)
	v.SetHistogram("dbinittime", &i.figures.opening)
	v.Set("zkd_slow_fsyncs_total", i.figures.slowFsyncs.Load())
	v.Set("zkd_agreed_index", int64(i.machine.AgreedIndex()))
	i.figures.scrubs.set(v)
	v.Set("zkd_quotas_counting", int64(i.machine.CountingQuotas()))
	log := i.log.Metrics()
	v.SetKeyed("zkd_store_bytes", "raftlog", int64(log.DiskBytes))
	v.SetKeyed("zkd_store_memory_bytes", "raftlog", log.TailBytes)
	v.SetKeyed("zkd_store_files", "raftlog", log.WALFiles)
	v.SetKeyed("zkd_store_written_bytes_total", "raftlog",
		int64(log.WALBytesWritten+log.FlushedBytes+log.CompactedBytes))
	state := i.machine.Metrics()
	v.SetKeyed("zkd_store_bytes", "state", int64(state.DiskBytes))
	v.SetKeyed("zkd_store_memory_bytes", "state", state.MemoryBytes)
	v.SetKeyed("zkd_store_files", "state", state.Tables)
	v.SetKeyed("zkd_store_written_bytes_total", "state", int64(state.WrittenBytes))
	v.Set("zkd_cache_bytes", state.CacheBytes)
	v.Set("zkd_cache_entries", state.CacheEntries)
	v.Set("zkd_cache_hits_total", int64(state.CacheHits))
	v.Set("zkd_cache_misses_total", int64(state.CacheMisses))
	v.Set("zkd_list_cache_bytes", state.ListBytes)
	v.Set("zkd_list_cache_entries", state.Lists)
	v.Set("response_packet_get_children_cache_hits", int64(state.ListHits))
	v.Set("response_packet_get_children_cache_misses", int64(state.ListMisses))
	setDiskMetrics(v, i.guard.Volumes(), &i.config.Storage)
	if i.peers != nil {
		i.peers.SetMetrics(v)
	}
	if i.admin != nil {
		i.admin.SetMetrics(v)
	}
}
