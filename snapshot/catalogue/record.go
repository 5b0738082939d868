// Package catalogue is what a store knows of its workspaces and snapshots, and how each record
// of the journal changes that.
//
// A change is checked and becomes a [Record], by the function of this package that makes one.
// The store journals it, and [Catalogue.Apply] makes it. Recovery decodes the record, and calls
// the same function. What is to be done besides is returned as [Effects]: there is no lock here,
// no journal, and no tree that files are written in.
package catalogue

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/policy"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// The keys of the records in the metadata of the chunk store.
const (
	StoreKey   = "store"
	Snapshots  = "snap/"
	Workspaces = "ws/"
)

// Key is that of the record of a view, with one of these prefixes.
func Key(prefix string, view uint32) string { return fmt.Sprintf("%s%08x", prefix, view) }

// A StoreRecord is the record of the last checkpoint.
type StoreRecord struct {
	Position int64  `json:"position"`          // of the journal
	Records  uint64 `json:"records,omitempty"` // that the journal ever had by then
	NextIno  uint64 `json:"next_ino"`
	NextView uint32 `json:"next_view"`

	Collected int64 `json:"collected,omitempty"` // bytes of packs after the last gc
	Garbage   bool  `json:"garbage,omitempty"`   // snapshots were removed since

	// Requests are those of the kernel that were carried out and may not be answered, with the
	// nodes that their answers describe.
	Requests map[uint64]uint64 `json:"requests,omitempty"`
	// Stale are views with edits that the kernel may not know of, and the names that these
	// changed in the root.
	Stale map[uint32][][]byte `json:"stale_names,omitempty"`
	// StaleViews are such views in checkpoints of earlier programs, which kept no names.
	StaleViews []uint32 `json:"stale,omitempty"`

	Incomplete bool `json:"incomplete,omitempty"` // a repair could not repair everything: objects are missing

	First bool `json:"-"` // there is none yet
}

// StaleNames returns Stale with the views of earlier programs. Of those no name is known.
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
	View    uint32        `json:"view"`
	Parent  uint32        `json:"parent"`
	Fork    bool          `json:"fork"`
	Name    string        `json:"name"`
	NextSeq uint64        `json:"next_seq"`
	Base    uint32        `json:"base"`
	Undo    uint32        `json:"undo,omitempty"`
	Before  uint32        `json:"before,omitempty"`
	Head    string        `json:"head,omitempty"`
	Policy  policy.Policy `json:"policy"`
	Claim   string        `json:"claim,omitempty"`
	Expires *time.Time    `json:"expires,omitempty"`
	Discard bool          `json:"discard,omitempty"` // its end leaves no snapshot
	State   string        `json:"state"`
	Inodes  int64         `json:"inodes"`
	Bytes   int64         `json:"bytes"`
	Exports int64         `json:"exports,omitempty"` // bytes in the store's repository
	// Dir is the id of what the directory that the store was filled from had at the last
	// refresh; "" is the base of main.
	Dir string `json:"dir,omitempty"`
	// Actors changed something since the newest snapshot, ActorSets are the objects that say what.
	Actors    []string   `json:"actors,omitempty"`
	ActorSets []cas.Hash `json:"actor_sets,omitempty"`
	// Partly is what there is instead of State if some files could not be sealed.
	Partly *Partly `json:"partly,omitempty"`
	// Orphans are the inodes without a name that the kernel may hold: a state without a root.
	Orphans *Partly `json:"orphans,omitempty"`
}

// Partly is a state some files of which could not be sealed at a checkpoint.
type Partly struct {
	State cas.Hash   `json:"state"`           // in which these are empty
	Files []cas.Hash `json:"files,omitempty"` // objects that describe their contents, see tree.PutContents
}

// Load returns the state, whose files that are not sealed an epoch owns which is past when it
// is used.
func (p *Partly) Load(src *tree.Source, epoch uint64) (*tree.State, error) {
	st, err := tree.Load(src, p.State)
	if err == nil && len(p.Files) > 0 {
		err = st.Fill(src, epoch, p.Files)
	}
	return st, err
}

// A SnapshotRecord is the record of a snapshot, in the metadata of the chunk store and in the
// journal.
type SnapshotRecord struct {
	View uint32 `json:"view"`
	WS   uint32 `json:"ws"` // view of its workspace
	info.Info
	// ActorSets are the objects that have the actors of the changes since the snapshot before.
	ActorSets []cas.Hash `json:"actor_sets,omitempty"`
	// Lineage are the ids of states that its workspace was in before, of what came from elsewhere and
	// of what a fork left; see Catalogue.Lineage.
	Lineage []string `json:"lineage,omitempty"`
	Dir     string   `json:"dir,omitempty"` // that of its workspace
	Undoes  *Undone  `json:"undoes,omitempty"`
	Partly  *Partly  `json:"partly,omitempty"` // as long as it cannot be sealed
}

// Undone says that a snapshot was taken right after an undo of an actor: nothing else changed
// since the snapshot From.
type Undone struct {
	By    string `json:"by"`
	From  uint32 `json:"from"`            // a view
	Since uint64 `json:"since,omitempty"` // all changes since the snapshot of this number were undone
}

// Seen is what users see of a record.
func (r *SnapshotRecord) Seen() info.Info {
	i := r.Info
	i.View, i.Sealed, i.Lineage = r.View, r.ID != "", r.Lineage
	return i
}

// Load makes the snapshot that a record describes, without its state.
func (r *SnapshotRecord) Load() (*Snapshot, error) {
	s := &Snapshot{Info: r.Seen(), WS: r.WS, Dir: r.Dir, Undoes: r.Undoes, Done: make(chan struct{}), Changes: actors.Changes{Names: r.Actors, Stored: r.ActorSets}}
	if !s.Sealed {
		return s, nil
	}
	close(s.Done)
	var err error
	s.Hash, err = cas.ParseHash(r.ID)
	return s, err
}

// Scan calls fn for each record of the catalogue whose key begins with a prefix.
func Scan[R any](c *cas.Store, prefix string, fn func(R) error) error {
	return c.ScanMeta(prefix, func(key string, value []byte) error {
		var r R
		err := json.Unmarshal(value, &r)
		if err == nil {
			err = fn(r)
		}
		if err != nil {
			return errs.New(errs.Damaged, "catalogue record %s: %w", key, err)
		}
		return nil
	})
}
