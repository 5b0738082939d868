package info

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
)

// The kinds of snapshots: why they were taken.
const (
	KindManual     = "manual"
	KindTurn       = "turn"  // before an agent's turn
	KindCall       = "call"  // after a call of an agent's tool that changed something
	KindActor      = "actor" // before an actor changed a file that another actor had changed
	KindAuto       = "auto"
	KindPreRestore = "pre-restore"
	KindFork       = "fork"
	KindImport     = "import"
	KindPull       = "pull"
)

// Kinds are all kinds of snapshots.
var Kinds = []string{KindManual, KindTurn, KindCall, KindActor, KindAuto, KindPreRestore, KindFork, KindImport, KindPull}

// Counts are the numbers of events between a snapshot and the snapshot before.
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
	Seq     uint64            `json:"seq" jsonschema:"its number, which is never used again: cp-N"`
	ID      string            `json:"id" jsonschema:"BLAKE3 of the root, 64 hex digits; empty until stored"`
	Parent  string            `json:"parent" jsonschema:"the snapshot before, or the one that was restored since"`
	Kind    string            `json:"kind" jsonschema:"why it was taken"`
	Message string            `json:"message"`
	Labels  map[string]string `json:"labels,omitempty"`
	Created time.Time         `json:"created"`
	Expires *time.Time        `json:"expires,omitempty"`
	Process
	Files       int64 `json:"files" jsonschema:"number of files, without the root directory"`
	Bytes       int64 `json:"bytes" jsonschema:"sum of the file sizes"`
	UniqueBytes int64 `json:"unique_bytes" jsonschema:"bytes that storing it added to the store"`
	Events
	Exports
	Sealed bool `json:"stored" jsonschema:"whether it has its id"`
	Pinned bool `json:"pinned" jsonschema:"whether it is protected from deletion"`
	Origin
	View uint32 `json:"-"`
	Transfer
}

// Process is the process that requested a snapshot.
type Process struct {
	UID     uint32 `json:"uid"`
	PID     uint32 `json:"pid"`
	Command string `json:"command"`
}

// Events are the events between a snapshot and the snapshot before.
type Events struct {
	Counts     Counts `json:"counts" jsonschema:"events since the snapshot before: created, modified, deleted, restored"`
	FirstEvent uint64 `json:"first_event,omitempty" jsonschema:"the first of these events in the log"`
	LastEvent  uint64 `json:"last_event,omitempty" jsonschema:"the last one"`
}

// Exports are the git commits that a snapshot was exported as.
type Exports struct {
	GitCommit  string   `json:"git_commit,omitempty" jsonschema:"the commit of the last export"`
	GitCommits []string `json:"git_commits,omitempty" jsonschema:"commits of the last exports to different repositories, the newest last"`
}

// Origin describes where the contents of a snapshot came from.
type Origin struct {
	// Claim is set only by the store. The next claim of the label begins with the snapshot, so a user
	// or a remote that could set Claim would choose the contents of that fork.
	Claim     string   `json:"claim,omitempty" jsonschema:"the label of the claimed fork whose last state it is"`
	Actors    []string `json:"actors,omitempty" jsonschema:"the actors that changed anything since the snapshot before, in order"`
	Compacted bool     `json:"compacted,omitempty" jsonschema:"whether it was made of several snapshots"`
	Image     *Image   `json:"image,omitempty" jsonschema:"the image that was imported just before"`
	FormerIDs []string `json:"was,omitempty" jsonschema:"its ids before contents were forgotten, oldest first"`
}

// Transfer has the data that a snapshot has in addition while it is sent to another store or received from one.
// See catalogue.SnapshotRecord.
type Transfer struct {
	ActorSets []cas.Hash `json:"-"` // objects with the actors of the changes
	Lineage   []string   `json:"-"` // ids of earlier states
}

// Image is a container image that was imported.
type Image struct {
	Ref        string   `json:"ref" jsonschema:"as it was named"`
	Digest     string   `json:"digest" jsonschema:"of its manifest"`
	Config     string   `json:"config" jsonschema:"digest of its configuration"`
	Layers     []string `json:"layers" jsonschema:"digests of its layers, the lowest first"`
	Platform   string   `json:"platform" jsonschema:"as linux/arm/v7"`
	Path       string   `json:"path,omitempty" jsonschema:"the directory that it was imported into; empty: the root"`
	Merged     bool     `json:"merged,omitempty" jsonschema:"whether that directory had other files"`
	Owner      *Owner   `json:"owner,omitempty" jsonschema:"the user that its files were given to, if it was not root that imported it"`
	Entrypoint []string `json:"entrypoint,omitempty"`
	Cmd        []string `json:"cmd,omitempty"`
	Env        []string `json:"env,omitempty" jsonschema:"as NAME=VALUE"`
	User       string   `json:"user,omitempty" jsonschema:"USER or USER:GROUP, names or numbers"`
	WorkingDir string   `json:"working_dir,omitempty"`
}

// maxImageBytes is the largest size in bytes of an image in the record of a snapshot.
const maxImageBytes = 1 << 20

// Check returns an errs.TooBig error if an image is larger than maxImageBytes.
func (i *Image) Check() error {
	if b, err := json.Marshal(i); err != nil || len(b) > maxImageBytes {
		return errors.Join(err, errs.New(errs.TooBig, "the configuration of image %.100s has %d bytes that a snapshot keeps, at most %d are possible", i.Ref, len(b), maxImageBytes))
	}
	return nil
}

// Owner is a user and a group.
type Owner struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
}

// IsExpired reports whether the snapshot has an expiry time that is over.
func (i *Info) IsExpired(now time.Time) bool { return i.Expires != nil && now.After(*i.Expires) }

// IsPastState reports whether the snapshot is a past state of its workspace. It is not if it is a state of a fork,
// came from a remote, or was compacted from several snapshots.
func (i *Info) IsPastState() bool { return i.Kind != KindFork && i.Kind != KindPull && !i.Compacted }

// maxGitCommits is the largest number of commits in Exports.
const maxGitCommits = 32

// AddExport records the commit of an export of the snapshot.
func (e *Exports) AddExport(commit string) {
	e.GitCommit = commit
	list := slices.DeleteFunc(slices.Clone(e.GitCommits), func(c string) bool { return c == commit })
	list = append(list, commit)
	e.GitCommits = list[max(0, len(list)-maxGitCommits):]
}
