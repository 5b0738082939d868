package catalogue

import (
	"encoding/hex"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/info"
)

// A SnapshotSet has the snapshots of a store by their views. Most snapshots of the last checkpoint are not in
// memory before their first use: they only have a row in the list of their workspace, and a record in the
// checkpoint. Readers of the catalogue may call the methods at the same time.
type SnapshotSet struct {
	mu          sync.Mutex
	loaded      map[uint32]*Snapshot
	storedViews []storedView                         // snapshots of the last checkpoint, by view
	readStored  func(view uint32) (*Snapshot, error) // reads the record of a snapshot in storedViews
}

// A storedView is a snapshot of the last checkpoint. After the snapshot was read, it is in SnapshotSet.loaded until
// it is removed.
type storedView struct {
	view    uint32
	wasRead bool
}

// At returns the snapshot with a view, nil if there is none. It stays in memory.
func (m *SnapshotSet) At(view uint32) *Snapshot { return m.get(view, true) }

// Peek returns the snapshot with a view as At does, for callers that do not change and do not keep it: it
// does not stay in memory.
func (m *SnapshotSet) Peek(view uint32) *Snapshot { return m.get(view, false) }

func (m *SnapshotSet) get(view uint32, keepLoaded bool) *Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()

	if s := m.loaded[view]; s != nil {
		return s
	}
	i, ok := m.index(view)
	if !ok {
		return nil
	}

	s, err := m.readStored(view) // an error means that the store is closed, because Load has read the record before
	if err != nil {
		return nil
	}
	if keepLoaded {
		m.storedViews[i].wasRead, m.loaded[view] = true, s
	}

	return s
}

// index returns the index in storedViews of a snapshot that is not in memory.
func (m *SnapshotSet) index(view uint32) (i int, ok bool) {
	i, ok = slices.BinarySearchFunc(m.storedViews, view, func(s storedView, view uint32) int { return int(s.view) - int(view) })
	return i, ok && !m.storedViews[i].wasRead
}

// inMemory returns the snapshot with a view if it is in memory, else nil.
func (m *SnapshotSet) inMemory(view uint32) *Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.loaded[view]
}

// All yields all snapshots by their views, in no order. They stay in memory.
func (m *SnapshotSet) All() iter.Seq2[uint32, *Snapshot] {
	for _, view := range m.onlyStored() {
		m.At(view)
	}
	return m.Loaded()
}

// Loaded yields the snapshots in memory. Among them are all that have an image, git commits, or earlier ids.
func (m *SnapshotSet) Loaded() iter.Seq2[uint32, *Snapshot] {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.All(maps.Clone(m.loaded))
}

// onlyStored returns the views of the snapshots that are not in memory, in order.
func (m *SnapshotSet) onlyStored() (views []uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()

	for _, s := range m.storedViews {
		if !s.wasRead {
			views = append(views, s.view)
		}
	}
	return views
}

func (m *SnapshotSet) put(s *Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loaded[s.View] = s
}

func (m *SnapshotSet) drop(view uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()

	delete(m.loaded, view)
	if i, ok := m.index(view); ok {
		m.storedViews[i].wasRead = true
	}
}

// A row has the fields of a snapshot that a List keeps in memory. While the whole snapshot is in memory, only seq,
// view and name are up to date.
type row struct {
	seq       uint64
	view      uint32
	name      string // "" for cp-<seq>
	created   time.Time
	expires   *time.Time
	bytes     int64
	id        [4]byte // the first bytes of the id
	kindIndex uint8   // index in info.Kinds

	pinned, compacted, labelled, claimed bool
}

// newRow returns the row of a sealed snapshot that need not be in memory. ok is false for other snapshots.
func newRow(r *SnapshotRecord) (w row, ok bool) {
	id, err := cas.ParseHash(r.ID)
	kind := slices.Index(info.Kinds, r.Kind)
	w = row{
		seq: r.Seq, view: r.View, created: r.Created, expires: r.Expires, bytes: r.Bytes, id: [4]byte(id[:4]), kindIndex: uint8(kind),
		pinned: r.Pinned, compacted: r.Compacted, labelled: len(r.Labels) > 0, claimed: r.Claim != "",
	}
	return w, err == nil && kind >= 0
}

// rowIDMatcher returns a function that reports whether the id of a row may be one of ids, or begin with one of
// ids. Each of ids has at least 8 hex digits.
func rowIDMatcher(ids ...string) func(*row) bool {
	begins := make(map[[4]byte]bool, len(ids))
	for _, id := range ids {
		var b [4]byte
		_, _ = hex.Decode(b[:], []byte(id[:min(8, len(id))]))
		begins[b] = true
	}
	return func(r *row) bool { return begins[r.id] }
}

// info returns the fields of the description that retention reads.
func (r *row) info() info.Info {
	return info.Info{Seq: r.seq, View: r.view, Created: r.created, Expires: r.expires, Pinned: r.pinned, Kind: info.Kinds[r.kindIndex], Bytes: r.bytes, Origin: info.Origin{Compacted: r.compacted}}
}
