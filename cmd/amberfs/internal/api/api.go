package api

import (
	"encoding/json"
	"time"

	"github.com/amberfs/amberfs/snapshot"
)

// Snapshot asks for a capture.
type Snapshot struct {
	Name    string            `json:"name"`
	Message string            `json:"message,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	Expires *time.Time        `json:"expires,omitempty"`
	// Wait answers only when the snapshot is sealed and has its id.
	Wait bool `json:"wait,omitempty"`
	// Pin protects the snapshot from retention and deletion.
	Pin bool `json:"pin,omitempty"`
}

// Name asks for one snapshot or fork.
type Name struct {
	Name string `json:"name"`
}

// Names asks for several.
type Names struct {
	Names []string `json:"names"`
}

// Pin asks to protect snapshots from deletion, or to end that.
type Pin struct {
	Names []string `json:"names"`
	Pin   bool     `json:"pinned"`
}

// Rename asks for another name.
type Rename struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// List is the result of "list".
type List struct {
	Snapshots []snapshot.Info `json:"snapshots"`
}

// Restore asks to go back: everything, or only some paths.
type Restore struct {
	Name   string              `json:"name"`
	Paths  []snapshot.BytePath `json:"paths,omitempty"`
	DryRun bool                `json:"dry_run,omitempty"`
}

// Restored is what a restore changed, or would change.
type Restored struct {
	Snapshot string       `json:"snapshot"`
	Changed  int          `json:"changed"`
	Paths    []PathChange `json:"paths"`
	// Undo is the snapshot of the state before.
	Undo   string `json:"undo,omitempty"`
	DryRun bool   `json:"dry_run,omitempty"`
}

// PathChange is one path of a restore, revert or promote.
type PathChange struct {
	Path   string `json:"path"`
	Action string `json:"action"`
}

// Revert asks for one path back; without a name from the newest snapshot in
// which it differs from now.
type Revert struct {
	Path snapshot.BytePath `json:"path"`
	Name string            `json:"name,omitempty"`
}

// Diff asks for the difference from A to B; no B means now.
type Diff struct {
	A     string              `json:"a"`
	B     string              `json:"b,omitempty"`
	Paths []snapshot.BytePath `json:"paths,omitempty"`
	// Format is "patch", "stat", "name-status" or "json".
	Format string `json:"format,omitempty"`
	Binary bool   `json:"binary,omitempty"`
	Width  int    `json:"width,omitempty"`
}

// DiffResult ends a diff.
type DiffResult struct {
	Files int          `json:"files"`
	Paths []DiffedFile `json:"paths"`
}

// DiffedFile is one line of a diff in JSON.
type DiffedFile struct {
	Status string `json:"status"` // A, M, D, T or R, as git prints them
	Path   string `json:"path"`
	From   string `json:"from,omitempty"` // of a rename
	Score  int    `json:"score,omitempty"`
}

// PathHistory asks what the snapshots did to a path.
type PathHistory struct {
	Path snapshot.BytePath `json:"path"`
	// All also tells of those that left it as it was.
	All bool `json:"all,omitempty"`
}

// History is what each snapshot did to one path, newest first.
type History struct {
	Path    string         `json:"path"`
	Entries []HistoryEntry `json:"entries"`
}

// HistoryEntry is a snapshot in which the path was new, modified or deleted.
type HistoryEntry struct {
	Snapshot string    `json:"snapshot"` // "" is the present state
	Seq      uint64    `json:"seq,omitempty"`
	ID       string    `json:"id,omitempty"`
	Created  time.Time `json:"created"`
	Message  string    `json:"message,omitempty"`
	Action   string    `json:"action"` // created, modified, deleted, unchanged
	Size     int64     `json:"size"`
}

// Fork asks for a fork of a snapshot; no snapshot means now.
type Fork struct {
	Snapshot string `json:"snapshot,omitempty"`
	Name     string `json:"name"`
}

// Forked is a new fork.
type Forked struct {
	Name     string `json:"name"`
	Snapshot string `json:"snapshot,omitempty"`
	Path     string `json:"path"`
}

// Ended is a fork that has ended.
type Ended struct {
	Name     string `json:"name"`
	Snapshot string `json:"snapshot"` // of its last state
}

// Forks is the result of "forks".
type Forks struct {
	Forks []snapshot.ForkInfo `json:"forks"`
}

// Promote asks to merge a fork's changes into its parent.
type Promote struct {
	Fork   string `json:"fork"`
	Ours   bool   `json:"ours,omitempty"`
	Theirs bool   `json:"theirs,omitempty"`
}

// Promoted is what a merge changed, or the paths that stood against it.
type Promoted struct {
	Fork      string       `json:"fork"`
	Changed   int          `json:"changed"`
	Paths     []PathChange `json:"paths"`
	Conflicts []string     `json:"conflicts,omitempty"`
	Undo      string       `json:"undo,omitempty"`
}

// Freeze asks to hold back every change.
type Freeze struct {
	For time.Duration `json:"for"`
}

// Frozen says until when changes are held back.
type Frozen struct {
	Until time.Time `json:"until"`
}

// Log asks for events.
type Log struct {
	Path   snapshot.BytePath `json:"path,omitempty"`
	Follow bool              `json:"follow,omitempty"`
}

// Policy asks for the retention policy, or sets it.
type Policy struct {
	Set json.RawMessage `json:"set,omitempty"`
}

// GC is what a collection gave back.
type GC struct {
	Objects int64 `json:"objects"` // deleted
	Bytes   int64 `json:"bytes"`   // of disk
}

// Verify asks to check everything stored.
type Verify struct {
	Repair bool `json:"repair,omitempty"`
}

// Umount asks the daemon to unmount and end.
type Umount struct {
	Lazy bool `json:"lazy,omitempty"`
}

// GitCache is the directory of the store that has what is known of repositories.
const GitCache = "gitcache"

// Opened is a snapshot whose objects the daemon hands out.
type Opened struct {
	Info  snapshot.Info `json:"info"`
	State string        `json:"state"` // hash of the state object
	// Parents are the commits of the snapshots before, the nearest first; Bases
	// are exported snapshots, by how much they are likely to have in common.
	Parents []string `json:"parents"`
	Bases   []Base   `json:"bases"`
}

// Base is a snapshot that was exported before.
type Base struct {
	State   string   `json:"state"`
	Commits []string `json:"commits"`
}

// Exported tells of an export.
type Exported struct {
	Name   string `json:"name"`
	Repo   string `json:"repo"`
	Ref    string `json:"ref"`
	Commit string `json:"commit"`
}

// Skipped is something that an export or import left out, and why.
type Skipped struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// The kinds of trees that are brought in.
const (
	FromDir   = "dir"
	FromTar   = "tar"
	FromGit   = "git"
	FromClone = "clone"
)

// Import asks for a tree, which follows as a feed, to be brought in at Path.
type Import struct {
	From string            `json:"from"`
	Path snapshot.BytePath `json:"path,omitempty"`
	// Umask takes permissions away from directories that are made on the way.
	Umask uint32 `json:"umask"`
}

// StampIndex asks for the index of git that follows to be sent back with the
// stat data of the working tree at Path.
type StampIndex struct {
	Path   snapshot.BytePath `json:"path"`
	SHA256 bool              `json:"sha256"`
}

// Imported is what was brought in.
type Imported struct {
	Path    string    `json:"path"`
	Files   int64     `json:"files"`
	Bytes   int64     `json:"bytes"`
	Skipped []Skipped `json:"skipped,omitempty"`
	// Undo is the snapshot of the state before.
	Undo string `json:"undo,omitempty"`
}

// Status is how a workspace, its store and its daemon are.
type Status struct {
	snapshot.Status
	Mountpoint string    `json:"mountpoint"`
	Options    string    `json:"options,omitempty"` // as after -o
	PID        int       `json:"pid"`
	Version    string    `json:"version"`
	Started    time.Time `json:"started"`
	Uptime     float64   `json:"uptime_seconds,omitempty"`
	// Requests counts what the kernel asked, by FUSE operation.
	Requests map[string]uint64 `json:"requests,omitempty"`
}

// Cloned is a clone that was made.
type Cloned struct {
	Commit string `json:"commit"` // that is checked out; "" of an empty repository
	Imported
}
