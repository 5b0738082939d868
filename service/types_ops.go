package service

import (
	"time"

	"github.com/amberfs/amberfs/snapshot"
)

type ListOps struct {
	Limit int `json:"limit,omitempty" jsonschema:"at most this many; 0: all"`
}

// OpList is the result of ListOps, newest first.
type OpList struct {
	Ops []OpState `json:"ops"`
}

// OpState is an operation that changed what users see.
type OpState struct {
	Number      uint64    `json:"number" jsonschema:"the number for undo-op"`
	Name        string    `json:"name" jsonschema:"the operation: restore, merge, import, refresh, undo-by, undo-op, apply, remove, compact, rename, delete-fork, rename-fork, set-policy"`
	Of          string    `json:"of,omitempty" jsonschema:"the snapshots, the fork, the actor, the directory or the fields"`
	To          string    `json:"to,omitempty" jsonschema:"the new name, of a rename"`
	At          time.Time `json:"at"`
	Actor       string    `json:"actor,omitempty" jsonschema:"who asked for it"`
	Command     string    `json:"command,omitempty" jsonschema:"the program that asked for it"`
	UID         uint32    `json:"uid"`
	Edit        bool      `json:"edit,omitempty" jsonschema:"it changed files of the workspace"`
	Kept        time.Time `json:"kept,omitzero" jsonschema:"until when it can be undone, if it needs anything for that"`
	Undoes      uint64    `json:"undoes,omitempty" jsonschema:"the number of the operation that it undid"`
	Undone      bool      `json:"undone,omitempty"`
	Interrupted bool      `json:"interrupted,omitempty" jsonschema:"an apply that was killed"`
}

type UndoOp struct {
	Number uint64 `json:"number" jsonschema:"the number of the operation in ops"`
	Ours   bool   `json:"ours,omitempty" jsonschema:"leave paths in conflict as they are"`
	Theirs bool   `json:"theirs,omitempty" jsonschema:"make paths in conflict what they were before the operation"`
	DryRun bool   `json:"dry_run,omitempty" jsonschema:"change nothing, and return what would change"`
}

// UndoneOp is the operation that was undone, with the paths that changed.
type UndoneOp struct {
	Op OpState `json:"op"`
	snapshot.MergeResult
}
