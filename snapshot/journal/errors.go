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
	// ErrFailed means that a write or a sync failed earlier. The journal is read-only
	// until it is opened again.
	ErrFailed = errs.New(errs.Failed, "journal stopped after an I/O error")
	// ErrTooLarge means that a payload exceeds MaxPayload.
	ErrTooLarge = errs.New(errs.TooBig, "record too large for the journal")
	// ErrPosition means that a position is not, or no longer, in the journal.
	ErrPosition = errors.New("position is not in the journal")
)

// A DamageError is a place in the journal that was durable and cannot be read any more.
type DamageError struct {
	Segment   string // file name
	Offset    int64  // bytes from the beginning of the file
	Pos       int64  // the journal position of Offset
	Reason    string
	Err       error // the disk's error if a read failed, else nil
	OnlyBytes bool  // only bytes of one file are lost, see Options.KeepDamaged
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

// Lost reports whether the bytes are lost. If it is false, a later read may succeed: for example,
// too many files were open.
func (e *DamageError) Lost() bool { return e.Err == nil || vfs.IsDamage(e.Err) }

// A damageList contains the damaged places that Open and Replay skipped.
type damageList struct {
	logger  *slog.Logger
	salvage bool

	found struct {
		sync.Mutex
		list []*DamageError
	}
}

// Damage returns the places that were skipped because of Options.Salvage or Options.KeepDamaged, in the
// order in which they were found.
func (d *damageList) Damage() []*DamageError {
	d.found.Lock()
	defer d.found.Unlock()
	return slices.Clone(d.found.list)
}

// skipDamage records damage and returns nil with Options.Salvage. Without Options.Salvage it returns the damage
// as an error.
func (d *damageList) skipDamage(e *DamageError) error {
	if !d.salvage {
		return e
	}
	d.addDamage(e)
	return nil
}

// addDamage records damage.
func (d *damageList) addDamage(e *DamageError) {
	d.logger.Error("journal: skipped what cannot be read", "err", e)
	d.found.Lock()
	defer d.found.Unlock()
	d.found.list = append(d.found.list, e)
}

// A failure is the first error after which the journal accepts no more writes.
type failure struct{ firstErr atomic.Pointer[error] }

// fail makes all later writes fail, and returns the error with which they fail.
func (f *failure) fail(log *slog.Logger, doing string, cause error) error {
	err := fmt.Errorf("%w: %s: %w", ErrFailed, doing, cause)
	if f.firstErr.CompareAndSwap(nil, &err) {
		log.Error("journal: no more changes until it is opened again", "err", err)
	}
	return *f.firstErr.Load()
}

// WriteErr returns the error with which all writes fail, or nil.
func (f *failure) WriteErr() error {
	if p := f.firstErr.Load(); p != nil {
		return *p
	}
	return nil
}
