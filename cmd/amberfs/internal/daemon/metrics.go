package daemon

import (
	"errors"
	"net"
	"net/http"
	"regexp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/amberfs/amberfs/fusefs"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/internal/guard"
)

// metrics are those of the store and of the kernel's requests, for Prometheus. They are nil
// without the mount option.
type metrics struct {
	d             *Daemon
	http          *http.Server
	took          *prometheus.HistogramVec
	read, written prometheus.Counter
}

func newMetrics(d *Daemon) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "amberfs", Name: name, Help: help})
	}
	return &metrics{
		d: d,
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "amberfs", Name: "request_duration_seconds",
			Help:    "Histogram of the time from reading a request to answering it, by FUSE operation.",
			Buckets: prometheus.ExponentialBuckets(1e-6, 2, 21), // up to 1 s
		}, []string{"op"}),
		read:    counter("read_bytes_total", "Bytes that the kernel read. Repeated reads are served by its cache."),
		written: counter("written_bytes_total", "Bytes that the kernel wrote."),
	}
}

func (d *Daemon) serveMetrics() (*metrics, error) {
	if d.cfg.Options.Metrics == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", d.cfg.Options.Metrics)
	if err != nil {
		return nil, fail.New(fail.KindOf(err), "cannot serve metrics: %w", err).WithHint("choose another address after metrics=")
	}
	m := newMetrics(d)
	reg := prometheus.NewRegistry()
	reg.MustRegister(m, m.took, m.read, m.written, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(
			collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/(sync/mutex/wait/total|gc/heap/live):`)})))
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	m.http = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := m.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			d.log.Warn("metrics", "err", err)
		}
	}()
	d.log.Info("metrics", "address", l.Addr().String())
	return m, nil
}

func (m *metrics) add(a fusefs.Answered) {
	if a.Op != "" {
		m.took.WithLabelValues(a.Op).Observe(a.Took.Seconds())
	}
	m.read.Add(float64(a.Read))
	m.written.Add(float64(a.Written))
}

func (m *metrics) close() {
	if m != nil {
		m.http.Close()
	}
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("amberfs_"+name, help, labels, nil)
}

var (
	descRequests   = desc("requests_total", "Requests from the kernel, by FUSE operation.", "op")
	descDone       = desc("operations_total", "Operations done: snapshot, restore, fork, store (a snapshot), checkpoint, gc.", "operation")
	descLast       = desc("last_operation_seconds", "Duration of the last operation.", "operation")
	descSnapshots  = desc("snapshots", "Snapshots of main.", "workspace")
	descFiles      = desc("files", "Files of main.", "workspace")
	descLogical    = desc("logical_bytes", "Sum of the file sizes of main.", "workspace")
	descNotStored  = desc("snapshots_not_stored", "Snapshots that are not stored yet.")
	descPacked     = desc("packed_bytes_total", "Bytes that storing snapshots added to packs.")
	descStored     = desc("stored_bytes", "Size of the packs on disk.")
	descChunks     = desc("chunk_bytes", "Contents of the packs before compression.")
	descObjects    = desc("objects", "Objects in the packs.")
	descJournal    = desc("journal_bytes", "Size of the journal.")
	descRecords    = desc("journal_records_total", "Records written to the journal since the store was created.")
	descCache      = desc("cache_bytes", "Decoded pages and chunks in memory.")
	descFree       = desc("disk_free_bytes", "Bytes that can still be written.")
	descNodes      = desc("nodes", "Inodes that the kernel knows.")
	descFrozen     = desc("frozen", "1 during a freeze, else 0.")
	allDescriptors = []*prometheus.Desc{
		descRequests, descDone, descLast, descSnapshots, descFiles, descLogical, descNotStored, descPacked, descStored,
		descChunks, descObjects, descJournal, descRecords, descCache, descFree, descNodes, descFrozen,
	}
)

// Describe and Collect are of the store's, which are read when they are requested.
func (*metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range allDescriptors {
		ch <- d
	}
}

func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	select {
	case <-m.d.up:
	default:
		return
	}
	// The library collects on a goroutine of its own.
	guard.Call(m.d.log, "metrics", func() { m.collect(ch) })
}

func (m *metrics) collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	for op, n := range m.d.mount.Counters() {
		if op == "NODES" {
			gauge(descNodes, float64(n))
		} else {
			count(descRequests, float64(n), op)
		}
	}
	st := m.d.store.Main().Status()
	gauge(descSnapshots, float64(st.Snapshots), st.Workspace)
	gauge(descFiles, float64(st.Files), st.Workspace)
	gauge(descLogical, float64(st.LogicalBytes), st.Workspace)
	gauge(descStored, float64(st.StoredBytes))
	gauge(descChunks, float64(st.ChunkBytes))
	gauge(descObjects, float64(st.Objects))
	gauge(descJournal, float64(st.JournalBytes))
	count(descRecords, float64(st.Records))
	gauge(descNotStored, float64(st.NotStored))
	gauge(descCache, float64(st.CacheBytes))
	gauge(descFree, float64(st.DiskFreeBytes))
	frozen := 0.0
	if st.Frozen {
		frozen = 1
	}
	gauge(descFrozen, frozen)
	ops := st.Metrics
	for _, o := range []struct {
		name string
		n    int64
		ms   float64
	}{
		{"snapshot", ops.Snapshots, ops.LastSnapshotMs}, {"restore", ops.Restores, ops.LastRestoreMs}, {"fork", ops.Forks, ops.LastForkMs},
		{"store", ops.Stored, ops.LastStoreMs}, {"checkpoint", ops.Checkpoints, ops.LastCheckpoint},
	} {
		count(descDone, float64(o.n), o.name)
		gauge(descLast, o.ms/1000, o.name)
	}
	count(descDone, float64(ops.GarbageCollects), "gc")
	count(descPacked, float64(ops.PackedBytes))
}
