package cas

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/amberfs/amberfs/cas/vfs"
)

// A Kind says what an object is, so that a tool which reads packs can tell file
// data from tree pages without decoding them.
type Kind uint8

// The kinds of objects that callers put.
const (
	KindData Kind = 1 // bytes of files
	KindTree Kind = 2 // tree pages, chunk lists, states
)

// MaxObject is the largest object that Put takes, in bytes.
const MaxObject = 16 << 20

// Errors that callers tell apart with errors.Is.
var (
	// ErrNotFound: no object of that hash, or no metadata of that key.
	ErrNotFound = errors.New("not found in the store")
	// ErrDamaged: the bytes on disk are not the ones that were stored. The
	// error is a *DamageError.
	ErrDamaged = errors.New("damaged on disk")
	// ErrNoSpace: going on would eat into the space that the index and gc need.
	ErrNoSpace = errors.New("no space left on the store's disk")
	// ErrFormat: written by another version of the program. Nothing was touched.
	ErrFormat = errors.New("unknown store format")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store is closed")
	// ErrInUse: another process has the store open.
	ErrInUse = errors.New("the store is open in another process")
	// ErrStuck: the index cannot be closed, because its disk takes no more writes.
	// The process had better end. Packs have all that is in it.
	ErrStuck = errors.New("the index cannot be written")
	// ErrReadOnly: the store was opened for reading.
	ErrReadOnly = errors.New("store is open read-only")
)

// A DamageError says which bytes on disk are not what was stored. It satisfies
// errors.Is(err, ErrDamaged).
type DamageError struct {
	Damage
}

func (e *DamageError) Error() string {
	return e.Damage.String()
}

// Is makes errors.Is(err, ErrDamaged) true.
func (e *DamageError) Is(target error) bool { return target == ErrDamaged }

// Damage describes one damaged or missing thing.
type Damage struct {
	Hash   Hash   // the object, zero if it cannot be told any more
	Kind   Kind   // its kind, 0 if it cannot be told
	Key    string // metadata key, if that is what is damaged
	Pack   string // file name in the packs directory
	Offset int64  // bytes from the start of the pack
	Length int64  // bytes of the pack that are affected
	Reason string
	Mended bool // put right when the store was opened: nothing is lost
}

// String returns the damage as one line.
func (d Damage) String() string {
	what := "bytes"
	switch {
	case d.Mended:
		return d.Pack + ": " + d.Reason
	case !d.Hash.IsZero():
		what = "object " + d.Hash.String()
	case d.Key != "":
		what = fmt.Sprintf("metadata %q", d.Key)
	}
	return fmt.Sprintf("%s in pack %s at %d: %s", what, d.Pack, d.Offset, d.Reason)
}

// Options are the ways to open a store. The zero value is fine.
type Options struct {
	FS       vfs.FS       // the disk for packs; default vfs.OS. The index is always on the real disk
	Logger   *slog.Logger // default: discard
	PackSize int64        // bytes at which a new pack is begun; default 128 MiB
	ReadOnly bool         // change nothing on disk; the index is built in memory

	indexDir   string // for tests that keep the packs in memory
	noCopy     bool   // no copy of the metadata, for tests of what to do without
	metaRecord int    // bytes of entries in one metadata record; default maxMetaRecord
}

// A MetaOp sets or deletes one small piece of metadata. Keys are not empty and
// do not begin with a zero byte.
type MetaOp struct {
	Key    string
	Value  []byte
	Delete bool
}

// MaxMetaValue is the longest metadata value, MaxMetaKey the longest key, in
// bytes.
const (
	MaxMetaValue = 4 << 20
	MaxMetaKey   = 1024
)

// GCResult says what a collection did.
type GCResult struct {
	Kept       int64 // objects marked
	Removed    int64 // objects gone
	FreedBytes int64 // bytes of packs given back to the disk
	Packs      int   // packs removed
	Rewritten  int   // packs whose living objects moved
}

// VerifyOptions are the ways to verify.
type VerifyOptions struct {
	Progress func(done, total int64) // bytes of packs read; may be nil
}

// VerifyResult sums up a verification.
type VerifyResult struct {
	Packs   int
	Objects int64 // records read and found good
	Bytes   int64 // of packs read
	Damaged int64 // number of times bad was called
}

// RepairResult sums up a repair.
type RepairResult struct {
	Packs       int
	Objects     int64    // objects in the new index
	Metas       int64    // metadata keys in the new index
	Mended      int64    // records that could be made good again
	Quarantined int64    // damaged records taken out of the packs
	Damage      []Damage // everything found, mended or not
}

// Stats are the store's figures.
type Stats struct {
	Objects    int64 // in the index
	Bytes      int64 // plain bytes of these objects
	Stored     int64 // bytes of packs that they occupy, headers included
	Packs      int   // pack files, of objects and of metadata
	IndexBytes int64 // disk that the index occupies, when last measured
}
