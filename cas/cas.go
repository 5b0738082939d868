package cas

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/amberfs/amberfs/cas/index"
	"github.com/amberfs/amberfs/cas/manifest"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
)

// A Kind says what an object is, so that a tool which reads packs can tell file
// data from tree pages without decoding them.
type Kind uint8

// The kinds of objects that callers put.
const (
	KindData Kind = 1 // bytes of files
	KindTree Kind = 2 // tree pages, chunk lists, states
)

// Errors that callers tell apart with errors.Is.
var (
	// ErrNotFound: no object of that hash, or no metadata of that key.
	ErrNotFound = errors.New("not found in the store")
	// ErrDamaged: the bytes on disk are not the ones that were stored. The
	// error is a *Damage.
	ErrDamaged = errs.Damaged
	// ErrLost: neither copy of the manifest can be used.
	ErrLost = manifest.ErrLost
	// ErrNoSpace: going on would eat into the space that the index and gc need.
	ErrNoSpace = errs.NoSpace
	// ErrInUse: another process has the store open.
	ErrInUse = index.ErrInUse
	// ErrStuck: the index cannot be closed, because its disk takes no more writes.
	// The process had better end. Packs have all that is in it.
	ErrStuck = index.ErrStuck
)

// Damage describes one damaged or missing thing. As an error, *Damage satisfies
// errors.Is(err, ErrDamaged).
type Damage struct {
	Hash   Hash   // the object, zero if it is unknown
	Kind   Kind   // its kind, 0 if it is unknown
	Pack   string // the file: of a pack, the manifest, or the folder index
	Offset int64  // bytes from the start of the file
	Length int64  // bytes of the file that are affected
	Reason string
}

func (d *Damage) Error() string {
	what := "bytes"
	switch {
	case !d.Hash.IsZero():
		what = "object " + d.Hash.String()
	case d.Length == 0: // a copy of the manifest
		return d.Pack + ": " + d.Reason
	}
	in := d.Pack
	if strings.HasSuffix(in, packExt) {
		in = "pack " + in
	}
	return fmt.Sprintf("%s in %s at %d: %s", what, in, d.Offset, d.Reason)
}

// Unwrap makes it an errs.Damaged.
func (d *Damage) Unwrap() error { return errs.Damaged }

// Options are the ways to open a store. The zero value is fine.
type Options struct {
	FS       vfs.FS       // the disk but for the index; default the real one beneath the store's directory
	Logger   *slog.Logger // default: discard
	PackSize int64        // bytes at which a new pack is begun; default 128 MiB
	ReadOnly bool         // change nothing on disk; the index is built in memory
	Salvage  bool         // see manifest.Options
	NoCommit bool         // leave the manifest as it is
	Takeover bool         // another process may still have the store open, which writes nothing any more

	indexDir string // for tests that keep the packs in memory
}

// A MetaOp sets or deletes one small piece of metadata. Keys are not empty and
// do not begin with a zero byte.
type MetaOp = manifest.Op

// GCResult says what a collection did.
type GCResult struct {
	Removed    int64 // objects gone
	FreedBytes int64 // bytes of packs given back to the disk
}

// VerifyResult sums up a verification.
type VerifyResult struct {
	Packs   int
	Objects int64 // records read and found good
	Bytes   int64 // of packs read
}

// RepairResult sums up a repair.
type RepairResult struct {
	Packs       int
	Objects     int64    // objects in the new index
	Mended      int64    // pack headers that were written again
	Quarantined int64    // damaged records taken out of the packs
	Damage      []Damage // everything found
}

// Stats are the store's figures.
type Stats struct {
	Objects int64 // in the index
	Bytes   int64 // plain bytes of these objects
	Stored  int64 // bytes of packs that they occupy, headers included
	Packs   int   // pack files
}
