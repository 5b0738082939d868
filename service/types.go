package service

import (
	"encoding/json"
	"time"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// The arguments and results of operations are promises to scripts: JSON fields
// are added, never renamed or removed.

// None has no fields: no arguments, or an empty result.
type None struct{}

// Snapshot takes a snapshot.
type Snapshot struct {
	Name    string            `json:"name,omitempty" jsonschema:"its name; cp-NUMBER if empty"`
	Message string            `json:"message,omitempty" jsonschema:"its message"`
	Labels  map[string]string `json:"labels,omitempty" jsonschema:"labels: keys and values"`
	Expires string            `json:"expires,omitempty" jsonschema:"delete it after this time: 30m, 24h, 7d, 2w, or a date in RFC 3339"`
	Kind    string            `json:"kind,omitempty" jsonschema:"manual or turn"`
	Wait    bool              `json:"wait,omitempty" jsonschema:"answer when it is stored and has its id"`
	Pinned  bool              `json:"pinned,omitempty" jsonschema:"protect it from deletion"`
	// IfChanged is for hooks: a turn in which nothing happened leaves no snapshot.
	IfChanged bool `json:"if_changed,omitempty" jsonschema:"take none if nothing differs from the newest snapshot, and answer with that one"`
}

// List lists snapshots.
type List struct {
	Limit   int               `json:"limit,omitempty" jsonschema:"at most this many; 0: all"`
	Since   string            `json:"since,omitempty" jsonschema:"only those taken since: a duration such as 2h or 7d, or a date in RFC 3339"`
	Kind    string            `json:"kind,omitempty" jsonschema:"only those of this kind"`
	Without string            `json:"without,omitempty" jsonschema:"leave out those of this kind"`
	Labels  map[string]string `json:"labels,omitempty" jsonschema:"only those with these labels"`
}

// Snapshots is the result of List, newest first.
type Snapshots struct {
	Snapshots []snapshot.Info `json:"snapshots"`
}

// Show returns everything about one snapshot.
type Show struct {
	Name string `json:"name" jsonschema:"a name, cp-NUMBER, eight or more digits of an id, latest, undo or base"`
}

// Rename renames a snapshot.
type Rename struct {
	From string `json:"from" jsonschema:"the present name"`
	To   string `json:"to" jsonschema:"the new name"`
}

// Remove deletes snapshots: all of them or, if one is unknown, none.
type Remove struct {
	Names []string `json:"names" jsonschema:"the snapshots"`
}

// Removed is the result of Remove.
type Removed struct {
	Names []string `json:"names"`
}

// Compact replaces snapshots by one that contains all of their files, each in its
// newest version. Pinned snapshots stay. Compacted is the new snapshot.
type (
	Compact   = snapshot.CompactOptions
	Compacted = snapshot.Compacted
)

// DU returns the space that deleting snapshots would free.
type DU struct {
	Names []string `json:"names,omitempty" jsonschema:"the snapshots; if empty, all snapshots and forks"`
}

// Pin protects snapshots from deletion, or ends the protection.
type Pin struct {
	Names []string `json:"names" jsonschema:"the snapshots"`
	Pin   bool     `json:"pinned" jsonschema:"false ends the protection"`
}

// Pinned is the result of Pin.
type Pinned struct {
	Names []string `json:"names"`
	Pin   bool     `json:"pinned"`
}

// Restore restores the whole workspace, or some paths.
type Restore struct {
	Name   string            `json:"name" jsonschema:"the snapshot to restore"`
	Paths  []naming.BytePath `json:"paths,omitempty" jsonschema:"only these files and directories, relative to the workspace"`
	Keep   []naming.BytePath `json:"keep,omitempty" jsonschema:"paths that a restore of the whole workspace leaves as they are, in addition to restore_keeps of the policy"`
	DryRun bool              `json:"dry_run,omitempty" jsonschema:"change nothing, and return what would change"`
}

// Restored is what a restore changed, or would change.
type Restored struct {
	snapshot.RestoreResult
	DryRun bool      `json:"dry_run,omitempty"`
	Open   []Program `json:"open,omitempty" jsonschema:"programs that have a replaced file open and still read its old contents"`
}

// Program is a program that has a file open. The daemon sees only programs whose
// descriptors it may list.
type Program struct {
	PID     int    `json:"pid"`
	Command string `json:"command"`
	Path    string `json:"path,omitempty" jsonschema:"one of the files, as the program sees it"`
}

// Revert restores one path.
type Revert struct {
	Path naming.BytePath `json:"path" jsonschema:"the file or directory, relative to the workspace"`
	Name string          `json:"name,omitempty" jsonschema:"the snapshot; if empty, the newest one in which the path differs from now"`
}

// Diff returns the differences from A to B.
type Diff struct {
	A      string            `json:"a" jsonschema:"the snapshot to compare from"`
	B      string            `json:"b,omitempty" jsonschema:"the snapshot to compare with; if empty, the present state"`
	Paths  []naming.BytePath `json:"paths,omitempty" jsonschema:"only these files and directories"`
	Format string            `json:"format,omitempty" jsonschema:"patch, stat or name-status"`
	Binary bool              `json:"binary,omitempty" jsonschema:"print binary files as patches that git apply accepts"`
	Width  int               `json:"width,omitempty" jsonschema:"columns for the format stat"`
}

// Changes lists the files that differ from A to B.
type Changes struct {
	A     string            `json:"a" jsonschema:"the snapshot to compare from"`
	B     string            `json:"b,omitempty" jsonschema:"the snapshot to compare with; if empty, the present state"`
	Paths []naming.BytePath `json:"paths,omitempty" jsonschema:"only these files and directories"`
	Limit int               `json:"limit,omitempty" jsonschema:"at most this many paths; all are counted"`
	Quick bool              `json:"quick,omitempty" jsonschema:"answer when limit files are found, without renames"`
}

// Diffed is the result of Changes.
type Diffed struct {
	Files int          `json:"files"`
	More  bool         `json:"more,omitempty" jsonschema:"the count is incomplete, because of quick"`
	Paths []DiffedFile `json:"paths"`
}

// DiffedFile is one changed file.
type DiffedFile struct {
	Status string `json:"status" jsonschema:"A, M, D, T or R, as git prints them"`
	Path   string `json:"path"`
	From   string `json:"from,omitempty" jsonschema:"the old path, of a rename"`
	Score  int    `json:"score,omitempty" jsonschema:"similarity in percent, of a rename"`
}

// PathHistory lists the snapshots in which a path changed.
type PathHistory struct {
	Path naming.BytePath `json:"path" jsonschema:"the file or directory, relative to the workspace"`
	All  bool            `json:"all,omitempty" jsonschema:"also the snapshots in which it did not change"`
}

// History is how one path changed from snapshot to snapshot, newest first.
type History struct {
	Path    string         `json:"path"`
	Entries []HistoryEntry `json:"entries"`
}

// HistoryEntry is a snapshot in which the path was created, modified or deleted.
type HistoryEntry struct {
	Snapshot string    `json:"snapshot" jsonschema:"empty for the present state"`
	Seq      uint64    `json:"seq,omitempty"`
	ID       string    `json:"id,omitempty"`
	Created  time.Time `json:"created"`
	Message  string    `json:"message,omitempty"`
	Action   string    `json:"action" jsonschema:"created, modified, deleted or unchanged"`
	Size     int64     `json:"size"`
}

// Log returns events.
type Log struct {
	Path    naming.BytePath `json:"path,omitempty" jsonschema:"only events at or below this path"`
	After   uint64          `json:"after,omitempty" jsonschema:"only events with a greater number"`
	Since   string          `json:"since,omitempty" jsonschema:"only events since: a duration such as 2h or 7d, or a date in RFC 3339"`
	Action  string          `json:"action,omitempty" jsonschema:"only events of this action"`
	Command string          `json:"command,omitempty" jsonschema:"only events of programs whose command begins with this"`
	Limit   int             `json:"limit,omitempty" jsonschema:"only the newest this many"`
	Follow  bool            `json:"follow,omitempty" jsonschema:"continue as events happen"`
	New     bool            `json:"new,omitempty" jsonschema:"only events from now on"`
}

// Fork creates a fork.
type Fork struct {
	Name     string `json:"name" jsonschema:"the name of the fork"`
	Snapshot string `json:"snapshot,omitempty" jsonschema:"the snapshot it begins with: a name, label:KEY=VALUE for the newest with that label, or REMOTE@SNAPSHOT; if empty, the present state"`
	TTL      string `json:"ttl,omitempty" jsonschema:"delete the fork after this time: 30m, 1h, 7d"`
}

// Forked is a new fork.
type Forked struct {
	Name     string `json:"name"`
	Snapshot string `json:"snapshot,omitempty"`
	Path     string `json:"path" jsonschema:"its path; relative to the workspace for a caller in the mount"`
}

// RenameFork renames a fork.
type RenameFork struct {
	From string `json:"from" jsonschema:"the present name"`
	To   string `json:"to" jsonschema:"the new name"`
}

// DeleteFork deletes a fork, after a snapshot of its last state.
type DeleteFork struct {
	Name    string `json:"name" jsonschema:"the fork"`
	Discard bool   `json:"discard,omitempty" jsonschema:"keep no snapshot of its last state, and delete the forks in it"`
	Force   bool   `json:"force,omitempty" jsonschema:"also if programs have it as root or working directory"`
}

// Claim returns the fork with a label, and creates it if there is none.
type Claim struct {
	Label string `json:"label" jsonschema:"the label, which is also the name of the fork"`
	From  string `json:"from,omitempty" jsonschema:"the snapshot that a new fork begins with, or REMOTE@SNAPSHOT; if empty, the present state"`
	TTL   string `json:"ttl,omitempty" jsonschema:"delete the fork after this time without a claim: 30m, 1h, 7d"`
}

// Claimed is the result of Claim.
type Claimed struct {
	Path string `json:"path" jsonschema:"its path; relative to the workspace for a caller in the mount"`
	Tier string `json:"tier" jsonschema:"resumed: it existed; snapshot: created from the last state of an earlier fork with the label; fresh: created from from"`
	From string `json:"from,omitempty" jsonschema:"the snapshot it began with"`
}

// DeletedFork is the result of DeleteFork.
type DeletedFork struct {
	Name     string `json:"name"`
	Snapshot string `json:"snapshot" jsonschema:"the snapshot of its last state"`
}

// Forks lists the forks of a workspace.
type Forks struct{}

// ForkList is the result of Forks.
type ForkList struct {
	Forks []ForkState `json:"forks"`
}

// ForkState is a fork with what changed in it.
type ForkState struct {
	snapshot.ForkInfo
	TTL     string `json:"ttl,omitempty" jsonschema:"the time until it is deleted: 59m30s"`
	Changed int    `json:"changed" jsonschema:"files that differ from its base; at most 1000 are counted, for at most a second"`
	More    bool   `json:"more,omitempty" jsonschema:"not all changed files were counted"`
}

// Merge merges a fork's changes into its parent.
type Merge struct {
	Fork   string `json:"fork" jsonschema:"the fork"`
	Ours   bool   `json:"ours,omitempty" jsonschema:"keep the workspace's version of conflicting paths"`
	Theirs bool   `json:"theirs,omitempty" jsonschema:"take the fork's version of conflicting paths"`
	// Resolve decides single paths, before Ours and Theirs.
	Resolve map[string]string `json:"resolve,omitempty" jsonschema:"ours or theirs, by path, for single conflicting paths"`
	DryRun  bool              `json:"dry_run,omitempty" jsonschema:"change nothing, and return what would change"`
}

// Merged is what a merge changed or would change, or its conflicts.
type Merged struct {
	snapshot.PromoteResult
	DryRun bool      `json:"dry_run,omitempty"`
	Open   []Program `json:"open,omitempty" jsonschema:"programs that have a replaced file open and still read its old contents"`
}

// Policy returns the policy of a workspace.
type Policy struct{}

// SetPolicy changes the policy.
type SetPolicy struct {
	Patch json.RawMessage `json:"patch" jsonschema:"a JSON merge patch (RFC 7396)"`
}

// GetStatus returns the state of a workspace and its store.
type GetStatus struct{}

// Status is the state of a workspace, its store and its daemon.
type Status struct {
	snapshot.Status
	Mountpoint string            `json:"mountpoint"`
	Options    string            `json:"options,omitempty" jsonschema:"the mount options"`
	PID        int               `json:"pid"`
	Version    string            `json:"version"`
	Started    time.Time         `json:"started"`
	Uptime     float64           `json:"uptime_seconds,omitempty"`
	Requests   map[string]uint64 `json:"requests,omitempty" jsonschema:"number of the kernel's requests by FUSE operation, on the command line only"`
	Remotes    []RemoteState     `json:"remotes,omitempty" jsonschema:"remotes that do not answer, or that you have not agreed to"`
	FromRemote bool              `json:"from_remote,omitempty" jsonschema:"the store began with a snapshot of a remote: unchanged contents may be only there"`
	Push       *BackupState      `json:"push,omitempty" jsonschema:"the automatic pushes"`
}

// Freeze stops all changes for a time.
type Freeze struct {
	For string `json:"for,omitempty" jsonschema:"how long; 30s if empty, at most 10m"`
}

// Frozen is the time until which changes wait.
type Frozen struct {
	Until time.Time `json:"until"`
}

// Thaw ends a freeze.
type Thaw struct{}

// Thawed reports whether there was a freeze.
type Thawed struct {
	Thawed bool `json:"thawed"`
}

// GC frees what nothing needs.
type GC struct{}

// Collected is what a gc freed.
type Collected struct {
	Objects int64 `json:"objects" jsonschema:"number of deleted objects"`
	Bytes   int64 `json:"bytes" jsonschema:"bytes freed on disk"`
}

// Verify checks everything stored.
type Verify struct{}

// Umount unmounts and ends the daemon.
type Umount struct {
	Lazy bool `json:"lazy,omitempty" jsonschema:"detach now, and end when no program uses the mount"`
}

// Unmounted is the result of Umount.
type Unmounted struct {
	PID        int    `json:"pid"`
	Store      string `json:"store"`
	Mountpoint string `json:"mountpoint"`
}
