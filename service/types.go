package service

import (
	"encoding/json"
	"time"

	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// The arguments and results of operations are promises to scripts: JSON fields are added, never renamed or removed. A
// type with the name of an operation has its arguments. In most cases the type with the participle of that name has
// its result, such as Import and Imported. Op.About describes each operation.

// None is the type of empty arguments and results.
type None struct{}

type List struct {
	Limit   int               `json:"limit,omitempty" jsonschema:"at most this many; 0: all"`
	Before  uint64            `json:"before,omitempty" jsonschema:"only those with a smaller seq"`
	Since   string            `json:"since,omitempty" jsonschema:"only those taken since: a duration such as 2h or 7d, or a date in RFC 3339"`
	Kind    string            `json:"kind,omitempty" jsonschema:"only those of this kind"`
	Without string            `json:"without,omitempty" jsonschema:"leave out those of this kind, or of these, with commas between them"`
	By      string            `json:"by,omitempty" jsonschema:"only those with changes of this actor"`
	Labels  map[string]string `json:"labels,omitempty" jsonschema:"only those with these labels"`
}

// Snapshots is the result of List, newest first.
type Snapshots struct {
	Snapshots []info.Info `json:"snapshots"`
	Head      string      `json:"head,omitempty" jsonschema:"the snapshot that the present state continues: the newest, or the one that was restored since"`
	Undo      string      `json:"undo,omitempty" jsonschema:"the snapshot of the state before the last restore, merge or undo"`
}

// Summaries has the arguments of the operation summaries.
type Summaries struct {
	Names []string `json:"names" jsonschema:"the snapshots, at most 100"`
}

// Summarized is the result of the operation summaries.
type Summarized struct {
	Summaries map[string]Summary `json:"summaries"`
}

type Summary struct {
	Against  string `json:"against" jsonschema:"the snapshot that it was compared with: its parent or, if that was deleted, the one before"`
	Added    int    `json:"added"`
	Modified int    `json:"modified"`
	Deleted  int    `json:"deleted"`
	Bytes    int64  `json:"bytes" jsonschema:"sum of the sizes of these files; of a deleted one before"`
	More     bool   `json:"more,omitempty" jsonschema:"only the first 10000 files are counted"`
}

type Show struct {
	Name string `json:"name" jsonschema:"a name, cp-NUMBER, eight or more digits of an id, latest, undo or base"`
}

type Rename struct {
	From string `json:"from" jsonschema:"the present name"`
	To   string `json:"to" jsonschema:"the new name"`
}

type Remove struct {
	Names  []string `json:"names" jsonschema:"the snapshots"`
	Forget bool     `json:"forget,omitempty" jsonschema:"keep nothing by which this can be undone"`
}

// Removed is the result of the operations remove and remove-pushed.
type Removed struct {
	Names []string  `json:"names" jsonschema:"the snapshots"`
	Kept  time.Time `json:"kept,omitzero" jsonschema:"until when this can be undone"`
}

// DU has the arguments of the operation du.
type DU struct {
	Names []string `json:"names,omitempty" jsonschema:"the snapshots; if empty, all snapshots and forks"`
}

type Pin struct {
	Names []string `json:"names" jsonschema:"the snapshots"`
	Pin   bool     `json:"pinned" jsonschema:"false ends the protection"`
}

type Pinned Pin // the result of the operation pin

type RestoreHunk struct {
	Name   string          `json:"name" jsonschema:"the snapshot to restore from"`
	B      string          `json:"b,omitempty" jsonschema:"the snapshot that it was compared with; if empty, the present state"`
	Path   naming.BytePath `json:"path" jsonschema:"the file, relative to the workspace"`
	From   naming.BytePath `json:"from,omitempty" jsonschema:"its old path, if it was renamed"`
	ID     string          `json:"id" jsonschema:"the id of the hunk"`
	DryRun bool            `json:"dry_run,omitempty" jsonschema:"change nothing, and check that it can be done"`
}

type Revert struct {
	Path naming.BytePath `json:"path" jsonschema:"the file or directory, relative to the workspace"`
	Name string          `json:"name,omitempty" jsonschema:"the snapshot; if empty, the newest one in which the path differs from now"`
}

type Diff struct {
	A      string            `json:"a" jsonschema:"the snapshot to compare from"`
	B      string            `json:"b,omitempty" jsonschema:"the snapshot to compare with; if empty, the present state"`
	Paths  []naming.BytePath `json:"paths,omitempty" jsonschema:"only these files and directories"`
	By     string            `json:"by,omitempty" jsonschema:"only files that this actor changed"`
	Format string            `json:"format,omitempty" jsonschema:"patch, stat or name-status"`
	Binary bool              `json:"binary,omitempty" jsonschema:"print binary files as patches that git apply accepts"`
	Width  int               `json:"width,omitempty" jsonschema:"columns for the format stat"`
}

// Changes has the arguments of the operation changes.
type Changes struct {
	A     string            `json:"a" jsonschema:"the snapshot to compare from"`
	B     string            `json:"b,omitempty" jsonschema:"the snapshot to compare with; if empty, the present state"`
	Paths []naming.BytePath `json:"paths,omitempty" jsonschema:"only these files and directories"`
	By    string            `json:"by,omitempty" jsonschema:"only files that this actor changed"`
	Limit int               `json:"limit,omitempty" jsonschema:"at most this many paths; all are counted"`
	Quick bool              `json:"quick,omitempty" jsonschema:"answer when limit files are found, without renames"`
	Lines bool              `json:"lines,omitempty" jsonschema:"count the changed lines of the first 300 files, for at most half a second"`
}

// Diffed is the result of the operation changes.
type Diffed struct {
	Files int          `json:"files"`
	More  bool         `json:"more,omitempty" jsonschema:"the count is incomplete, because of quick"`
	Paths []DiffedFile `json:"paths"`
}

type DiffedFile struct {
	Status string `json:"status" jsonschema:"A, M, D, T or R, as git prints them"`
	Path   string `json:"path"`
	From   string `json:"from,omitempty" jsonschema:"the old path, of a rename"`
	Score  int    `json:"score,omitempty" jsonschema:"similarity in percent, of a rename"`
	// Raw and RawFrom can be passed as arguments of the type naming.BytePath.
	Raw     string `json:"raw,omitempty" jsonschema:"the bytes of path in base64, if they are not UTF-8"`
	RawFrom string `json:"raw_from,omitempty" jsonschema:"the bytes of from in base64, if they are not UTF-8"`
	OldSize int64  `json:"old_size" jsonschema:"bytes before"`
	NewSize int64  `json:"new_size" jsonschema:"bytes after"`
	Added   *int64 `json:"added,omitempty" jsonschema:"added lines, if counted"`
	Removed *int64 `json:"removed,omitempty" jsonschema:"removed lines, if counted"`
	Binary  bool   `json:"binary,omitempty" jsonschema:"whether it has no lines, if counted"`
}

// Changed has the arguments of the operation changed.
type Changed struct {
	Since    string `json:"since,omitempty" jsonschema:"the snapshot to compare with; if empty or last, the snapshot of the last look"`
	Look     string `json:"look,omitempty" jsonschema:"who looks; looks of others do not count. If empty, the actor of the caller"`
	Message  string `json:"message,omitempty" jsonschema:"the message of the snapshot that is taken if something changed"`
	ForAgent bool   `json:"for_agent,omitempty" jsonschema:"a text of some 1,200 characters, or of all deleted and overwritten files"`
}

// WhatChanged is the result of Changed: the changes since a look or a snapshot.
type WhatChanged struct {
	Since    string       `json:"since" jsonschema:"the snapshot that was compared with"`
	Snapshot string       `json:"snapshot,omitempty" jsonschema:"the snapshot of this look; empty if nothing changed, or since names a snapshot"`
	Effects  []PathEffect `json:"effects" jsonschema:"deletions first, then overwritten files, renames, attributes, additions"`
	Git      []string     `json:"git,omitempty" jsonschema:"what changed in git directories: branches, HEAD, the index"`
	Undo     string       `json:"undo,omitempty" jsonschema:"the command that undoes exactly this"`
}

// A PathEffect is one change of a path, or of a directory with all that is in it.
type PathEffect struct {
	Action  string `json:"action" jsonschema:"deleted, overwritten, renamed, attributes or added"`
	Path    string `json:"path"`
	Raw     string `json:"raw,omitempty" jsonschema:"the bytes of path in base64, if they are not UTF-8"`
	From    string `json:"from,omitempty" jsonschema:"the old path of the file, if it was renamed"`
	Dir     bool   `json:"dir,omitempty" jsonschema:"it is a directory"`
	Files   int    `json:"files,omitempty" jsonschema:"files in a directory that was deleted or added"`
	OldSize int64  `json:"old_size,omitempty" jsonschema:"bytes before"`
	NewSize int64  `json:"new_size,omitempty" jsonschema:"bytes after"`
	Note    string `json:"note,omitempty" jsonschema:"what else changed: permissions, owner, the kind"`
	Ignored bool   `json:"ignored,omitempty" jsonschema:"a .gitignore names it"`
}

// UndoneBy is the result of undo-by: the changes, or the changes of a dry run, or the conflicts.
type UndoneBy struct {
	snapshot.UndoByResult
	Later bool `json:"later,omitempty" jsonschema:"the actor has changed more since; these changes stay"`
}

type Actors struct{} // the arguments of the operation actors

// ActorList is the result of Actors, the most recently active first.
type ActorList struct {
	Actors []ActorState `json:"actors"`
}

type ActorState struct {
	Name      string    `json:"name"`
	Snapshots int       `json:"snapshots" jsonschema:"how many have changes of the actor"`
	First     time.Time `json:"first" jsonschema:"no change is older"`
	Last      time.Time `json:"last" jsonschema:"no change is newer"`
	Now       bool      `json:"now,omitempty" jsonschema:"it changed something since the newest snapshot"`
}

type Blame struct {
	Path     naming.BytePath `json:"path" jsonschema:"the file, relative to the workspace"`
	Snapshot string          `json:"snapshot,omitempty" jsonschema:"the snapshot that it is in; if empty, the present state"`
}

// Blamed is the result of the operation blame.
type Blamed struct {
	Path  string       `json:"path"`
	Lines []BlamedLine `json:"lines"`
}

type BlamedLine struct {
	Line     int       `json:"line" jsonschema:"from 1"`
	Text     string    `json:"text"`
	Snapshot string    `json:"snapshot" jsonschema:"the first with the line; empty for the present state"`
	Actors   []string  `json:"actors" jsonschema:"those that changed the file between two snapshots"`
	Command  string    `json:"command,omitempty" jsonschema:"the last that changed the file then, if the log has it"`
	Time     time.Time `json:"time"`
}

type PathHistory struct {
	Path naming.BytePath `json:"path" jsonschema:"the file or directory, relative to the workspace"`
	All  bool            `json:"all,omitempty" jsonschema:"also the snapshots in which it did not change"`
}

// History lists the changes of one path from snapshot to snapshot, newest first.
type History struct {
	Path    string         `json:"path"`
	Entries []HistoryEntry `json:"entries"`
}

type HistoryEntry struct {
	Snapshot string    `json:"snapshot" jsonschema:"empty for the present state"`
	Seq      uint64    `json:"seq,omitempty"`
	ID       string    `json:"id,omitempty"`
	Created  time.Time `json:"created"`
	Message  string    `json:"message,omitempty"`
	Action   string    `json:"action" jsonschema:"created, modified, deleted or unchanged"`
	Actors   []string  `json:"actors,omitempty" jsonschema:"those that changed it, in order"`
	Size     int64     `json:"size"`
}

type Log struct {
	Path    naming.BytePath `json:"path,omitempty" jsonschema:"only events at or below this path"`
	After   uint64          `json:"after,omitempty" jsonschema:"only events with a greater number"`
	Since   string          `json:"since,omitempty" jsonschema:"only events since: a duration such as 2h or 7d, or a date in RFC 3339"`
	Action  string          `json:"action,omitempty" jsonschema:"only events of this action"`
	Command string          `json:"command,omitempty" jsonschema:"only events of programs whose command begins with this"`
	By      string          `json:"by,omitempty" jsonschema:"only events of this actor"`
	Limit   int             `json:"limit,omitempty" jsonschema:"only the newest this many"`
	Follow  bool            `json:"follow,omitempty" jsonschema:"continue as events happen"`
	New     bool            `json:"new,omitempty" jsonschema:"only events from now on"`
	// Elsewhere is set by the web page, because the page shows all forks.
	Elsewhere bool `json:"elsewhere,omitempty" jsonschema:"with follow: also an event elsewhere after events of any workspace"`
}

type Forked struct {
	Name     string `json:"name"`
	Snapshot string `json:"snapshot,omitempty"`
	Path     string `json:"path" jsonschema:"its path; relative to the workspace for a caller in the mount"`
}

// PathField returns a pointer to the path of the fork. In a run, the command line changes the path, because a run
// sees the fork at another path than the daemon does.
func (f *Forked) PathField() *string { return &f.Path }

type RenameFork Rename // the arguments of the operation rename-fork

type DeleteFork struct {
	Name    string `json:"name" jsonschema:"the fork"`
	Discard bool   `json:"discard,omitempty" jsonschema:"keep no snapshot of its last state, and delete the forks in it"`
	Forget  bool   `json:"forget,omitempty" jsonschema:"keep nothing by which this can be undone"`
	Force   bool   `json:"force,omitempty" jsonschema:"also if programs have it as root or working directory"`
	// Rmdir is set if the fork is deleted by rmdir(2). As in other file systems, rmdir succeeds even if the directory
	// is the working directory of a program.
	Rmdir bool `json:"-"`
}

type Claim struct {
	Label string `json:"label" jsonschema:"the label, which is also the name of the fork"`
	From  string `json:"from,omitempty" jsonschema:"the snapshot that a new fork begins with, or REMOTE@SNAPSHOT; if empty, the present state"`
	TTL   string `json:"ttl,omitempty" jsonschema:"delete the fork after this time without a claim: 30m, 1h, 7d"`
}

type Claimed struct {
	Path string `json:"path" jsonschema:"its path; relative to the workspace for a caller in the mount"`
	Tier string `json:"tier" jsonschema:"resumed: it existed; newer: it got the state of from, which continues its own; snapshot: created from the last state of an earlier fork with the label; fresh: created from from"`
	From string `json:"from,omitempty" jsonschema:"the snapshot it began with"`
}

// PathField returns a pointer to the path of the fork, see Forked.PathField.
func (c *Claimed) PathField() *string { return &c.Path }

type DeletedFork struct {
	Name     string    `json:"name"`
	Snapshot string    `json:"snapshot" jsonschema:"the snapshot of its last state"`
	Kept     time.Time `json:"kept,omitzero" jsonschema:"until when this can be undone"`
}

type Forks struct{} // the arguments of the operation forks

type ForkList struct {
	Forks []ForkState `json:"forks"`
}

type ForkState struct {
	snapshot.ForkInfo
	TTL     string   `json:"ttl,omitempty" jsonschema:"the time until it is deleted: 59m30s"`
	Changed int      `json:"changed" jsonschema:"files that differ from its base; at most 1000 are counted, for at most a second"`
	More    bool     `json:"more,omitempty" jsonschema:"not all changed files were counted"`
	Paths   []string `json:"paths,omitempty" jsonschema:"the first three of them"`
	Last    string   `json:"last,omitempty" jsonschema:"the actor that changed it last"`
	Run     *Run     `json:"run,omitempty" jsonschema:"what is known of a run of amberfs run"`
	Check   string   `json:"check,omitempty" jsonschema:"the label check of its newest snapshot that has one: passed, failed, timeout or stopped, of explore"`
}

// Run describes the run for which `amberfs run` made a fork.
type Run struct {
	State   string    `json:"state" jsonschema:"running, kept, applied or removed"`
	Command string    `json:"command"`
	Used    time.Time `json:"used" jsonschema:"when that state began"`
	InGit   int       `json:"in_git,omitempty" jsonschema:"paths that differ in git directories, or repositories that were applied; changed does not count them"`
	Files   int       `json:"files,omitempty" jsonschema:"files that were applied, if the state is applied"`
}

// RunLabel is a label of the snapshots that `amberfs run` takes in the fork of a run: when the program starts, when
// it ends, and when the run is applied or removed. The value of the label is the state of the run, such as RunKept.
const RunLabel = "run"

// AppliedLabel is a label of the snapshot that marks a run as applied. The value of the label has the numbers of
// files and git repositories that the apply changed, in the format AppliedFormat.
const (
	AppliedLabel  = "applied"
	AppliedFormat = "%d files, %d repositories"
)

// The states of a run, which are the values of RunLabel.
const (
	RunRunning = "running"
	RunKept    = "kept"
	RunApplied = "applied"
	RunRemoved = "removed"
)

// Conflict asks for the sides of a path in conflict. If Fork is set, the path changed both in the fork and in the
// workspace. If By is set, another actor changed the path after the actor By.
type Conflict struct {
	Fork  string          `json:"fork,omitempty" jsonschema:"the fork"`
	By    string          `json:"by,omitempty" jsonschema:"the actor, if not a fork"`
	Since string          `json:"since,omitempty" jsonschema:"that of undo-by"`
	Path  naming.BytePath `json:"path" jsonschema:"the file, relative to the workspace"`
}

// Conflicting has the sides of a conflict. In a merge, base is the file in the fork's base, ours in
// the workspace and theirs in the fork. In the undo of an actor, base is the file as the actor left
// it, ours the present file, and theirs the base without the actor's changes.
type Conflicting struct {
	Of         string      `json:"of,omitempty" jsonschema:"a digest of the sides, for contents of merge and undo-by"`
	Binary     bool        `json:"binary,omitempty" jsonschema:"there are no parts, and a merge takes one side: a side is missing, is no text, has more lines than a merge compares, or is in conflict"`
	Hidden     string      `json:"hidden,omitempty" jsonschema:"a merge merges lines, but there are no parts: too large to show (a side above 1 MiB), or not UTF-8"`
	Clean      bool        `json:"clean,omitempty" jsonschema:"the lines merge without a conflict"`
	BaseSize   int64       `json:"base_size" jsonschema:"bytes; -1: nothing is at the path"`
	OursSize   int64       `json:"ours_size" jsonschema:"bytes; -1: nothing is at the path"`
	TheirsSize int64       `json:"theirs_size" jsonschema:"bytes; -1: nothing is at the path"`
	Parts      []diff.Part `json:"parts"`
}

type Policy struct{} // the arguments of the operation policy

type SetPolicy struct {
	Patch json.RawMessage `json:"patch" jsonschema:"a JSON merge patch (RFC 7396)"`
}

type GetStatus struct{} // the arguments of the operation status

type Status struct {
	info.Status
	Mountpoint string            `json:"mountpoint"`
	Options    string            `json:"options,omitempty"`
	PID        int               `json:"pid"`
	Version    string            `json:"version"`
	Started    time.Time         `json:"started"`
	Uptime     float64           `json:"uptime_seconds,omitempty"`
	Gateway    string            `json:"gateway,omitempty" jsonschema:"the program that changes the workspace for a virtual machine or for gVisor. If it caches, as virtiofsd does by default, old states are seen there and writes can be lost"`
	Requests   map[string]uint64 `json:"requests,omitempty" jsonschema:"number of the kernel's requests by FUSE operation, on the command line only"`
	StaleNames int64             `json:"stale_names,omitempty" jsonschema:"number of changed names that the kernel has still to drop: a restore, merge or import waits for it"`
	Remotes    []RemoteState     `json:"remotes,omitempty" jsonschema:"remotes that do not answer, or that you have not agreed to"`
	FromRemote bool              `json:"from_remote,omitempty" jsonschema:"the store began with a snapshot of a remote: unchanged contents may be only there"`
	Push       *BackupState      `json:"push,omitempty" jsonschema:"the automatic pushes"`
	Survival
}

// Survival describes whether the mount survives a crash of the daemon, and the last takeover by a new daemon.
type Survival struct {
	CrashEnds string  `json:"crash_ends_mount,omitempty" jsonschema:"why a crash would end the mount; else programs wait for the next daemon"`
	Restarts  int     `json:"restarts,omitempty" jsonschema:"daemons of this mount before this one"`
	Restart   string  `json:"restart,omitempty" jsonschema:"how the last of them ended"`
	Pause     float64 `json:"pause_seconds,omitempty" jsonschema:"how long programs waited"`
}

type Freeze struct {
	For string `json:"for,omitempty" jsonschema:"how long; 30s if empty, at most 10m"`
}

type Frozen struct {
	Until time.Time `json:"until"`
}

type Thaw struct{} // the arguments of the operation thaw

type Thawed struct {
	Thawed bool `json:"thawed"`
}

type GC struct {
	All bool `json:"all,omitempty" jsonschema:"also what only an undo of operations needs"`
}

type Collected struct {
	Objects int64 `json:"objects" jsonschema:"number of deleted objects"`
	Bytes   int64 `json:"bytes" jsonschema:"bytes freed on disk"`
}

type Verify struct{} // the arguments of the operation verify

type VerifyForgotten struct{} // the arguments of the operation verify-forgotten

type Umount struct {
	Lazy bool `json:"lazy,omitempty" jsonschema:"detach now, and end when no program uses the mount"`
}

type Unmounted struct {
	PID        int    `json:"pid"`
	Store      string `json:"store"`
	Mountpoint string `json:"mountpoint"`
}
