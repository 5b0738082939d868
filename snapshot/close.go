package snapshot

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/snapshot/engine"
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
	s.parts.Loops.Stop()
	if err := checkRemoved(s.storeDir, s.log); err != nil {
		return err
	}

	err := guard.Do(func() error {
		s.parts.Loops.Wait()
		if s.opt.ReadOnly {
			return closeParts(&s.parts)
		}

		err := s.Sync()
		s.forest.Takeover.Disinherit() // the kernel references no inodes any more
		makeLastCheckpoint(s.ckpt, s.opt.CloseTime)

		return errors.Join(err, closeParts(&s.parts))
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

// makeLastCheckpoint makes the checkpoint at the end. Changes that it cannot seal within limit stay in the
// journal, and the next opening replays them. 0: no limit.
func makeLastCheckpoint(c *engine.Checkpointer, limit time.Duration) {
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if limit > 0 {
		ctx, cancel = context.WithTimeout(ctx, limit)
	}
	defer cancel()

	switch err := c.Checkpoint(ctx); {
	case err == nil:
		c.ShrinkJournal()
	case ctx.Err() != nil:
		c.Logger.Info("the rest is sealed after the next mount", "bytes", c.JournalGrowth())
	default:
		c.Logger.Warn("no checkpoint at the end", "err", err)
	}
}

// closeParts closes the journal and the packs, if they were opened.
func closeParts(p *engine.Parts) error {
	p.Loops.Stop()
	var err error
	if p.Log != nil {
		err = p.Log.Close()
	}
	if p.CAS != nil {
		err = errors.Join(err, p.CAS.Close())
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
	s.parts.Loops.Stop()
	s.parts.Loops.Wait()
	err := closeParts(&s.parts)
	if s.storeDir.Created() {
		return errors.Join(err, s.storeDir.Discard())
	}

	return errors.Join(err, s.storeDir.Close())
}
