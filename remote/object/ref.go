package object

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/pattern"
	"github.com/amberfs/amberfs/remote/backend"
)

// Version is the version of the format of remotes.
const Version = 1

// Limits of a ref, which Check enforces.
const (
	maxObjects = 1 << 20
	maxIndexes = 64
	maxEntries = 1 << 28
	maxActors  = 1 << 12
	maxLineage = 1 << 10
)

// ErrNewer: the remote was written by a newer version of the program.
var ErrNewer = errs.New(errs.Format, "the remote was written by a newer amberfs")

// ErrOlder: an amberfs before 0.1 wrote the ref. Its version is 1 too, but its sections have no JSON
// field entries.
var ErrOlder = errs.New(errs.Format, "an amberfs before 0.1 pushed it, in a format that this one does not read; mount the store that it came from with that one, and copy what you need")

// A Ref describes a snapshot on a remote, and names the objects and indexes that it needs.
type Ref struct {
	Version int       `json:"version"`
	Name    string    `json:"name"`
	ID      string    `json:"id"`    // id of the snapshot, 64 hex digits
	Nonce   string    `json:"nonce"` // random, differs for each push
	Pushed  time.Time `json:"pushed"`
	Expires time.Time `json:"expires,omitzero"`

	Message string            `json:"message,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	Created time.Time         `json:"created"`
	Kind    string            `json:"kind,omitempty"`
	Files   int64             `json:"files"`
	Bytes   int64             `json:"bytes"`
	// Actors are the names of the actors that changed files since the previous snapshot. ActorSets are the
	// hashes of the records that list these files for each actor.
	Actors    []string   `json:"actors,omitempty"`
	ActorSets []cas.Hash `json:"actor_sets,omitempty"`

	// Claim is the label of the fork with this snapshot, "" if the fork was not claimed by a label. Lineage
	// has the ids of earlier snapshots of that fork.
	Claim   string   `json:"claim,omitempty"`
	Lineage []string `json:"lineage,omitempty"`

	Objects []backend.Object `json:"objects"`
	Indexes []Section        `json:"indexes"` // newest first

	Encrypted bool `json:"encrypted,omitempty"` // the ref and its objects are encrypted
}

// A Section is the place of an index in an object.
type Section struct {
	Object  int   `json:"object"`  // position in the list of objects
	Offset  int64 `json:"offset"`  // bytes from the start of the object
	Entries int64 `json:"entries"` // number of entries
}

// Size returns the number of bytes of the index.
func (s Section) Size() int64 { return s.Entries * EntrySize }

// StateHash returns the id of the snapshot as a hash.
func (r *Ref) StateHash() cas.Hash {
	h, _ := cas.ParseHash(r.ID) // checked when it was decoded
	return h
}

// Encode returns the ref as JSON.
func (r *Ref) Encode() ([]byte, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode ref: %w", err)
	}
	return append(b, '\n'), nil
}

// DecodeRef decodes a ref. Errors: ErrNewer, ErrOlder, ErrMalformed.
func DecodeRef(raw []byte) (*Ref, error) {
	var r Ref
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("%w: ref: %w", ErrMalformed, err)
	}
	if r.Version > Version {
		return nil, fmt.Errorf("ref %q has version %d: %w", r.Name, r.Version, ErrNewer)
	}
	if err := r.Check(); err != nil {
		return nil, fmt.Errorf("%w: ref: %w", ErrMalformed, err)
	}
	if len(r.Indexes) > 0 && !slices.ContainsFunc(r.Indexes, func(s Section) bool { return s.Entries > 0 }) {
		return nil, fmt.Errorf("ref %q: %w", r.Name, ErrOlder)
	}

	return &r, nil
}

var objectNamePattern = pattern.New(`^[0-9a-f]{64}$`)

// Check returns an error for a ref that no push can have written.
func (r *Ref) Check() error {
	if r.Version != Version || len(r.Objects) > maxObjects || len(r.Indexes) > maxIndexes {
		return fmt.Errorf("version %d, %d objects, %d indexes", r.Version, len(r.Objects), len(r.Indexes))
	}
	if len(r.Actors) > maxActors || len(r.ActorSets) > maxActors {
		return fmt.Errorf("%d actors in %d sets", len(r.Actors), len(r.ActorSets))
	}
	if len(r.Claim) > maxLineage || len(r.Lineage) > maxLineage {
		return fmt.Errorf("a claim of %d bytes, a lineage of %d ids", len(r.Claim), len(r.Lineage))
	}

	for _, id := range r.Lineage {
		if _, err := cas.ParseHash(id); err != nil {
			return fmt.Errorf("lineage: %w", err)
		}
	}
	if r.Files < 0 || r.Bytes < 0 {
		return fmt.Errorf("%d files of %d bytes", r.Files, r.Bytes)
	}

	if _, err := cas.ParseHash(r.ID); err != nil {
		return fmt.Errorf("id: %w", err)
	}

	for _, o := range r.Objects {
		if !objectNamePattern().MatchString(o.Name) || o.Size < 0 || o.Size >= 1<<32 {
			return fmt.Errorf("object %q of %d bytes", o.Name, o.Size)
		}
	}

	for _, s := range r.Indexes {
		if s.Object < 0 || s.Object >= len(r.Objects) || s.Entries < 0 || s.Entries > maxEntries ||
			s.Offset < 0 || s.Offset > r.Objects[s.Object].Size-s.Size() {
			return fmt.Errorf("index at %d of object %d", s.Offset, s.Object)
		}
	}

	return nil
}
