package forget

import (
	"slices"
	"time"

	"github.com/amberfs/amberfs/cas"
)

// A Receipt describes contents that a user forgot. It does not contain their bytes.
type Receipt struct {
	Number      uint64      `json:"number,omitempty" jsonschema:"its number, from 1; none for a dry run"`
	At          time.Time   `json:"at"`
	Actor       string      `json:"actor,omitempty"`
	Removed     []Place     `json:"removed" jsonschema:"what was where"`
	Kept        []Place     `json:"kept,omitempty" jsonschema:"files that stay and have some of the same bytes, which therefore stay, too"`
	Snapshots   []Rewritten `json:"snapshots" jsonschema:"snapshots with a new id"`
	Objects     int         `json:"objects" jsonschema:"number of removed objects with these contents"`
	Bytes       int64       `json:"bytes" jsonschema:"their bytes"`
	Unremovable []string    `json:"cannot" jsonschema:"what cannot be removed, or was not, as sentences"`
	Refs        []string    `json:"refs,omitempty" jsonschema:"exported refs of the store's git repository that were deleted"`
	Remotes     []Remote    `json:"remotes,omitempty" jsonschema:"what was done on remotes"`
	Handoffs    []string    `json:"handoffs,omitempty" jsonschema:"URLs of the handoffs that were ended, with their lines"`
	Erased      bool        `json:"erased" jsonschema:"whether the bytes are gone from the disk"`
	DryRun      bool        `json:"dry_run,omitempty"`
}

// A Remote describes the removal of forgotten contents from a remote.
type Remote struct {
	Name      string            `json:"name"`
	Replaced  []string          `json:"replaced" jsonschema:"snapshots that were sent again"`
	Removed   int               `json:"removed" jsonschema:"number of removed objects"`
	Remaining map[string]string `json:"left,omitempty" jsonschema:"snapshots that still have the contents, and why"`
	Versions  []Version         `json:"versions,omitempty" jsonschema:"versions of removed objects that a bucket keeps and refuses to remove"`
}

// A Version is a former version of an object in a bucket.
type Version struct {
	Key string `json:"key"`
	ID  string `json:"version"`
}

// A Place is a path in snapshots of a workspace.
type Place struct {
	Path      string   `json:"path"`
	Workspace string   `json:"workspace"`
	Snapshots []string `json:"snapshots,omitempty" jsonschema:"oldest first"`
	InPresent bool     `json:"now,omitempty" jsonschema:"whether it is in the present state"`
	Masked    bool     `json:"masked,omitempty" jsonschema:"whether the file stays, and parts of it are overwritten by stars"`
}

// A Rewritten is a snapshot that got a new id.
type Rewritten struct {
	Workspace string `json:"workspace"`
	Name      string `json:"name"`
	OldID     string `json:"was" jsonschema:"the id before"`
	ID        string `json:"id"`
}

// StoredReceipt is a Receipt as an object of the store.
type StoredReceipt struct {
	Receipt
	Fingerprints []Fingerprint `json:"prints"`
}

// Fingerprints returns the fingerprints of the removed chunks and of the overwritten texts. bytes is the total size
// of the chunks. readChunk returns the bytes of a chunk.
func Fingerprints(removed map[cas.Hash]bool, texts map[string]bool, readChunk func(cas.Hash) ([]byte, error)) (all []Fingerprint, bytes int64, err error) {
	for h := range removed {
		b, err := readChunk(h)
		if err != nil {
			return nil, 0, err
		}
		all, bytes = append(all, fingerprintOf(b)), bytes+int64(len(b))
	}

	for text := range texts {
		all = append(all, fingerprintOf([]byte(text)))
	}

	return all, bytes, nil
}

// A Proof is the result of a search of a whole store for forgotten contents.
type Proof struct {
	Receipts []Receipt `json:"receipts" jsonschema:"all that was forgotten, oldest first"`
	Objects  int64     `json:"objects" jsonschema:"number of objects that were read"`
	Bytes    int64     `json:"bytes" jsonschema:"bytes that were read"`
	Kept     []Place   `json:"kept,omitempty" jsonschema:"files that have forgotten bytes"`
	Found    []string  `json:"found" jsonschema:"where else forgotten bytes are"`
}

// OK reports whether the search found forgotten bytes only in present states of workspaces, or not at all.
func (p *Proof) OK() bool {
	return len(p.Found) == 0 && !slices.ContainsFunc(p.Kept, func(at Place) bool { return len(at.Snapshots) > 0 })
}
