package daemon

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/amberfs/amberfs/fusefs"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/info"
)

// metrics serves metrics of the store and of the kernel's requests to Prometheus. Daemon.metrics is nil
// without the mount option metrics.
type metrics struct {
	mount *mount
	store *snapshot.Store
	crash *crash
	log   *slog.Logger

	http          *http.Server
	took          *prometheus.HistogramVec
	read, written prometheus.Counter
}

func newMetrics(mount *mount, s *snapshot.Store, c *crash, log *slog.Logger) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "amberfs", Name: name, Help: help})
	}
	m := &metrics{
		mount: mount, store: s, crash: c, log: log,
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "amberfs", Name: "request_duration_seconds",
			Help:    "Histogram of the time from reading a request to answering it, by FUSE operation.",
			Buckets: prometheus.ExponentialBuckets(1e-6, 2, 21), // up to 1 s
		}, []string{"op"}),
		read:    counter("read_bytes_total", "Bytes that the kernel read. Repeated reads are served by its cache."),
		written: counter("written_bytes_total", "Bytes that the kernel wrote."),
	}

	m.http = &http.Server{Handler: m.handler(), ReadHeaderTimeout: 5 * time.Second}
	return m
}

// serveMetrics begins to serve metrics, if the mount option is set. In a takeover it does not wait for
// the port, which the earlier daemon may have until it has ended.
func (d *Daemon) serveMetrics() error {
	if d.cfg.Options.Metrics == "" {
		return nil
	}
	d.metrics = newMetrics(d.mount, d.store, &d.crash, d.log)
	listen := func() error { return d.metrics.listen(d.cfg.Options.Metrics) }
	if d.cfg.takesOver() != nil {
		d.background.retry("serving metrics", listen)
		return nil
	}

	return listen()
}

func (m *metrics) listen(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return errs.Fail(errs.ScriptKind(err), "cannot serve metrics: %w", err).WithHint("choose another address after metrics=")
	}

	go func() {
		if err := m.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			m.log.Warn("metrics", "err", err)
		}
	}()

	m.log.Info("metrics", "address", l.Addr().String())

	return nil
}

// handler returns the HTTP handler of /metrics.
func (m *metrics) handler() http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(m, m.took, m.read, m.written, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(
			collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/(sync/mutex/wait/total|gc/heap/live):`)})))
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))

	return mux
}

// add counts a request.
func (m *metrics) add(a fusefs.AnsweredRequest) {
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

// Describe implements prometheus.Collector. It sends no descriptions, because the labels are known only
// in Collect.
func (*metrics) Describe(chan<- *prometheus.Desc) {}

// Collect reads the metrics of the store when they are requested.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	if !m.mount.isUp() {
		return
	}

	// The library collects on a goroutine of its own.
	guard.Call(m.log, "metrics", func() { collect(ch, m.mount.server.Counters(), m.store.Main().Status(), m.crash.survival()) })
}

// collect sends the metrics of a store. requests are the counters of fusefs.Server.
func collect(ch chan<- prometheus.Metric, requests map[string]uint64, st info.Status, crashes service.Survival) {
	// label is empty, or the name and the value of a label.
	send := func(kind prometheus.ValueType, name, help string, v float64, label []string) {
		var names []string
		if len(label) > 0 {
			names, label = label[:1], label[1:]
		}

		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc("amberfs_"+name, help, names, nil), kind, v, label...)
	}

	gauge := func(name, help string, v int64, label ...string) {
		send(prometheus.GaugeValue, name, help, float64(v), label)
	}
	count := func(name, help string, v int64, label ...string) {
		send(prometheus.CounterValue, name, help, float64(v), label)
	}
	for op, n := range requests {
		if op != "NODES" {
			count("requests_total", "Requests from the kernel, by FUSE operation.", int64(n), "op", op)
		}
	}

	ops := st.Metrics
	for _, o := range []struct {
		name string
		n    int64
		ms   float64
	}{
		{"snapshot", ops.Snapshots, ops.LastSnapshotMs}, {"restore", ops.Restores, ops.LastRestoreMs}, {"fork", ops.Forks, ops.LastForkMs},
		{"store", ops.Stored, ops.LastStoreMs}, {"checkpoint", ops.Checkpoints, ops.LastCheckpoint}, {"gc", ops.GarbageCollects, -1},
	} {
		count("operations_total", "Operations done: snapshot, restore, fork, store (a snapshot), checkpoint, gc.", o.n, "operation", o.name)
		if o.ms >= 0 {
			send(prometheus.GaugeValue, "last_operation_seconds", "Duration of the last operation.", o.ms/1000, []string{"operation", o.name})
		}
	}

	count("checkpoints_failed_total", "Checkpoints that failed; the journal has what they would have stored.", ops.CheckpointsFailed)
	count("restarts_total", "Daemons of this mount before this one.", int64(crashes.Restarts))
	send(prometheus.GaugeValue, "last_pause_seconds", "How long programs waited for this daemon after the one before.", crashes.Pause, nil)
	gauge("snapshots", "Snapshots of main.", int64(st.Snapshots), "workspace", st.Workspace)
	gauge("files", "Files of main.", st.Files, "workspace", st.Workspace)
	gauge("logical_bytes", "Sum of the file sizes of main.", st.LogicalBytes, "workspace", st.Workspace)
	gauge("snapshots_not_stored", "Snapshots that are not stored yet.", int64(st.NotStored))
	count("packed_bytes_total", "Bytes that storing snapshots added to packs.", ops.PackedBytes)
	gauge("stored_bytes", "Size of the packs on disk.", st.StoredBytes)
	gauge("chunk_bytes", "Contents of the packs before compression.", st.ChunkBytes)
	gauge("objects", "Objects in the packs.", st.Objects)
	gauge("journal_bytes", "Size of the journal.", st.JournalBytes)
	count("journal_records_total", "Records written to the journal since the store was created.", int64(st.Records))
	gauge("cache_bytes", "Decoded pages and chunks in memory.", st.CacheBytes)
	gauge("disk_free_bytes", "Bytes that can still be written.", st.DiskFreeBytes)
	gauge("nodes", "Inodes that the kernel knows.", int64(requests["NODES"]))
	frozen := int64(0)
	if st.Frozen {
		frozen = 1
	}

	gauge("frozen", "1 during a freeze, else 0.", frozen)
}
