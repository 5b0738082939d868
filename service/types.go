package service

import (
	"encoding/json"
	"time"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// The arguments and results of operations are promises to scripts: JSON fields
// are added, never renamed or removed.

// None are no arguments, or a result that says nothing.
type None struct{}

// Snapshot asks for a capture.
type Snapshot struct {
	Name    string            `json:"name,omitempty" jsonschema:"what to call it; cp-NUMBER if empty"`
	Message string            `json:"message,omitempty" jsonschema:"what this state is"`
	Labels  map[string]string `json:"labels,omitempty" jsonschema:"keys and values to find it by"`
	Expires string            `json:"expires,omitempty" jsonschema:"delete it after this time: 30m, 24h, 7d, 2w, or a date in RFC 3339"`
	Kind    string            `json:"kind,omitempty" jsonschema:"manual or turn"`
	Wait    bool              `json:"wait,omitempty" jsonschema:"answer only when it is sealed and has its id"`
	Pinned  bool              `json:"pinned,omitempty" jsonschema:"protect it from retention and deletion"`
	// IfChanged is for hooks: a turn in which nothing happened leaves no snapshot.
	IfChanged bool `json:"if_changed,omitempty" jsonschema:"make none if nothing differs from the newest one, which is the answer then"`
}

// List asks for the snapshots: all or, of those that fit, the newest.
type List struct {
	Limit   int               `json:"limit,omitempty" jsonschema:"at most so many; any number if 0"`
	Since   string            `json:"since,omitempty" jsonschema:"only those made since: a span such as 2h or 7d, or a date in RFC 3339"`
	Kind    string            `json:"kind,omitempty" jsonschema:"only those of this kind"`
	Without string            `json:"without,omitempty" jsonschema:"leave out those of this kind"`
	Labels  map[string]string `json:"labels,omitempty" jsonschema:"only those with these labels"`
}

// Snapshots is the result of List, newest first.
type Snapshots struct {
	Snapshots []snapshot.Info `json:"snapshots"`
}

// Show asks for everything about one snapshot.
type Show struct {
	Name string `json:"name" jsonschema:"a name, cp-NUMBER, eight or more digits of an id, latest, undo or base"`
}

// Rename asks for another name of a snapshot.
type Rename struct {
	From string `json:"from" jsonschema:"the present name"`
	To   string `json:"to" jsonschema:"the new name"`
}

// Remove asks to delete snapshots: all of them or, if one is unknown, none.
type Remove struct {
	Names []string `json:"names" jsonschema:"the snapshots"`
}

// Removed names what was deleted.
type Removed struct {
	Names []string `json:"names"`
}

// Compact asks for one snapshot of all files that some have, of each path the newest;
// the others go unless they are pinned. Compacted is the new snapshot.
type (
	Compact   = snapshot.CompactOptions
	Compacted = snapshot.Compacted
)

// DU asks what deleting snapshots would give back.
type DU struct {
	Names []string `json:"names,omitempty" jsonschema:"the snapshots; all, and all forks, if empty"`
}

// Pin asks to protect snapshots from deletion, or to end that.
type Pin struct {
	Names []string `json:"names" jsonschema:"the snapshots"`
	Pin   bool     `json:"pinned" jsonschema:"false ends the protection"`
}

// Pinned is the result of Pin.
type Pinned struct {
	Names []string `json:"names"`
	Pin   bool     `json:"pinned"`
}

// Restore asks to go back: everything, or only some paths.
type Restore struct {
	Name   string            `json:"name" jsonschema:"the snapshot to go back to"`
	Paths  []naming.BytePath `json:"paths,omitempty" jsonschema:"only these files and directories, relative to the workspace"`
	Keep   []naming.BytePath `json:"keep,omitempty" jsonschema:"paths that a restore of everything leaves as they are, beside restore_keeps of the policy"`
	DryRun bool              `json:"dry_run,omitempty" jsonschema:"only say what would change"`
}

// Restored is what a restore changed, or would change.
type Restored struct {
	snapshot.RestoreResult
	DryRun bool      `json:"dry_run,omitempty"`
	Open   []Program `json:"open,omitempty" jsonschema:"programs that still have a changed file open, and see what it was before"`
}

// Program is one that has a file open, as far as the daemon may see it.
type Program struct {
	PID     int    `json:"pid"`
	Command string `json:"command"`
	Path    string `json:"path,omitempty" jsonschema:"one of the files, as the program sees it"`
}

// Revert asks for one path back.
type Revert struct {
	Path naming.BytePath `json:"path" jsonschema:"the file or directory, relative to the workspace"`
	Name string          `json:"name,omitempty" jsonschema:"the snapshot; the newest in which it differs from now if empty"`
}

// Diff asks for the difference from A to B.
type Diff struct {
	A      string            `json:"a" jsonschema:"the snapshot to compare from"`
	B      string            `json:"b,omitempty" jsonschema:"the snapshot to compare with; the present state if empty"`
	Paths  []naming.BytePath `json:"paths,omitempty" jsonschema:"only these files and directories"`
	Format string            `json:"format,omitempty" jsonschema:"patch, stat or name-status"`
	Binary bool              `json:"binary,omitempty" jsonschema:"binary files as patches that git apply takes"`
	Width  int               `json:"width,omitempty" jsonschema:"columns of stat"`
}

// Changes asks for the list of files that differ from A to B.
type Changes struct {
	A     string            `json:"a" jsonschema:"the snapshot to compare from"`
	B     string            `json:"b,omitempty" jsonschema:"the snapshot to compare with; the present state if empty"`
	Paths []naming.BytePath `json:"paths,omitempty" jsonschema:"only these files and directories"`
	Limit int               `json:"limit,omitempty" jsonschema:"how many to name at the most; all are counted"`
	Quick bool              `json:"quick,omitempty" jsonschema:"answer as soon as there are limit files, without renames"`
}

// Diffed is the result of Changes.
type Diffed struct {
	Files int          `json:"files"`
	More  bool         `json:"more,omitempty" jsonschema:"there are more than were counted, as it was to be quick"`
	Paths []DiffedFile `json:"paths"`
}

// DiffedFile is one changed file.
type DiffedFile struct {
	Status string `json:"status" jsonschema:"A, M, D, T or R, as git prints them"`
	Path   string `json:"path"`
	From   string `json:"from,omitempty" jsonschema:"of a rename"`
	Score  int    `json:"score,omitempty" jsonschema:"of a rename, in percent"`
}

// PathHistory asks what the snapshots did to a path.
type PathHistory struct {
	Path naming.BytePath `json:"path" jsonschema:"the file or directory, relative to the workspace"`
	All  bool            `json:"all,omitempty" jsonschema:"also the snapshots that left it as it was"`
}

// History is what each snapshot did to one path, newest first.
type History struct {
	Path    string         `json:"path"`
	Entries []HistoryEntry `json:"entries"`
}

// HistoryEntry is a snapshot in which the path was new, modified or deleted.
type HistoryEntry struct {
	Snapshot string    `json:"snapshot" jsonschema:"empty for the present state"`
	Seq      uint64    `json:"seq,omitempty"`
	ID       string    `json:"id,omitempty"`
	Created  time.Time `json:"created"`
	Message  string    `json:"message,omitempty"`
	Action   string    `json:"action" jsonschema:"created, modified, deleted or unchanged"`
	Size     int64     `json:"size"`
}

// Log asks for events.
type Log struct {
	Path   naming.BytePath `json:"path,omitempty" jsonschema:"only what happened at or below it"`
	After  uint64          `json:"after,omitempty" jsonschema:"only events with a greater number"`
	Since  string          `json:"since,omitempty" jsonschema:"only events since: a span such as 2h or 7d, or a date in RFC 3339"`
	Action string          `json:"action,omitempty" jsonschema:"only events of this action"`
	// Command is the name of the program, or its beginning.
	Command string `json:"command,omitempty" jsonschema:"only what programs did whose command line begins so"`
	Limit   int    `json:"limit,omitempty" jsonschema:"only the newest so many"`
	Follow  bool   `json:"follow,omitempty" jsonschema:"go on as things happen"`
	New     bool   `json:"new,omitempty" jsonschema:"only what happens from now on"`
}

// Fork asks for a new fork.
type Fork struct {
	Name     string `json:"name" jsonschema:"what to call the fork"`
	Snapshot string `json:"snapshot,omitempty" jsonschema:"the snapshot to start from, label:KEY=VALUE for the newest with it, or REMOTE@SNAPSHOT; the present state if empty"`
	TTL      string `json:"ttl,omitempty" jsonschema:"end it by itself after this span: 30m, 1h, 7d"`
}

// Forked is a new fork.
type Forked struct {
	Name     string `json:"name"`
	Snapshot string `json:"snapshot,omitempty"`
	Path     string `json:"path" jsonschema:"where it is; relative to the workspace for a caller in the mount"`
}

// RenameFork asks for another name of a fork.
type RenameFork struct {
	From string `json:"from" jsonschema:"the present name"`
	To   string `json:"to" jsonschema:"the new name"`
}

// EndFork asks to end a fork, after a capture of its last state.
type EndFork struct {
	Name    string `json:"name" jsonschema:"the fork"`
	Discard bool   `json:"discard,omitempty" jsonschema:"keep nothing of it"`
	Force   bool   `json:"force,omitempty" jsonschema:"also if it is the root or working directory of programs"`
}

// Claim asks for the one fork that belongs to a label.
type Claim struct {
	Label string `json:"label" jsonschema:"whose fork it is, and what it is called"`
	From  string `json:"from,omitempty" jsonschema:"the snapshot that a fresh one starts from, or REMOTE@SNAPSHOT; the present state if empty"`
	TTL   string `json:"ttl,omitempty" jsonschema:"end it by itself after this span: 30m, 1h, 7d; each claim begins it anew"`
}

// Claimed is a fork that was claimed, and how it came about.
type Claimed struct {
	Path string `json:"path" jsonschema:"where it is; relative to the workspace for a caller in the mount"`
	Tier string `json:"tier" jsonschema:"resumed: it was there; snapshot: from what it left; fresh: new"`
	From string `json:"from,omitempty" jsonschema:"the snapshot that it was made from"`
}

// Ended is a fork that has ended.
type Ended struct {
	Name     string `json:"name"`
	Snapshot string `json:"snapshot" jsonschema:"of its last state"`
}

// Forks asks for the forks of a workspace.
type Forks struct{}

// ForkList is the result of Forks.
type ForkList struct {
	Forks []ForkState `json:"forks"`
}

// ForkState is a fork with what changed in it.
type ForkState struct {
	snapshot.ForkInfo
	TTL     string `json:"ttl,omitempty" jsonschema:"the time until it is deleted, as 59m30s"`
	Changed int    `json:"changed" jsonschema:"files that differ from its base; counted up to 1000 and for a second at most"`
	More    bool   `json:"more,omitempty" jsonschema:"not all changed files were counted"`
}

// Promote asks to merge a fork's changes into its parent.
type Promote struct {
	Fork   string `json:"fork" jsonschema:"the fork"`
	Ours   bool   `json:"ours,omitempty" jsonschema:"of what both sides changed, keep the workspace's"`
	Theirs bool   `json:"theirs,omitempty" jsonschema:"of what both sides changed, take the fork's"`
	// Resolve decides single paths, before Ours and Theirs.
	Resolve map[string]string `json:"resolve,omitempty" jsonschema:"ours or theirs by path, for single ones of what both sides changed"`
	DryRun  bool              `json:"dry_run,omitempty" jsonschema:"only say what would change"`
}

// Promoted is what a merge changed, or would change, or the paths that stood against it.
type Promoted struct {
	snapshot.PromoteResult
	DryRun bool      `json:"dry_run,omitempty"`
	Open   []Program `json:"open,omitempty" jsonschema:"programs that still have a changed file open, and see what it was before"`
}

// Policy asks for the policy of a workspace.
type Policy struct{}

// SetPolicy asks to change it.
type SetPolicy struct {
	Patch json.RawMessage `json:"patch" jsonschema:"a JSON merge patch (RFC 7396)"`
}

// GetStatus asks how a workspace and its store are.
type GetStatus struct{}

// Status is how a workspace, its store and its daemon are.
type Status struct {
	snapshot.Status
	Mountpoint string    `json:"mountpoint"`
	Options    string    `json:"options,omitempty" jsonschema:"as after -o"`
	PID        int       `json:"pid"`
	Version    string    `json:"version"`
	Started    time.Time `json:"started"`
	Uptime     float64   `json:"uptime_seconds,omitempty"`
	// Requests counts what the kernel asked, by FUSE operation.
	Requests   map[string]uint64 `json:"requests,omitempty" jsonschema:"what the kernel asked, by FUSE operation"`
	Remotes    []RemoteState     `json:"remotes,omitempty" jsonschema:"those that do not answer, or that you have not agreed to"`
	FromRemote bool              `json:"from_remote,omitempty" jsonschema:"the store began from a remote: contents that were not changed need not be in it"`
	Push       *BackupState      `json:"push,omitempty" jsonschema:"the pushes that the policy asks for"`
}

// Freeze asks to hold back every change.
type Freeze struct {
	For string `json:"for,omitempty" jsonschema:"for how long: 30s if empty, at most 10m"`
}

// Frozen says until when changes are held back.
type Frozen struct {
	Until time.Time `json:"until"`
}

// Thaw asks to let changes go on.
type Thaw struct{}

// Thawed says whether they had been held back.
type Thawed struct {
	Thawed bool `json:"thawed"`
}

// GC asks to free what nothing needs.
type GC struct{}

// Collected is what a collection gave back.
type Collected struct {
	Objects int64 `json:"objects" jsonschema:"deleted"`
	Bytes   int64 `json:"bytes" jsonschema:"of disk"`
}

// Verify asks to check everything stored.
type Verify struct{}

// Umount asks the daemon to unmount and end.
type Umount struct {
	Lazy bool `json:"lazy,omitempty" jsonschema:"detach now, end when nobody uses it any more"`
}

// Unmounted tells what was unmounted.
type Unmounted struct {
	PID        int    `json:"pid"`
	Store      string `json:"store"`
	Mountpoint string `json:"mountpoint"`
}
