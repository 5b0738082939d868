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

// metricsServer shows figures to Prometheus; nil when none were asked for.
type metricsServer struct {
	http    *http.Server
	answers *answerFigures
	done    chan struct{}
}

// serveMetrics starts it.
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
	answers := newAnswerFigures()
	reg.MustRegister(answers.took, answers.read, answers.written)
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

// answerFigures are those of the kernel's requests.
type answerFigures struct {
	took          *prometheus.HistogramVec
	read, written prometheus.Counter
}

func newAnswerFigures() *answerFigures {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "amberfs", Name: name, Help: help})
	}
	return &answerFigures{
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "amberfs", Name: "request_duration_seconds",
			Help:    "How long requests took, from when they were read until they were answered, by FUSE operation.",
			Buckets: prometheus.ExponentialBuckets(1e-6, 2, 21), // up to 1 s
		}, []string{"op"}),
		read:    counter("read_bytes_total", "Bytes that the kernel read; what programs read again comes from its cache."),
		written: counter("written_bytes_total", "Bytes that the kernel wrote."),
	}
}

func (f *answerFigures) add(a fusefs.Answered) {
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

// collector reads the figures when they are asked for, so that they cost
// nothing otherwise.
type collector struct{ d *Daemon }

// desc describes a figure.
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("amberfs_"+name, help, labels, nil)
}

var (
	descRequests   = desc("requests_total", "Requests of the kernel answered, by FUSE operation.", "op")
	descNodes      = desc("nodes", "Inodes that the kernel holds.")
	descSnapshots  = desc("snapshots", "Snapshots, by workspace.", "workspace")
	descFiles      = desc("files", "Inodes of the workspace.", "workspace")
	descLogical    = desc("logical_bytes", "Sum of the file sizes of the workspace.", "workspace")
	descStored     = desc("stored_bytes", "Bytes that the packs take on disk.")
	descChunks     = desc("chunk_bytes", "Bytes stored in the packs, before compression.")
	descObjects    = desc("objects", "Objects in the packs.")
	descJournal    = desc("journal_bytes", "Bytes of journal kept.")
	descRecords    = desc("journal_records_total", "Records written to the journal since the store was made.")
	descUnsealed   = desc("unsealed_snapshots", "Snapshots that wait to be sealed.")
	descCache      = desc("cache_bytes", "Bytes of decoded pages and chunks in memory.")
	descFree       = desc("disk_free_bytes", "Bytes that can still be written.")
	descFrozen     = desc("frozen", "1 while changes are held back.")
	descDone       = desc("operations_total", "Captures, restores, forks, seals, checkpoints and collections done.", "operation")
	descLast       = desc("last_operation_seconds", "How long the last one took.", "operation")
	descSealed     = desc("sealed_bytes_total", "Bytes that seals added to the store.")
	allDescriptors = []*prometheus.Desc{
		descRequests, descNodes, descSnapshots, descFiles, descLogical, descStored, descChunks, descObjects, descJournal, descRecords,
		descUnsealed, descCache, descFree, descFrozen, descDone, descLast, descSealed,
	}
)

// Describe implements prometheus.Collector.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range allDescriptors {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
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
	gauge(descUnsealed, float64(st.Unsealed))
	gauge(descCache, float64(st.CacheBytes))
	gauge(descFree, float64(st.DiskFreeBytes))
	frozen := 0.0
	if st.Frozen {
		frozen = 1
	}
	gauge(descFrozen, frozen)
	f := st.Figures
	for _, o := range []struct {
		name string
		n    int64
		ms   float64
	}{
		{"capture", f.Captures, f.LastCaptureMs}, {"restore", f.Restores, f.LastRestoreMs}, {"fork", f.Forks, f.LastForkMs},
		{"seal", f.Seals, f.LastSealMs}, {"checkpoint", f.Checkpoints, f.LastCheckpoint},
	} {
		count(descDone, float64(o.n), o.name)
		gauge(descLast, o.ms/1000, o.name)
	}
	count(descDone, float64(f.GarbageCollects), "gc")
	count(descSealed, float64(f.SealedBytes))
}
