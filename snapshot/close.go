package snapshot

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/storedir"
)

// Close seals and commits the unsealed changes, which takes at most Options.CloseTime, and closes the store. When
// it returns, all acknowledged changes are on disk. Before the call, the kernel must have dropped all inodes. A
// process that stops before that calls GiveUp instead.
//
// Close returns ErrRemoved if the store or its index was removed. It returns cas.ErrStuck if the disk of the
// index accepts no more writes, because Badger would retry forever to write its tables. In both cases the store
// stays open, and the process should end. Acknowledged changes are in the packs and the journal.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.loops.Stop()
	if err := checkRemoved(s.storeDir, s.log); err != nil {
		return err
	}

	err := guard.Do(func() error {
		s.loops.Wait()
		if s.opt.ReadOnly {
			return s.closeParts()
		}

		err := s.Sync()
		makeLastCheckpoint(s)

		return errors.Join(err, s.closeParts())
	})
	if errors.Is(err, cas.ErrStuck) {
		return err // the index is still in use
	}

	return errors.Join(err, s.storeDir.Close())
}

// checkRemoved returns ErrRemoved if the directory of the index was removed, usually with the whole store. In that
// case it first syncs the journal: its files may still exist under other hard links.
func checkRemoved(storeDir *storedir.Dir, log *journal.Journal) error {
	if _, err := storeDir.Disk.Stat(filepath.Join(storeDir.Path, "index")); !errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := log.Sync(); err != nil && !errors.Is(err, errs.Closed) {
		return errors.Join(ErrRemoved, err)
	}

	return ErrRemoved
}

// makeLastCheckpoint makes the checkpoint at the end. Changes that it cannot seal within Options.CloseTime stay
// in the journal, and the next opening replays them.
func makeLastCheckpoint(s *Store) {
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if s.opt.CloseTime > 0 {
		ctx, cancel = context.WithTimeout(ctx, s.opt.CloseTime)
	}
	defer cancel()

	s.forest.Takeover.Disinherit() // the kernel references no inodes any more

	switch err := s.Checkpoint(ctx); {
	case err == nil:
		s.ckpt.ShrinkJournal()
	case ctx.Err() != nil:
		s.logger.Info("the rest is sealed after the next mount", "bytes", s.ckpt.JournalGrowth())
	default:
		s.logger.Warn("no checkpoint at the end", "err", err)
	}
}

// closeParts closes the journal and the packs, if they were opened.
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

// GiveUp closes the store without a checkpoint, for a process that cannot continue. A store that this process
// made is removed. Any other store is not changed: its acknowledged changes are in the packs and the journal,
// which the next opening reads.
//
// In a takeover GiveUp does nothing. The kernel still references inodes of the store, and the next
// process takes over their state when this process has ended.
func (s *Store) GiveUp() error {
	if s.opt.Takeover || s.closed.Swap(true) {
		return nil
	}
	s.loops.Stop()
	s.loops.Wait()
	err := s.closeParts()
	if s.storeDir.Created() {
		return errors.Join(err, s.storeDir.Discard())
	}

	return errors.Join(err, s.storeDir.Close())
}
