package catalogue

import (
	"encoding/json"
	"fmt"
	"maps"
	"runtime/debug"
	"strings"
	"time"
	"unsafe"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/policy"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// The keys of the records in the metadata of the chunk store, see Key.
const (
	StoreKey        = "store"
	SnapshotPrefix  = "snap/"
	WorkspacePrefix = "ws/"
)

// Key returns the key of the record of a view. prefix is SnapshotPrefix or WorkspacePrefix.
func Key(prefix string, view uint32) string { return fmt.Sprintf("%s%08x", prefix, view) }

// A StoreRecord is the record of the last checkpoint.
type StoreRecord struct {
	Position int64  `json:"position"`          // journal position from which recovery replays
	Records  uint64 `json:"records,omitempty"` // Journal.RecordCount at the checkpoint
	NextIno  uint64 `json:"next_ino"`
	NextView uint32 `json:"next_view"`

	BytesAfterGC int64 `json:"collected,omitempty"` // bytes of packs after the last gc
	HasGarbage   bool  `json:"garbage,omitempty"`   // snapshots were removed since the last gc

	// Requests are requests of the kernel that have taken effect and may not be answered yet: request
	// number → number of the node that the answer describes.
	Requests map[uint64]uint64 `json:"requests,omitempty"`
	// Stale has the views with edits of which the kernel may not have been notified. The values are the names in
	// the root directory that these edits changed.
	Stale map[uint32][][]byte `json:"stale_names,omitempty"`
	// StaleViews are the keys of Stale in checkpoints of earlier versions, which did not store names.
	StaleViews []uint32 `json:"stale,omitempty"`

	Incomplete bool `json:"incomplete,omitempty"` // objects are missing that a repair could not restore

	NoCheckpoint bool `json:"-"` // the store has no checkpoint yet
}

// StaleNames returns the entries of Stale. For each view in StaleViews, whose names are unknown, it adds an entry
// with nil.
func (r *StoreRecord) StaleNames() map[uint32][][]byte {
	all := maps.Clone(r.Stale)
	for _, view := range r.StaleViews {
		if all == nil {
			all = make(map[uint32][][]byte)
		}
		all[view] = nil
	}

	return all
}

// A WorkspaceRecord is the record of a workspace.
type WorkspaceRecord struct {
	View         uint32        `json:"view"`
	Parent       uint32        `json:"parent"` // the view of the parent, for a fork
	Fork         bool          `json:"fork"`
	Name         string        `json:"name"`
	NextSeq      uint64        `json:"next_seq"`         // sequence number of the next snapshot
	Base         uint32        `json:"base"`             // the view of the base
	UndoView     uint32        `json:"undo,omitempty"`   // the view of the snapshot before the last edit
	BookmarkView uint32        `json:"before,omitempty"` // the view of the bookmark, see Bookmark
	Head         string        `json:"head,omitempty"`   // the snapshot that was taken or restored last
	Policy       policy.Policy `json:"policy"`
	Claim        string        `json:"claim,omitempty"` // the label with which a fork was claimed
	Expires      *time.Time    `json:"expires,omitempty"`
	Discard      bool          `json:"discard,omitempty"` // when the fork ends, no snapshot of it is added to the parent
	TreeRecord
	// DirState is the id of a state of the directory on the host from which the store was filled: its state
	// at the last refresh. "" means the base of main.
	DirState string `json:"dir,omitempty"`
	IntervalRecord
	// PartlySealed is set in place of State if some files could not be sealed.
	PartlySealed *PartlySealedState `json:"partly,omitempty"`
	// Orphans are the inodes without a name to which the kernel may still refer, as a state without a
	// root.
	Orphans *PartlySealedState `json:"orphans,omitempty"`
	Ops     []Op               `json:"ops,omitempty"` // the last operations, oldest first
	// Ended is set for a fork that has ended and is kept for undo. It is the view of the fork that a user
	// ended: this fork, or a fork above it.
	Ended uint32 `json:"ended,omitempty"`
}

// A TreeRecord is the present tree of a workspace.
type TreeRecord struct {
	State   string `json:"state"` // the id of the tree
	Inodes  int64  `json:"inodes"`
	Bytes   int64  `json:"bytes"`
	Exports int64  `json:"exports,omitempty"` // bytes that exports added to the store's git repository
}

// An IntervalRecord contains the names of the actors that changed the workspace since the newest snapshot,
// and the hashes of the objects with their changes.
type IntervalRecord struct {
	Actors    []string   `json:"actors,omitempty"`
	ActorSets []cas.Hash `json:"actor_sets,omitempty"`
}

// UnmarshalJSON sets UndoSeconds, which earlier versions did not write, to its default.
func (r *WorkspaceRecord) UnmarshalJSON(b []byte) error {
	type record WorkspaceRecord
	r.Policy.UndoSeconds = policy.Default().UndoSeconds
	return json.Unmarshal(b, (*record)(r))
}

// PartlySealedState is a state in which the contents of some files could not be sealed at a checkpoint. State contains
// these files without their contents.
type PartlySealedState struct {
	State cas.Hash   `json:"state"`           // the sealed state
	Files []cas.Hash `json:"files,omitempty"` // objects with the unsealed contents, see tree.PutContents
}

// Load returns the state. The contents of the files that are not sealed belong to epoch. The caller must
// begin a new epoch before it uses the state.
func (p *PartlySealedState) Load(src *tree.Source, epoch uint64) (*tree.State, error) {
	st, err := tree.Load(src, p.State)
	if err != nil || len(p.Files) == 0 {
		return st, err
	}
	return st, st.FillContents(src, epoch, p.Files)
}

// A SnapshotRecord is the record of a snapshot, in the metadata of the chunk store and in the
// journal.
type SnapshotRecord struct {
	View uint32 `json:"view"`
	WS   uint32 `json:"ws"` // the view of its workspace
	info.Info
	// ActorSets are the objects with the actor sets since the previous snapshot.
	ActorSets []cas.Hash `json:"actor_sets,omitempty"`
	// Lineage is set for a snapshot from another workspace (a pulled snapshot, or the last state of a
	// fork): the ids of the earlier states of that workspace. See Catalogue.Lineage.
	Lineage      []string           `json:"lineage,omitempty"`
	DirState     string             `json:"dir,omitempty"` // WorkspaceRecord.DirState at the time of the snapshot
	Undoes       *ActorUndo         `json:"undoes,omitempty"`
	PartlySealed *PartlySealedState `json:"partly,omitempty"` // set while the snapshot cannot be sealed
}

// ActorUndo describes an undo of an actor after which a snapshot was taken. The undo is the only change
// between the snapshot From and this snapshot.
type ActorUndo struct {
	By    string `json:"by"`              // the actor
	From  uint32 `json:"from"`            // the view of the snapshot before the undo
	Since uint64 `json:"since,omitempty"` // all changes since the snapshot with this sequence number were undone
}

// UserInfo returns the info of a snapshot as users see it.
func (r *SnapshotRecord) UserInfo() info.Info {
	i := r.Info
	i.View, i.Sealed, i.Lineage = r.View, r.ID != "", r.Lineage
	return i
}

// closedSignal is the value of Snapshot.SealedSignal, a closed channel, for all snapshots that are loaded sealed.
var closedSignal = func() chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}()

// Load returns the snapshot of a record, without its state.
func (r *SnapshotRecord) Load() (*Snapshot, error) {
	s := &Snapshot{Info: r.UserInfo(), WS: r.WS, DirState: r.DirState, Undoes: r.Undoes, changes: actors.Changes{Names: r.Actors, Stored: r.ActorSets}}
	if !s.Sealed {
		s.SealedSignal = make(chan struct{})
		return s, nil
	}

	s.SealedSignal = closedSignal
	var err error
	s.Hash, err = cas.ParseHash(r.ID)
	return s, err
}

// manySnapshots is the number of snapshots above which Load returns its garbage to the system.
const manySnapshots = 10_000

// Load reads the catalogue of the last checkpoint, and returns the snapshots that must be sealed. loadPartly
// returns the state of a snapshot with files that are not sealed, or nil if the snapshot must be left
// out. If the record of main is lost, a salvage creates a new one.
func (c *Catalogue) Load(store *cas.Store, salvage bool, loadPartly func(SnapshotRecord) (*tree.State, error)) (toSeal []*Snapshot, err error) {
	if err := Scan(store, WorkspacePrefix, func(r WorkspaceRecord) error {
		c.addWorkspace(r)
		return nil
	}); err != nil {
		return nil, err
	}

	if c.Workspaces.At(0) == nil {
		if !salvage {
			return nil, errs.New(errs.Damaged, "the catalogue has no workspace main")
		}
		c.AddMain()
	}

	if err := Scan(store, ForgottenKey, func(all []ForgottenEntry) error {
		c.Forgotten = all
		return nil
	}); err != nil {
		return nil, err
	}

	c.Snapshots.readStored = func(view uint32) (*Snapshot, error) {
		r, err := readSnapshot(store, view)
		if err != nil {
			return nil, err
		}
		return r.Load()
	}
	unsealed := make(map[string]uint32)
	err = store.ScanMeta(SnapshotPrefix, func(key string, value []byte) error {
		if r, ok := scanSnapshot(unsafe.String(unsafe.SliceData(value), len(value))); ok && key == Key(SnapshotPrefix, r.View) && c.addStored(&r) {
			return nil
		}

		return decode(key, value, func(r SnapshotRecord) error {
			sn, err := r.Load()
			if err != nil {
				return err
			}

			if r.PartlySealed != nil {
				unsealed[Key(SnapshotPrefix, r.View)] = r.View
				st, err := loadPartly(r)
				if st == nil {
					return err
				}
				sn.State.Store(st)
			}

			c.add(sn, &toSeal)

			return nil
		})
	})

	c.linkAndSort()
	c.Unwritten.keys = unsealed
	if len(c.Snapshots.storedViews) > manySnapshots {
		debug.FreeOSMemory() // the garbage that was left by reading is larger than the catalogue
	}

	return toSeal, err
}

// addStored adds a snapshot of the last checkpoint without loading it. It returns false if the snapshot must be
// loaded, because it has no id or is in no workspace's list.
func (c *Catalogue) addStored(r *SnapshotRecord) bool {
	w := c.Workspaces.At(r.WS)
	if w == nil || r.View == w.Base || r.View == w.BookmarkView || w.keptViews[r.View] {
		return false
	}
	line, ok := newRow(r)
	if !ok {
		return false
	}

	c.Bytes.Add(r.Bytes)
	w.NextSeq = max(w.NextSeq, r.Seq+1)
	w.Snapshots.add(line, strings.Clone(r.Name))
	c.Snapshots.storedViews = append(c.Snapshots.storedViews, storedView{view: r.View})

	return true
}

// readSnapshot reads the record of a snapshot of the last checkpoint.
func readSnapshot(store *cas.Store, view uint32) (r SnapshotRecord, err error) {
	key := Key(SnapshotPrefix, view)
	b, err := store.GetMeta(key)
	if err != nil {
		return r, err
	}

	return r, decodeSnapshot(key, b, func(record *SnapshotRecord) error {
		r = *record
		return nil
	})
}

// decodeSnapshot calls fn with the record of a snapshot. Strings of the record are parts of value.
func decodeSnapshot(key string, value []byte, fn func(*SnapshotRecord) error) error {
	if r, ok := scanSnapshot(unsafe.String(unsafe.SliceData(value), len(value))); ok {
		return fn(&r)
	}
	return decode(key, value, func(r SnapshotRecord) error { return fn(&r) })
}

// OnlyStoredRecords returns a function each, which reads the records of the snapshots that are not in memory now.
// Later changes of the catalogue have no effect on it. It calls fn with each record, in the order of the views; fn
// must not keep the record.
func (c *Catalogue) OnlyStoredRecords(store *cas.Store) (each func(fn func(*SnapshotRecord) error) error) {
	views, scan := c.Snapshots.onlyStored(), store.FreezeMeta(SnapshotPrefix)
	return func(fn func(*SnapshotRecord) error) error {
		left := views
		err := scan(func(key string, value []byte) error {
			if len(left) == 0 || key != Key(SnapshotPrefix, left[0]) {
				return nil
			}

			left = left[1:]
			return decodeSnapshot(key, value, fn)
		})
		if err == nil && len(left) > 0 {
			err = errs.New(errs.Damaged, "catalogue record %s is missing", Key(SnapshotPrefix, left[0]))
		}
		return err
	}
}

// decode calls fn with the record of a key.
func decode[R any](key string, value []byte, fn func(R) error) error {
	var r R
	err := json.Unmarshal(value, &r)
	if err == nil {
		err = fn(r)
	}
	if err != nil {
		return errs.New(errs.Damaged, "catalogue record %s: %w", key, err)
	}

	return nil
}

// Scan calls fn for each record of the catalogue whose key begins with prefix.
func Scan[R any](c *cas.Store, prefix string, fn func(R) error) error {
	return c.ScanMeta(prefix, func(key string, value []byte) error { return decode(key, value, fn) })
}
