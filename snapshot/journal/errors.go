package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
)

var (
	// ErrFailed means that a write or a sync failed earlier. The journal only
	// reads until it is opened again.
	ErrFailed = errs.New(errs.Failed, "journal stopped after an I/O error")
	// ErrTooLarge means that a payload exceeds MaxPayload.
	ErrTooLarge = errs.New(errs.TooBig, "record too large for the journal")
	// ErrPosition means that a position is not, or no longer, in the journal.
	ErrPosition = errors.New("position is not in the journal")
)

// A DamageError names a place in the journal that was written and cannot be
// read any more, though records after it can.
type DamageError struct {
	Segment string // file name
	Offset  int64  // in the file, bytes
	Pos     int64  // the same as a journal position
	Reason  string
	Err     error // the disk's error, if that was the reason
	Bytes   bool  // bytes of one file are lost, and nothing else
}

func (e *DamageError) Error() string {
	s := "journal is damaged: " + e.Reason
	if e.Segment != "" {
		s = fmt.Sprintf("journal is damaged: segment %s, offset %d: %s", e.Segment, e.Offset, e.Reason)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap makes every DamageError an errs.Damaged.
func (e *DamageError) Unwrap() []error {
	if e.Err == nil {
		return []error{errs.Damaged}
	}
	return []error{errs.Damaged, e.Err}
}

// Lost reports whether the bytes are gone. Otherwise the file cannot be read at the moment, for
// example because too many files are open.
func (e *DamageError) Lost() bool { return e.Err == nil || vfs.IsDamage(e.Err) }

// damages are the places that Open and Replay skipped.
type damages struct {
	logger  *slog.Logger
	salvage bool

	found struct {
		sync.Mutex
		list []*DamageError
	}
}

// Damage returns the places that were skipped because of Options.Salvage, and those of
// Options.Bytes, in the order in which they were met.
func (d *damages) Damage() []*DamageError {
	d.found.Lock()
	defer d.found.Unlock()
	return slices.Clone(d.found.list)
}

// skip records damage during a salvage. Otherwise it returns the damage.
func (d *damages) skip(e *DamageError) error {
	if !d.salvage {
		return e
	}
	d.note(e)
	return nil
}

func (d *damages) note(e *DamageError) {
	d.logger.Error("journal: skipped what cannot be read", "err", e)
	d.found.Lock()
	defer d.found.Unlock()
	d.found.list = append(d.found.list, e)
}

// A failure is why nothing more can be written.
type failure struct{ first atomic.Pointer[error] }

// fail stops the journal for writers and returns the error that they get.
func (f *failure) fail(log *slog.Logger, doing string, cause error) error {
	err := fmt.Errorf("%w: %s: %w", ErrFailed, doing, cause)
	if f.first.CompareAndSwap(nil, &err) {
		log.Error("journal: no more changes until it is opened again", "err", err)
	}
	return *f.first.Load()
}

// Failed returns the error that stopped the journal, nil while it works.
func (f *failure) Failed() error {
	if p := f.first.Load(); p != nil {
		return *p
	}
	return nil
}
