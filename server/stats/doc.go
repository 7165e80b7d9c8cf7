// Package stats holds the counters and summaries that a server keeps about itself and shows by mntr, srvr, cons and its
// metrics, in the kinds that ZooKeeper has (org.apache.zookeeper.metrics.impl.DefaultMetricsProvider): counters,
// summaries (average, minimum, maximum, count, sum) and summaries with percentiles.
//
// Every type is ready as its zero value, is updated with atomics alone, from any goroutine and without allocation, and
// may be read and reset at any time. A reader may see an update half done (the count before the sum); nobody is made to
// wait for statistics. The package knows no metric's name and nothing of what is measured: durations are milliseconds
// by ZooKeeper's convention, chosen by whoever adds them.
package stats
