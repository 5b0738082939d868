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
	OriginManual     = "manual"
	OriginAuto       = "auto"
	OriginPreRestore = "pre-restore"
	OriginFork       = "fork"
	OriginImport     = "import"
)

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
	Name    string            `json:"name"`
	Seq     uint64            `json:"seq"`
	ID      string            `json:"id"`     // 64 hex digits, empty until sealed
	Parent  string            `json:"parent"` // the snapshot before, or that was restored
	Origin  string            `json:"origin"`
	Message string            `json:"message"`
	Labels  map[string]string `json:"labels,omitempty"`
	Created time.Time         `json:"created"`
	Expires *time.Time        `json:"expires,omitempty"`
	UID     uint32            `json:"uid"`
	PID     uint32            `json:"pid"`
	Command string            `json:"command"`
	Files   int64             `json:"files"` // without the root directory
	Bytes   int64             `json:"bytes"` // sum of the file sizes
	// UniqueBytes are the bytes that sealing it added to the store.
	UniqueBytes int64  `json:"unique_bytes"`
	Counts      Counts `json:"counts"`
	FirstEvent  uint64 `json:"first_event,omitempty"`
	LastEvent   uint64 `json:"last_event,omitempty"`
	GitCommit   string `json:"git_commit,omitempty"` // of the last export
	// GitCommits are those of the last exports, of which each repository has its
	// own; the newest is last.
	GitCommits []string `json:"git_commits,omitempty"`
	Sealed     bool     `json:"sealed"`
	Pinned     bool     `json:"pinned"`
	View       uint32   `json:"-"`
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
}

// stored is the catalogue's record of a snapshot, in the meta data of the
// chunk store and in the journal.
type stored struct {
	Info
	View uint32 `json:"view"`
	WS   uint32 `json:"ws"`
}

func (s *snap) stored() stored { return stored{Info: s.Info, View: s.View, WS: s.ws} }

func fromStored(r stored) (*snap, error) {
	s := &snap{Info: r.Info, ws: r.WS, done: make(chan struct{})}
	s.View = r.View
	if r.ID != "" {
		h, err := cas.ParseHash(r.ID)
		if err != nil {
			return nil, err
		}
		s.id = h
		s.Sealed = true
		close(s.done)
	}
	return s, nil
}

// maxGitCommits is how many exports of a snapshot are remembered.
const maxGitCommits = 32

// Exported remembers a commit that the snapshot was exported as.
func (i *Info) Exported(commit string) {
	i.GitCommit = commit
	list := slices.DeleteFunc(slices.Clone(i.GitCommits), func(c string) bool { return c == commit })
	list = append(list, commit)
	i.GitCommits = list[max(0, len(list)-maxGitCommits):]
}
