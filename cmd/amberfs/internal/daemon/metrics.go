package daemon

import (
	"errors"
	"log/slog"
	"math/bits"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

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
	took          sync.Map // of *durations, by the FUSE operation
	read, written atomic.Int64
}

// durations is a histogram: bucket i counts times up to 2^i microseconds, the last one all others.
type durations struct {
	buckets [22]atomic.Int64
	sum     atomic.Int64 // ns
}

func (d *durations) add(took time.Duration) {
	i := bits.Len64(uint64(max(0, took-1) / time.Microsecond))
	d.buckets[min(i, len(d.buckets)-1)].Add(1)
	d.sum.Add(int64(took))
}

func newMetrics(mount *mount, s *snapshot.Store, c *crash, log *slog.Logger) *metrics {
	m := &metrics{mount: mount, store: s, crash: c, log: log}
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		guard.Call(log, "metrics", func() { _, _ = m.text().WriteTo(w) })
	})

	m.http = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
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

// add counts a request.
func (m *metrics) add(a fusefs.AnsweredRequest) {
	if a.Op != "" {
		took, ok := m.took.Load(a.Op)
		if !ok {
			took, _ = m.took.LoadOrStore(a.Op, new(durations))
		}
		took.(*durations).add(a.Duration)
	}

	m.read.Add(int64(a.Read))
	m.written.Add(int64(a.Written))
}

func (m *metrics) close() {
	if m != nil {
		m.http.Close()
	}
}

// text returns the metrics. It reads the metrics of the store.
func (m *metrics) text() *page {
	p := &page{}
	if m.mount.isUp() {
		p.addStore(m.mount.server.Counters(), m.store.Main().Status(), m.crash.survival())
	}

	p.addRequests(m)
	p.addProcess()
	p.addRuntime()

	return p
}

// addRequests adds the metrics of the kernel's requests.
func (p *page) addRequests(m *metrics) {
	m.took.Range(func(op, took any) bool {
		p.addDurations("request_duration_seconds", "Histogram of the time from reading a request to answering it, by FUSE operation.", "op", op.(string), took.(*durations))
		return true
	})
	p.count("read_bytes_total", "Bytes that the kernel read. Repeated reads are served by its cache.", m.read.Load())
	p.count("written_bytes_total", "Bytes that the kernel wrote.", m.written.Load())
}

// addStore adds the metrics of a store. requests are the counters of fusefs.Server.
func (p *page) addStore(requests map[string]uint64, st info.Status, crashes service.Survival) {
	for op, n := range requests {
		if op != "NODES" {
			p.count("requests_total", "Requests from the kernel, by FUSE operation.", int64(n), "op", op)
		}
	}

	ops := st.Metrics
	operations := []struct {
		name string
		n    int64
		ms   float64
	}{
		{"snapshot", ops.Snapshots, ops.LastSnapshotMs}, {"restore", ops.Restores, ops.LastRestoreMs}, {"fork", ops.Forks, ops.LastForkMs},
		{"store", ops.Stored, ops.LastStoreMs}, {"checkpoint", ops.Checkpoints, ops.LastCheckpoint}, {"gc", ops.GarbageCollects, -1},
	}
	for _, o := range operations {
		p.count("operations_total", "Operations done: snapshot, restore, fork, store (a snapshot), checkpoint, gc.", o.n, "operation", o.name)
	}
	for _, o := range operations {
		if o.ms >= 0 {
			p.add(gauge, "last_operation_seconds", "Duration of the last operation.", o.ms/1000, "operation", o.name)
		}
	}

	p.count("checkpoints_failed_total", "Checkpoints that failed; the journal has what they would have stored.", ops.CheckpointsFailed)
	p.count("restarts_total", "Daemons of this mount before this one.", int64(crashes.Restarts))
	p.add(gauge, "last_pause_seconds", "How long programs waited for this daemon after the one before.", crashes.Pause)
	p.gauge("snapshots", "Snapshots of main.", int64(st.Snapshots), "workspace", st.Workspace)
	p.gauge("files", "Files of main.", st.Files, "workspace", st.Workspace)
	p.gauge("logical_bytes", "Sum of the file sizes of main.", st.LogicalBytes, "workspace", st.Workspace)
	p.gauge("snapshots_not_stored", "Snapshots that are not stored yet.", int64(st.NotStored))
	p.count("packed_bytes_total", "Bytes that storing snapshots added to packs.", ops.PackedBytes)
	p.gauge("stored_bytes", "Size of the packs on disk.", st.StoredBytes)
	p.gauge("chunk_bytes", "Contents of the packs before compression.", st.ChunkBytes)
	p.gauge("objects", "Objects in the packs.", st.Objects)
	p.gauge("journal_bytes", "Size of the journal.", st.JournalBytes)
	p.count("journal_records_total", "Records written to the journal since the store was created.", int64(st.Records))
	p.gauge("cache_bytes", "Decoded pages and chunks in memory.", st.CacheBytes)
	p.gauge("disk_free_bytes", "Bytes that can still be written.", st.DiskFreeBytes)
	p.gauge("nodes", "Inodes that the kernel knows.", int64(requests["NODES"]))
	frozen := int64(0)
	if st.Frozen {
		frozen = 1
	}

	p.gauge("frozen", "1 during a freeze, else 0.", frozen)
}
