package service

import (
	"time"

	"github.com/amberfs/amberfs/remote"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/stream"
)

// Export has the arguments of the operation export.
type Export struct {
	Name string `json:"name" jsonschema:"the snapshot"`
	Ref  string `json:"ref,omitempty" jsonschema:"the ref; refs/snapshots/NAME if empty"`
}

// ExportDone is the result of the operation export.
type ExportDone struct {
	Name    string `json:"name"`
	Commit  string `json:"commit"`
	Ref     string `json:"ref"`
	Skipped int    `json:"skipped" jsonschema:"number of paths that git cannot represent"`
}

// ExportTar has the arguments of the operation tar.
type ExportTar Show

// Open has the arguments of the operation open.
type Open Show

type Opened struct {
	Info  info.Info `json:"info"`
	State string    `json:"state" jsonschema:"hash of the state object"`
	// Parents are the commits of earlier snapshots, the nearest first. Bases are snapshots that were exported. The
	// first of them is probably the most similar one.
	Parents []string `json:"parents"`
	Bases   []Base   `json:"bases"`
}

type Base struct {
	State   string   `json:"state"`
	Commits []string `json:"commits"`
}

// OpenChanges has the arguments of the operation open-changes.
type OpenChanges struct {
	Name string `json:"name,omitempty" jsonschema:"the snapshot; if empty, the present state"`
	Undo uint64 `json:"undo,omitempty" jsonschema:"in place of these, the states of the directory after and before the apply with this number"`
}

type OpenedChanges struct {
	Base string `json:"base" jsonschema:"hash of the state object of the directory"`
	Now  string `json:"now" jsonschema:"hash of the state object of the snapshot"`
	// Hide and HideAsEmpty are copied from the policy of the workspace.
	Hide        []string `json:"hide,omitempty" jsonschema:"patterns of paths of the directory that the workspace does not have"`
	HideAsEmpty bool     `json:"hide_empty,omitempty" jsonschema:"the workspace has hidden files and directories, without their contents"`
}

// Objects asks for objects. The stream has, for each hash in the order of Hashes, the length of the object
// (32 bits, little endian) and its bytes.
type Objects struct {
	Hashes []string `json:"hashes" jsonschema:"of the objects, 64 hex digits each; at most 1024"`
}

// Exported has the arguments of the operation exported.
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
	// FromImage is an archive that contains the manifest, the configuration and the layers of an image. The name of
	// each file in the archive is the digest of the file.
	FromImage = "image"
)

// Import has the arguments of the operation import.
type Import struct {
	From     string          `json:"from" jsonschema:"tar: a tar archive; dir or git: a stream of amberfs import; image: an archive of an image"`
	Image    string          `json:"image,omitempty" jsonschema:"the name of the image"`
	Path     naming.BytePath `json:"path,omitempty" jsonschema:"the directory to import into; the root if empty"`
	Umask    uint32          `json:"umask,omitempty" jsonschema:"removed from the permissions of directories that the import creates for path"`
	MaxFiles int64           `json:"max_files,omitempty" jsonschema:"the largest number of files; 0: 20 million"`
	MaxBytes int64           `json:"max_bytes,omitempty" jsonschema:"the largest sum of file sizes, without the holes of files in dir; 0: 1 TiB"`
}

// Imported is the result of the operation import.
type Imported struct {
	Path string `json:"path"`
	snapshot.GraftResult
	Skipped []stream.Omission `json:"skipped,omitempty"`
	Image   *info.Image       `json:"image,omitempty"`
}

// Refresh has the arguments of the operation refresh.
type Refresh struct {
	Base string `json:"base,omitempty" jsonschema:"hash of the state object that the stream differs from"`
	snapshot.MergeRules
	Merge bool `json:"merge,omitempty" jsonschema:"merge a branch of git that is checked out and moved on both sides"`
	// Resolve and RefuseDiverged are described in snapshot.MergeOptions.
	Resolve        map[string]threeway.Rule `json:"resolve,omitempty" jsonschema:"ours or theirs, by path, for single conflicting paths; merge for a git directory"`
	RefuseDiverged bool                     `json:"refuse_diverged,omitempty" jsonschema:"a branch of git that moved on both sides is a conflict, which resolve decides by its path, such as .git/refs/heads/main"`
}

// RecordApply records the state of a directory before or after an apply to it. A client calls it twice. Before the
// apply, it sends the files in which the directory differs from the state Base. After the apply, it sends the files
// in which the directory differs from the state in the first answer.
type RecordApply struct {
	Number uint64 `json:"number,omitempty" jsonschema:"of the apply that ended; 0: it has not begun"`
	Dir    string `json:"dir,omitempty" jsonschema:"the directory"`
	Own    bool   `json:"own,omitempty" jsonschema:"the store was filled from it"`
	Base   string `json:"base,omitempty" jsonschema:"hash of the state object of the directory that the apply was planned on"`
	Now    string `json:"now,omitempty" jsonschema:"hash of the state object that is applied"`
}

// RecordedApply is the result of the operation record-apply.
type RecordedApply struct {
	Number uint64 `json:"number"`
	State  string `json:"state" jsonschema:"hash of the state object of the directory"`
}

// UndoneApply has the arguments of the operation undone-apply.
type UndoneApply struct {
	Number uint64 `json:"number" jsonschema:"of the apply that was undone"`
}

// Refreshed is the result of the operation refresh.
type Refreshed struct{ snapshot.MergeResult }

// GetImage has the arguments of the operation image.
type GetImage struct {
	Name string `json:"name,omitempty" jsonschema:"the snapshot; if empty, the present state"`
}

// FoundImage is the last image that was imported before a snapshot. Both fields are empty if there is
// none.
type FoundImage struct {
	Snapshot string      `json:"snapshot,omitempty" jsonschema:"the snapshot of the import"`
	Image    *info.Image `json:"image,omitempty"`
}

// ExportLayer has the arguments of the operation layer.
type ExportLayer struct {
	Name string `json:"name" jsonschema:"the snapshot"`
	Base string `json:"base,omitempty" jsonschema:"the snapshot of an image; if empty, that of the last image before"`
}

// Layer is the result of the operation layer.
type Layer struct {
	FoundImage
	Created time.Time         `json:"created" jsonschema:"of the snapshot"`
	Files   int64             `json:"files"`
	Bytes   int64             `json:"bytes"`
	Skipped []stream.Omission `json:"skipped,omitempty"`
}

// AddRemote has the arguments of the operation add-remote.
type AddRemote struct {
	Name       string   `json:"name" jsonschema:"its name in this store"`
	URL        string   `json:"url" jsonschema:"s3://BUCKET/PREFIX, oci://HOST/REPOSITORY or file:///DIR"`
	Recipients []string `json:"recipients,omitempty" jsonschema:"age recipients that a new remote is encrypted to"`
}

// Remote is the result of the operation trust-remote.
type Remote struct {
	Name      string `json:"name"`
	URL       string `json:"url"`
	Encrypted bool   `json:"encrypted,omitempty"`
}

type RemoteState struct {
	Name  string    `json:"name,omitempty" jsonschema:"its name, if it is untrusted"`
	URL   string    `json:"url"`
	State string    `json:"state" jsonschema:"away: it does not answer; untrusted: the store names it, and you have not agreed to contact it"`
	Since time.Time `json:"since,omitzero" jsonschema:"since when it does not answer"`
}

// AddedRemote is the result of AddRemote. Each warning names a guarantee that the remote's service does not provide.
type AddedRemote struct {
	Remote
	Warnings []string `json:"warnings"`
}

// Remotes has the arguments of the operation remotes.
type Remotes struct{}

// RemoteList is the result of the operation remotes.
type RemoteList struct {
	Remotes []Remote `json:"remotes"`
}

// TrustRemote has the arguments of the operation trust-remote.
type TrustRemote struct {
	Remote string `json:"remote" jsonschema:"the remote's name or URL"`
}

// RemoveRemote has the arguments of the operation remove-remote.
type RemoveRemote struct {
	Name string `json:"name" jsonschema:"the remote"`
}

// Push has the arguments of the operation push.
type Push struct {
	Remote    string   `json:"remote,omitempty" jsonschema:"the remote's name or URL; if empty, that of the policy, or the only one"`
	Snapshots []string `json:"snapshots" jsonschema:"the snapshots"`
	As        string   `json:"as,omitempty" jsonschema:"the name on the remote, for one snapshot"`
	Force     bool     `json:"force,omitempty" jsonschema:"replace a snapshot that has the name"`
	Full      bool     `json:"full,omitempty" jsonschema:"send everything again"`
}

// PushedList is the result of the operation push.
type PushedList struct {
	Pushed []Pushed `json:"pushed"`
}

type Pushed struct {
	Remote   string `json:"remote" jsonschema:"the remote's name or URL"`
	Snapshot string `json:"snapshot"`
	As       string `json:"as" jsonschema:"its name on the remote"`
	ID       string `json:"id"`
	remote.PushResult
}

// Pull has the arguments of the operation pull.
type Pull struct {
	Remote    string   `json:"remote" jsonschema:"the remote's name or URL"`
	Snapshots []string `json:"snapshots" jsonschema:"names on the remote, or whole ids"`
	As        string   `json:"as,omitempty" jsonschema:"the name in this store, for one snapshot"`
}

// PulledList is the result of the operation pull.
type PulledList struct {
	Pulled []info.Info `json:"pulled"`
}

// RemoteSnapshots has the arguments of the operation remote-snapshots.
type RemoteSnapshots TrustRemote

// RemoteSnapshotList is the result of the operation remote-snapshots.
type RemoteSnapshotList struct {
	Snapshots []RemoteSnapshot `json:"snapshots"`
}

type RemoteSnapshot struct {
	info.Info
	Pushed  time.Time `json:"pushed"`
	Problem string    `json:"problem,omitempty" jsonschema:"why it cannot be read"`
}

// RemovePushed has the arguments of the operation remove-pushed.
type RemovePushed struct {
	Remote string   `json:"remote" jsonschema:"the remote's name or URL"`
	Names  []string `json:"names" jsonschema:"the snapshots"`
}

// GCRemote has the arguments of the operation gc-remote.
type GCRemote TrustRemote

// VerifyRemote has the arguments of the operation verify-remote.
type VerifyRemote struct {
	Remote string `json:"remote" jsonschema:"the remote's name or URL"`
	Deep   bool   `json:"deep,omitempty" jsonschema:"read every byte"`
}

// VerifiedRemote is the result of the operation verify-remote.
type VerifiedRemote struct {
	remote.VerifyResult
	Damage []RemoteDamage `json:"damage"`
}

type RemoteDamage struct {
	Snapshot string `json:"snapshot"`
	Problem  string `json:"problem"`
}
