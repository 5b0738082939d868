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

// metricsServer serves metrics to Prometheus. It is nil without the mount option.
type metricsServer struct {
	http    *http.Server
	answers *answerMetrics
	done    chan struct{}
}

func (d *Daemon) serveMetrics() (*metricsServer, error) {
	if d.cfg.Options.Metrics == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", d.cfg.Options.Metrics)
	if err != nil {
		return nil, fail.New(fail.KindOf(err), "cannot serve metrics: %w", err).WithHint("choose another address after metrics=")
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(collector{d}, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(
			collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/(sync/mutex/wait/total|gc/heap/live):`)})))
	answers := newAnswerMetrics()
	reg.MustRegister(answers.collectors()...)
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	m := &metricsServer{
		http:    &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second},
		answers: answers,
		done:    make(chan struct{}),
	}
	go func() {
		defer close(m.done)
		if err := m.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			d.log.Warn("metrics", "err", err)
		}
	}()
	d.log.Info("metrics", "address", l.Addr().String())
	return m, nil
}

// answerMetrics are those of the kernel's requests.
type answerMetrics struct {
	took          *prometheus.HistogramVec
	read, written prometheus.Counter
}

func newAnswerMetrics() *answerMetrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "amberfs", Name: name, Help: help})
	}
	return &answerMetrics{
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "amberfs", Name: "request_duration_seconds",
			Help:    "Histogram of the time from reading a request to answering it, by FUSE operation.",
			Buckets: prometheus.ExponentialBuckets(1e-6, 2, 21), // up to 1 s
		}, []string{"op"}),
		read:    counter("read_bytes_total", "Bytes that the kernel read. Repeated reads are served by its cache."),
		written: counter("written_bytes_total", "Bytes that the kernel wrote."),
	}
}

func (f *answerMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{f.took, f.read, f.written}
}

func (f *answerMetrics) add(a fusefs.Answered) {
	if a.Op != "" {
		f.took.WithLabelValues(a.Op).Observe(a.Took.Seconds())
	}
	f.read.Add(float64(a.Read))
	f.written.Add(float64(a.Written))
}

func (m *metricsServer) close() {
	if m == nil {
		return
	}
	m.http.Close()
	<-m.done
}

// collector reads the metrics of the store when they are requested.
type collector struct{ d *Daemon }

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

func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range allDescriptors {
		ch <- d
	}
}

func (c collector) Collect(ch chan<- prometheus.Metric) {
	select {
	case <-c.d.up:
	default:
		return
	}
	// The library collects on a goroutine of its own.
	guard.Call(c.d.log, "metrics", func() { c.collect(ch) })
}

func (c collector) collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	for op, n := range c.d.mount.Counters() {
		if op == "NODES" {
			gauge(descNodes, float64(n))
		} else {
			count(descRequests, float64(n), op)
		}
	}
	ws := c.d.store.Main()
	st := ws.Status()
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
	m := st.Metrics
	for _, o := range []struct {
		name string
		n    int64
		ms   float64
	}{
		{"snapshot", m.Snapshots, m.LastSnapshotMs}, {"restore", m.Restores, m.LastRestoreMs}, {"fork", m.Forks, m.LastForkMs},
		{"store", m.Stored, m.LastStoreMs}, {"checkpoint", m.Checkpoints, m.LastCheckpoint},
	} {
		count(descDone, float64(o.n), o.name)
		gauge(descLast, o.ms/1000, o.name)
	}
	count(descDone, float64(m.GarbageCollects), "gc")
	count(descPacked, float64(m.PackedBytes))
}
