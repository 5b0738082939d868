package snapshot

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// The ways in which a snapshot comes about.
const (
	KindManual     = "manual"
	KindTurn       = "turn"  // of an agent
	KindActor      = "actor" // before an actor changed what another one had changed
	KindAuto       = "auto"
	KindPreRestore = "pre-restore"
	KindFork       = "fork"
	KindImport     = "import"
	KindPull       = "pull"
)

// Kinds are all of them.
var Kinds = []string{KindManual, KindTurn, KindActor, KindAuto, KindPreRestore, KindFork, KindImport, KindPull}

// Counts are the events between a snapshot and the one before.
type Counts struct {
	Created  int64 `json:"created"`
	Modified int64 `json:"modified"`
	Deleted  int64 `json:"deleted"`
	Restored int64 `json:"restored"`
}

// Info describes a snapshot. Its JSON form is what `info@NAME` and
// `amberfs show --json` print.
type Info struct {
	Name        string            `json:"name"`
	Seq         uint64            `json:"seq" jsonschema:"its number, which is never used again: cp-N"`
	ID          string            `json:"id" jsonschema:"BLAKE3 of the root, 64 hex digits; empty until stored"`
	Parent      string            `json:"parent" jsonschema:"the snapshot before, or the one that was restored since"`
	Kind        string            `json:"kind" jsonschema:"why it was taken"`
	Message     string            `json:"message"`
	Labels      map[string]string `json:"labels,omitempty"`
	Created     time.Time         `json:"created"`
	Expires     *time.Time        `json:"expires,omitempty"`
	UID         uint32            `json:"uid" jsonschema:"the user that took it"`
	PID         uint32            `json:"pid" jsonschema:"the process that took it"`
	Command     string            `json:"command" jsonschema:"the command of that process"`
	Files       int64             `json:"files" jsonschema:"number of files, without the root directory"`
	Bytes       int64             `json:"bytes" jsonschema:"sum of the file sizes"`
	UniqueBytes int64             `json:"unique_bytes" jsonschema:"bytes that storing it added to the store"`
	Counts      Counts            `json:"counts" jsonschema:"events since the snapshot before: created, modified, deleted, restored"`
	FirstEvent  uint64            `json:"first_event,omitempty" jsonschema:"the first of these events in the log"`
	LastEvent   uint64            `json:"last_event,omitempty" jsonschema:"the last one"`
	GitCommit   string            `json:"git_commit,omitempty" jsonschema:"the commit of the last export"`
	GitCommits  []string          `json:"git_commits,omitempty" jsonschema:"commits of the last exports to different repositories, the newest last"`
	Sealed      bool              `json:"stored" jsonschema:"whether it has its id"`
	Pinned      bool              `json:"pinned" jsonschema:"whether it is protected from deletion"`
	// No user and no remote can set Claim: the next claim of the label begins with the
	// snapshot.
	Claim     string   `json:"claim,omitempty" jsonschema:"the label of the claimed fork whose last state it is"`
	Actors    []string `json:"actors,omitempty" jsonschema:"the actors that changed anything since the snapshot before, in order"`
	Compacted bool     `json:"compacted,omitempty" jsonschema:"whether it was made of several snapshots"`
	View      uint32   `json:"-"`

	// ActorSets are the objects that came from a remote with it, see storedSnapshot.
	ActorSets []string `json:"-"`
}

// snap is a snapshot in the catalogue, guarded by the lock of the forest but
// for state.
type snap struct {
	Info
	ws    uint32 // view of its workspace
	id    cas.Hash
	state atomic.Pointer[tree.State] // nil until somebody looks into a sealed one
	done  chan struct{}              // closed when sealed
	// wanted by a checkpoint: it is sealed even when it is removed meanwhile,
	// since the journal after the checkpoint may still restore it.
	wanted bool
	// lazy: it is sealed only when a checkpoint needs it.
	lazy bool
	// retry is when the background seals it again after it failed, guarded by seal.mu.
	retry time.Time
	// text is how many bytes its message and labels have, 0 if not counted yet.
	text int64
	// changes are those since the snapshot before.
	changes changes
}

// storedSnapshot is the catalogue's record of a snapshot, in the metadata of the
// chunk store and in the journal.
type storedSnapshot struct {
	View uint32 `json:"view"`
	WS   uint32 `json:"ws"` // view of its workspace
	Info
	// ActorSets are the objects that have the actors of the changes since the snapshot before.
	ActorSets []string `json:"actor_sets,omitempty"`
}

func (s *snap) stored() storedSnapshot {
	return storedSnapshot{View: s.View, WS: s.ws, Info: s.Info, ActorSets: hashStrings(s.changes.stored)}
}

// info is what users see of a record.
func (r *storedSnapshot) info() Info {
	i := r.Info
	i.View, i.Sealed = r.View, r.ID != ""
	return i
}

// load makes the snapshot that a record tells of, without its state.
func (r *storedSnapshot) load() (*snap, error) {
	c, err := storedChanges(r.Actors, r.ActorSets)
	s := &snap{Info: r.info(), ws: r.WS, done: make(chan struct{}), changes: c}
	if !s.Sealed {
		return s, err
	}
	close(s.done)
	if err == nil {
		s.id, err = cas.ParseHash(r.ID)
	}
	return s, err
}

// Past reports whether the workspace was in the state of the snapshot: it never was in
// what a fork left, what came from a remote or what was made of several snapshots.
func (i *Info) Past() bool { return i.Kind != KindFork && i.Kind != KindPull && !i.Compacted }

// maxGitCommits is how many exports of a snapshot are remembered.
const maxGitCommits = 32

// Exported remembers a commit that the snapshot was exported as.
func (i *Info) Exported(commit string) {
	i.GitCommit = commit
	list := slices.DeleteFunc(slices.Clone(i.GitCommits), func(c string) bool { return c == commit })
	list = append(list, commit)
	i.GitCommits = list[max(0, len(list)-maxGitCommits):]
}
