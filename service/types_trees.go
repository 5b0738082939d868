package service

import (
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// Export writes a commit into the store's own repository.
type Export struct {
	Name string `json:"name" jsonschema:"the snapshot"`
	Ref  string `json:"ref,omitempty" jsonschema:"the ref; refs/snapshots/NAME if empty"`
}

// ExportDone is the commit that an Export wrote.
type ExportDone struct {
	Name    string `json:"name"`
	Commit  string `json:"commit"`
	Ref     string `json:"ref"`
	Skipped int    `json:"skipped" jsonschema:"number of paths that git cannot represent"`
}

// ExportTar returns a snapshot as a tar archive.
type ExportTar struct {
	Name string `json:"name" jsonschema:"the snapshot"`
}

// Open keeps the objects of a snapshot readable while the answer is read.
type Open struct {
	Name string `json:"name" jsonschema:"the snapshot"`
}

// Opened is a snapshot whose objects can be read.
type Opened struct {
	Info  snapshot.Info `json:"info"`
	State string        `json:"state" jsonschema:"hash of the state object"`
	// Parents are the commits of the snapshots before, the nearest first. Bases are
	// exported snapshots, the likely most similar first.
	Parents []string `json:"parents"`
	Bases   []Base   `json:"bases"`
}

// Base is a snapshot that was exported before.
type Base struct {
	State   string   `json:"state"`
	Commits []string `json:"commits"`
}

// OpenChanges keeps the objects of the workspace's base and of a snapshot readable
// while the answer is read.
type OpenChanges struct {
	Name string `json:"name,omitempty" jsonschema:"the snapshot; if empty, the present state"`
}

// OpenedChanges are two states whose objects can be read.
type OpenedChanges struct {
	Base string `json:"base" jsonschema:"hash of the state object of the import"`
	Now  string `json:"now" jsonschema:"hash of the state object of the snapshot"`
}

// Objects returns objects: for each, in the same order, the length of each
// (32 bits, little endian) and its bytes.
type Objects struct {
	Hashes []string `json:"hashes" jsonschema:"of the objects, 64 hex digits each; at most 1024"`
}

// Exported records an export that the client made.
type Exported struct {
	Name   string `json:"name" jsonschema:"the snapshot"`
	Repo   string `json:"repo"`
	Ref    string `json:"ref"`
	Commit string `json:"commit"`
}

// The kinds of trees that are imported.
const (
	FromDir = "dir"
	FromTar = "tar"
	FromGit = "git"
)

// Import imports a tree, which follows as a tar archive.
type Import struct {
	From     string          `json:"from" jsonschema:"dir, tar or git: the source of the archive"`
	Path     naming.BytePath `json:"path,omitempty" jsonschema:"the directory to import into; the root if empty"`
	Umask    uint32          `json:"umask,omitempty" jsonschema:"removed from the permissions of directories that the import creates for path"`
	MaxFiles int64           `json:"max_files,omitempty" jsonschema:"the largest number of files; 0: 20 million"`
	MaxBytes int64           `json:"max_bytes,omitempty" jsonschema:"the largest sum of file sizes; 0: 1 TiB"`
}

// Imported is the result of Import.
type Imported struct {
	Path    string               `json:"path"`
	Files   int64                `json:"files"`
	Bytes   int64                `json:"bytes"`
	Skipped []gitbridge.Omission `json:"skipped,omitempty"`
	Undo    string               `json:"undo,omitempty" jsonschema:"the snapshot of the state before"`
}
