package service

import (
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// Export asks for a commit in the store's own repository.
type Export struct {
	Name string `json:"name" jsonschema:"the snapshot"`
	Ref  string `json:"ref,omitempty" jsonschema:"refs/snapshots/NAME if empty"`
}

// ExportDone is the commit that an Export wrote.
type ExportDone struct {
	Name    string `json:"name"`
	Commit  string `json:"commit"`
	Ref     string `json:"ref"`
	Skipped int    `json:"skipped" jsonschema:"paths that git cannot hold"`
}

// ExportTar asks for a snapshot as a tar archive.
type ExportTar struct {
	Name string `json:"name" jsonschema:"the snapshot"`
}

// Open asks for the objects of a snapshot, as long as the answer is read.
type Open struct {
	Name string `json:"name" jsonschema:"the snapshot"`
}

// Opened is a snapshot whose objects are handed out.
type Opened struct {
	Info  snapshot.Info `json:"info"`
	State string        `json:"state" jsonschema:"hash of the state object"`
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

// OpenChanges asks for the objects of the state that the store's workspace began
// from and of a snapshot, as long as the answer is read.
type OpenChanges struct {
	Name string `json:"name,omitempty" jsonschema:"the snapshot; the present state if empty"`
}

// OpenedChanges are two states whose objects are handed out.
type OpenedChanges struct {
	Base string `json:"base" jsonschema:"hash of the state object of the import"`
	Now  string `json:"now" jsonschema:"hash of the state object of the snapshot"`
}

// Objects asks for objects. The answer is, in the same order, the length of each
// (32 bits, little endian) and its bytes.
type Objects struct {
	Hashes []string `json:"hashes" jsonschema:"of the objects, 64 hex digits each; at most 1024"`
}

// Exported tells of an export that the client made.
type Exported struct {
	Name   string `json:"name" jsonschema:"the snapshot"`
	Repo   string `json:"repo"`
	Ref    string `json:"ref"`
	Commit string `json:"commit"`
}

// The kinds of trees that are brought in.
const (
	FromDir = "dir"
	FromTar = "tar"
	FromGit = "git"
)

// Import asks for a tree, which follows as a tar archive, to be brought in.
type Import struct {
	From  string          `json:"from" jsonschema:"dir, tar or git: what the client made the archive of"`
	Path  naming.BytePath `json:"path,omitempty" jsonschema:"the directory that it goes to; the root if empty"`
	Umask uint32          `json:"umask,omitempty" jsonschema:"taken from the permissions of directories made on the way"`
	// What may come at most; 0 is gitbridge's default.
	MaxFiles int64 `json:"max_files,omitempty" jsonschema:"files that may come at most; 0 is 20 million"`
	MaxBytes int64 `json:"max_bytes,omitempty" jsonschema:"bytes of files that may come at most; 0 is 1 TiB"`
}

// Imported is what was brought in.
type Imported struct {
	Path    string               `json:"path"`
	Files   int64                `json:"files"`
	Bytes   int64                `json:"bytes"`
	Skipped []gitbridge.Omission `json:"skipped,omitempty"`
	Undo    string               `json:"undo,omitempty" jsonschema:"the snapshot of the state before"`
}
