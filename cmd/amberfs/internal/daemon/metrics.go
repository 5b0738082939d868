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
	mount      *mount
	store      *snapshot.Store
	crashState *crashState
	log        *slog.Logger

	server                  *http.Server
	durationsByOp           sync.Map // values of type *durationHistogram, by the FUSE operation
	bytesRead, bytesWritten atomic.Int64
}

// durationHistogram counts durations: bucket i those up to 2^i microseconds, and the last bucket all longer ones.
type durationHistogram struct {
	buckets [22]atomic.Int64
	sumNs   atomic.Int64
}

func (d *durationHistogram) add(duration time.Duration) {
	i := bits.Len64(uint64(max(0, duration-1) / time.Microsecond))
	d.buckets[min(i, len(d.buckets)-1)].Add(1)
	d.sumNs.Add(int64(duration))
}

func newMetrics(mount *mount, s *snapshot.Store, c *crashState, log *slog.Logger) *metrics {
	m := &metrics{mount: mount, store: s, crashState: c, log: log}
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		guard.Call(log, "metrics", func() { _, _ = m.render().WriteTo(w) })
	})

	m.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	return m
}

// serveMetrics begins to serve metrics, if the mount option is set. In a takeover it does not wait for
// the port, which the earlier daemon may have until it has ended.
func (d *Daemon) serveMetrics() error {
	if d.cfg.Options.Metrics == "" {
		return nil
	}
	d.metrics = newMetrics(d.mount, d.store, &d.crashState, d.log)
	listen := func() error { return d.metrics.listen(d.cfg.Options.Metrics) }
	if d.cfg.inheritedConnection() != nil {
		d.background.retryInBackground("serving metrics", listen)
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
		if err := m.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			m.log.Warn("metrics", "err", err)
		}
	}()

	m.log.Info("metrics", "address", l.Addr().String())

	return nil
}

// addRequest counts a request.
func (m *metrics) addRequest(a fusefs.AnsweredRequest) {
	if a.Op != "" {
		histogram, ok := m.durationsByOp.Load(a.Op)
		if !ok {
			histogram, _ = m.durationsByOp.LoadOrStore(a.Op, new(durationHistogram))
		}
		histogram.(*durationHistogram).add(a.Duration)
	}

	m.bytesRead.Add(int64(a.ReadBytes))
	m.bytesWritten.Add(int64(a.WrittenBytes))
}

func (m *metrics) close() {
	if m != nil {
		m.server.Close()
	}
}

// render reads all metrics and returns them as a page.
func (m *metrics) render() *metricsPage {
	p := &metricsPage{}
	if m.mount.isAnswering() {
		p.addStore(m.mount.server.Counters(), m.store.Main().Status(), m.crashState.survival())
	}

	p.addRequests(m)
	p.addProcess()
	p.addRuntime()

	return p
}

// addRequests adds the metrics of the kernel's requests.
func (p *metricsPage) addRequests(m *metrics) {
	m.durationsByOp.Range(func(op, took any) bool {
		p.addDurations("request_duration_seconds", "Histogram of the time from reading a request to answering it, by FUSE operation.", "op", op.(string), took.(*durationHistogram))
		return true
	})
	p.addCounter("read_bytes_total", "Bytes that the kernel read. Repeated reads are served by its cache.", m.bytesRead.Load())
	p.addCounter("written_bytes_total", "Bytes that the kernel wrote.", m.bytesWritten.Load())
}

// addStore adds the metrics of a store. requests are the counters of fusefs.Server.
func (p *metricsPage) addStore(requests map[string]uint64, st info.Status, crashes service.Survival) {
	for op, n := range requests {
		if op != "NODES" {
			p.addCounter("requests_total", "Requests from the kernel, by FUSE operation.", int64(n), "op", op)
		}
	}

	ops := st.Metrics
	operations := []struct {
		name string
		n    int64
		ms   float64
	}{
		{"snapshot", ops.Snapshots, ops.LastSnapshotMs}, {"restore", ops.Restores, ops.LastRestoreMs}, {"fork", ops.Forks, ops.LastForkMs},
		{"store", ops.Stored, ops.LastStoreMs}, {"checkpoint", ops.Checkpoints, ops.LastCheckpointMs}, {"gc", ops.GarbageCollects, -1},
	}
	for _, o := range operations {
		p.addCounter("operations_total", "Operations done: snapshot, restore, fork, store (a snapshot), checkpoint, gc.", o.n, "operation", o.name)
	}
	for _, o := range operations {
		if o.ms >= 0 {
			p.add(gauge, "last_operation_seconds", "Duration of the last operation.", o.ms/1000, "operation", o.name)
		}
	}

	p.addCounter("checkpoints_failed_total", "Checkpoints that failed; the journal has what they would have stored.", ops.CheckpointsFailed)
	p.addCounter("restarts_total", "Daemons of this mount before this one.", int64(crashes.Restarts))
	p.add(gauge, "last_pause_seconds", "How long programs waited for this daemon after the one before.", crashes.Pause)
	p.addGauge("snapshots", "Snapshots of main.", int64(st.Snapshots), "workspace", st.Workspace)
	p.addGauge("files", "Files of main.", st.Files, "workspace", st.Workspace)
	p.addGauge("logical_bytes", "Sum of the file sizes of main.", st.LogicalBytes, "workspace", st.Workspace)
	p.addGauge("snapshots_not_stored", "Snapshots that are not stored yet.", int64(st.NotStored))
	p.addCounter("packed_bytes_total", "Bytes that storing snapshots added to packs.", ops.PackedBytes)
	p.addGauge("stored_bytes", "Size of the packs on disk.", st.StoredBytes)
	p.addGauge("chunk_bytes", "Contents of the packs before compression.", st.ChunkBytes)
	p.addGauge("objects", "Objects in the packs.", st.Objects)
	p.addGauge("journal_bytes", "Size of the journal.", st.JournalBytes)
	p.addCounter("journal_records_total", "Records written to the journal since the store was created.", int64(st.Records))
	p.addGauge("cache_bytes", "Decoded pages and chunks in memory.", st.CacheBytes)
	p.addGauge("disk_free_bytes", "Bytes that can still be written.", st.DiskFreeBytes)
	p.addGauge("nodes", "Inodes that the kernel knows.", int64(requests["NODES"]))
	frozen := int64(0)
	if st.Frozen {
		frozen = 1
	}

	p.addGauge("frozen", "1 during a freeze, else 0.", frozen)
}
