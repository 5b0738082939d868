package snapshot

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/guard"
)

// Close seals and commits what is not sealed, for CloseTime at most, and closes the store.
// Everything acknowledged is on disk when it returns. It is for the end of a connection to the
// kernel, which holds nothing any more. A process that gives up before calls GiveUp.
//
// It is ErrRemoved, and nothing is closed, if the store or its index was removed,
// and cas.ErrStuck if the disk of the index takes no more writes: Badger would try
// forever to write its tables. The process should end then; what is
// acknowledged is in packs and journal.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.loops.Stop()
	if err := (closing{s}).removed(); err != nil {
		return err
	}
	err := guard.Do(closing{s}.close)
	if errors.Is(err, cas.ErrStuck) {
		return err // the index is still in use
	}
	return errors.Join(err, s.at.Close())
}

// A closing is what Close does.
type closing struct{ *Store }

// removed returns ErrRemoved if the directory of the index is gone, and with it, as a rule,
// the store. The journal is on disk then: a process may still have a link to it.
func (s closing) removed() error {
	if _, err := s.at.Disk.Stat(filepath.Join(s.dir, "index")); !errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := s.log.Sync(); err != nil && !errors.Is(err, errs.Closed) {
		return errors.Join(ErrRemoved, err)
	}
	return ErrRemoved
}

func (s closing) close() error {
	s.loops.Wait()
	if s.opt.ReadOnly {
		return s.closeParts()
	}
	err := s.log.Sync()
	s.lastSeal()
	return errors.Join(err, s.closeParts())
}

// lastSeal makes the checkpoint at the end. Changes that it has no time to seal stay in the
// journal, which the next opening replays.
func (s closing) lastSeal() {
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if s.opt.CloseTime > 0 {
		ctx, cancel = context.WithTimeout(ctx, s.opt.CloseTime)
	}
	defer cancel()
	s.forest.Disinherit() // the kernel holds nothing any more
	switch err := s.Checkpoint(ctx); {
	case err == nil:
		s.ckpt.ShrinkJournal()
	case ctx.Err() != nil:
		s.logger.Info("the rest is sealed after the next mount", "bytes", s.ckpt.Grown())
	default:
		s.logger.Warn("no checkpoint at the end", "err", err)
	}
}

// closeParts closes what was opened of the store.
func (s *Store) closeParts() error {
	s.loops.Stop()
	var err error
	if s.log != nil {
		err = s.log.Close()
	}
	if s.cas != nil {
		err = errors.Join(err, s.cas.Close())
	}
	return err
}

// GiveUp closes the store for a process that gives up. It removes a store that this opening made.
// Of any other it writes nothing: what is acknowledged is in packs and journal, from which the next
// opening has it.
//
// In a takeover it does nothing at all. The kernel holds what the store keeps for it, and the next
// process takes it over from this one, which ends.
func (s *Store) GiveUp() error {
	if s.opt.Takeover || s.closed.Swap(true) {
		return nil
	}
	s.loops.Stop()
	s.loops.Wait()
	err := s.closeParts()
	if s.at.Made() {
		return errors.Join(err, s.at.Discard())
	}
	return errors.Join(err, s.at.Close())
}
