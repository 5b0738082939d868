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

// A Kind is the kind of an object, so that a tool which reads packs can tell file
// data from tree pages without decoding them.
type Kind uint8

// The kinds of objects that callers put.
const (
	KindData Kind = 1 // bytes of files
	KindTree Kind = 2 // tree pages, chunk lists, states
)

// Errors that callers distinguish with errors.Is.
var (
	// ErrNotFound: the store has no object with this hash, or no metadata with this key.
	ErrNotFound = errors.New("not found in the store")
	// ErrDamaged: the bytes on disk are not the ones that were stored. The
	// error is a *Damage.
	ErrDamaged = errs.Damaged
	// ErrLost: neither copy of the manifest can be used.
	ErrLost = manifest.ErrLost
	// ErrNoSpace: the disk is full, except for the space that the index and gc need.
	ErrNoSpace = errs.NoSpace
	// ErrInUse: another process has the store open.
	ErrInUse = index.ErrInUse
	// ErrStuck: the index cannot be closed, because writes to its disk fail. The process should
	// exit. No object is lost: the index can be rebuilt from the packs.
	ErrStuck = index.ErrStuck
)

// Damage describes one damaged or missing object, record or file. As an error, *Damage satisfies
// errors.Is(err, ErrDamaged).
type Damage struct {
	Hash   Hash   // the object, zero if it is unknown
	Kind   Kind   // its kind, 0 if it is unknown
	Pack   string // name of the pack file, of the manifest file, or "index"
	Offset int64  // bytes from the start of the file
	Length int64  // bytes of the file that are affected
	Reason string
}

func (d *Damage) Error() string {
	what := "bytes"
	switch {
	case !d.Hash.IsZero():
		what = "object " + d.Hash.String()
	case d.Length == 0: // damage of a copy of the manifest has no length
		return d.Pack + ": " + d.Reason
	}

	in := d.Pack
	if strings.HasSuffix(in, packExt) {
		in = "pack " + in
	}

	return fmt.Sprintf("%s in %s at %d: %s", what, in, d.Offset, d.Reason)
}

// Unwrap makes the error one of kind errs.Damaged.
func (d *Damage) Unwrap() error { return errs.Damaged }

// Options are parameters of Open and Repair. The zero value has the defaults.
type Options struct {
	FS       vfs.FS       // the disk for all files except the index; default: the store's directory
	Logger   *slog.Logger // default: discard
	PackSize int64        // bytes at which a new pack is begun; default 128 MiB
	ReadOnly bool         // change nothing on disk; the index is built in memory
	Salvage  bool         // see manifest.Options
	NoCommit bool         // make Commit fail, and do not change the manifest
	Takeover bool         // open the store even if another process has it open; the other process must have stopped writing

	indexDir string // directory of the index; only tests set it, which keep the packs in memory
}

// A MetaOp sets or deletes one small piece of metadata. Keys are not empty and
// do not begin with a zero byte.
type MetaOp = manifest.Op

// GCResult is the result of a collection.
type GCResult struct {
	RemovedObjects int64 // objects
	FreedBytes     int64 // bytes of disk that the packs occupied before and do not occupy now
}

// VerifyResult is the result of a verification.
type VerifyResult struct {
	Packs   int
	Objects int64 // intact records
	Bytes   int64 // bytes of packs that were read
}

// RepairResult is the result of a repair.
type RepairResult struct {
	Packs       int
	Objects     int64    // objects in the new index
	Mended      int64    // damaged pack headers that were rewritten
	Quarantined int64    // damaged records that were moved out of the packs
	Damage      []Damage // all damage that was found
}

// Stats are the numbers of objects and bytes of a store.
type Stats struct {
	Objects     int64 // in the index
	PlainBytes  int64 // bytes of these objects before compression
	StoredBytes int64 // bytes of packs that these objects occupy, headers included
	Packs       int   // pack files
}
