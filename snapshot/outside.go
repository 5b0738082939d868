package snapshot

import (
	"errors"
	"sync/atomic"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// outside reads bytes of unsealed files: of the journal, and behind that of what is
// still outside of the store.
type outside struct {
	log  *journal.Journal
	from atomic.Pointer[content.Log]
}

// ReadAt implements content.Log.
func (o *outside) ReadAt(p []byte, pos, begin int64) error {
	if pos < content.Outside {
		return o.log.ReadAt(p, pos, begin)
	}
	from := o.from.Load()
	if from == nil {
		return errors.New("what is outside of the store is not open")
	}
	return (*from).ReadAt(p, pos, begin)
}

// BeginOutside makes a tree whose contents are still outside the first state of main,
// in a store that was just made: contents at positions from content.Outside on are
// read from there as long as the store is open. The first checkpoint brings all of
// them in; a store that is not closed before cannot be opened again. next is the
// number of the next inode, epoch one that the tree has no part of.
func (s *Store) BeginOutside(st *tree.State, next, epoch uint64, from content.Log, c live.Caller) error {
	s.outside.from.Store(&from)
	s.alter(func(tx *live.Tx) {
		tx.SetCounters(next, 0)
		tx.SetEpoch(epoch)
		tx.AddView(live.MainView, st)
	})
	return s.Main().Begin(c)
}
