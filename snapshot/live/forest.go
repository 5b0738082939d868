package live

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Options says what a Forest stands on.
type Options struct {
	Source *tree.Source
	Log    *journal.Journal
	// ReadView finds the state of a view that the forest does not hold: that
	// of a snapshot. It is called with the lock of the forest held at least
	// for reading. ErrStale when there is none.
	ReadView func(view uint32) (*tree.State, error)
	// Admit is asked, without a lock, before n bytes are written in a view, and
	// with 0 before a name is created: it may wait, or refuse with ErrQuota or
	// ErrNoSpace.
	Admit func(view uint32, n int64) error
	// Salvage makes Replay pass over records that do not fit.
	Salvage bool
	Logger  *slog.Logger
}

// A Forest is all the file trees of a store. Its methods may be called from
// many goroutines.
type Forest struct {
	src      *tree.Source // see source
	waiting  *tree.Source
	log      *journal.Journal
	readView func(view uint32) (*tree.State, error)
	admit    func(view uint32, n int64) error
	held     atomic.Pointer[func(NodeID) bool]
	blobs    blobs
	salvage  bool
	logger   *slog.Logger

	mu struct {
		sync.RWMutex
		views    map[uint32]*view
		epoch    uint64
		nextIno  uint64
		nextView uint32
		changes  uint64        // counts applied records
		frozen   chan struct{} // closed by Thaw; nil when changes go on

		applying bool // what was journaled is carried out

		failed error // why nothing can be changed any more, see fail
		enc    *wire.Encoder
	}
}

// A view is one writable tree.
type view struct {
	id      uint32
	state   *tree.State
	orphans orphans
	changed uint64        // value of Forest.mu.changes at the last change
	edited  chan struct{} // closed by the end of an edit; nil when changes go on
	epoch   uint64        // of an edit's copy; 0: that of the forest
	before  []*tree.State // that edits have just replaced, see Edit.keepHeldInodes
	src     *tree.Source  // of an edit's copy; nil: that of the forest
}

// New returns a forest without views.
func New(o Options) *Forest {
	f := &Forest{src: o.Source, waiting: o.Source, log: o.Log, readView: o.ReadView, admit: o.Admit, salvage: o.Salvage, logger: o.Logger}
	if f.admit == nil {
		f.admit = func(uint32, int64) error { return nil }
	}
	f.mu.views = make(map[uint32]*view)
	f.mu.epoch = 1
	f.mu.nextIno = RootIno + 1
	f.mu.nextView = MainView + 1
	f.mu.enc = wire.NewEncoder(nil)
	f.blobs.open = make(map[int64]int)
	return f
}

// SetHeld gives the forest the way to ask whether the kernel still holds a
// node, so that unlinked files that are open live on. fn must not call back.
func (f *Forest) SetHeld(fn func(NodeID) bool) { f.held.Store(&fn) }

// Held reports whether the kernel still knows a node: it is open, in use otherwise, or
// only cached.
func (f *Forest) Held(id NodeID) bool { return f.isHeld(id) }

func (f *Forest) isHeld(id NodeID) bool {
	fn := f.held.Load()
	return fn != nil && (*fn)(id)
}

// lock takes the lock for a change of the views given, and waits while changes
// are held back.
func (f *Forest) lock(views ...uint32) {
	for {
		f.mu.Lock()
		wait := f.heldBack(views)
		if wait == nil {
			return
		}
		f.mu.Unlock()
		<-wait
	}
}

// heldBack returns what is closed when changes of the views may go on, nil if
// they may already. f.mu is held.
func (f *Forest) heldBack(views []uint32) chan struct{} {
	if f.mu.frozen != nil {
		return f.mu.frozen
	}
	for _, id := range views {
		if v, ok := f.mu.views[id]; ok && v.edited != nil {
			return v.edited
		}
	}
	return nil
}

// Freeze holds back every change until Thaw is called, for at most d. It
// reports false when changes are held back already.
func (f *Forest) Freeze(d time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.frozen != nil {
		return false
	}
	ch := make(chan struct{})
	f.mu.frozen = ch
	time.AfterFunc(d, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.mu.frozen == ch {
			f.mu.frozen = nil
			close(ch)
		}
	})
	return true
}

// Thaw lets changes go on. It reports false when none were held back.
func (f *Forest) Thaw() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.frozen == nil {
		return false
	}
	close(f.mu.frozen)
	f.mu.frozen = nil
	return true
}

// Frozen reports whether changes are held back.
func (f *Forest) Frozen() bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.mu.frozen != nil
}

// Sync returns when everything acknowledged before the call would survive a
// power cut.
func (f *Forest) Sync() error { return f.log.Sync() }

// writable returns the view for a change. f.mu is held.
func (f *Forest) writable(id NodeID) (*view, error) {
	if v, ok := f.mu.views[id.View()]; ok {
		return v, nil
	}
	if _, err := f.readView(id.View()); err != nil {
		return nil, err
	}
	return nil, ErrReadOnly
}

// inode returns the inode of a node, for reading, and whether its view is
// writable. f.mu is held at least for reading.
func (f *Forest) inode(id NodeID) (*tree.Inode, *view, error) {
	v, ok := f.mu.views[id.View()]
	if !ok {
		s, err := f.readView(id.View())
		if err != nil {
			return nil, nil, err
		}
		src := f.src
		if f.mu.applying {
			src = f.waiting // what is journaled must be carried out
		}
		n, err := s.Get(src, id.Ino())
		return n, nil, loadError(err)
	}
	n, err := f.inodeOf(v, id.Ino())
	return n, v, err
}

func (f *Forest) inodeOf(v *view, ino uint64) (*tree.Inode, error) {
	n, err := v.state.Get(f.source(v), ino)
	if err == nil {
		return n, nil
	}
	if o, ok := f.orphan(v, ino); ok {
		return o, nil
	}
	return nil, loadError(err)
}

// stateOf returns the state that a node is looked up in. f.mu is held.
func (f *Forest) stateOf(id NodeID) (*tree.State, error) {
	if v, ok := f.mu.views[id.View()]; ok {
		return v.state, nil
	}
	return f.readView(id.View())
}

// epochOf returns the epoch that changes of a view belong to.
func (f *Forest) epochOf(v *view) uint64 {
	if v.epoch != 0 {
		return v.epoch
	}
	return f.mu.epoch
}

// own returns the inode for changing it; its page is of this epoch then.
func (f *Forest) own(v *view, ino uint64) (*tree.Inode, error) {
	n, err := v.state.Own(f.source(v), f.epochOf(v), ino)
	if err == nil {
		return n, nil
	}
	if o, ok := f.ownOrphan(v, ino); ok {
		return o, nil
	}
	return nil, loadError(err)
}

// newInos returns the first of n numbers for new inodes of a view. Where the page
// of the table that it belongs on is damaged, the next page is begun.
func (f *Forest) newInos(v *view, n uint64) (first uint64, err error) {
	err = f.ownSlot(v, f.mu.nextIno)
	if errs.Of(err) == errs.Away {
		return 0, err
	}
	if err != nil {
		f.mu.nextIno = (f.mu.nextIno/tree.PageInodes + 1) * tree.PageInodes
		if err := f.ownSlot(v, f.mu.nextIno); err != nil {
			return 0, err
		}
	}
	if f.mu.nextIno+n > MaxIno {
		return 0, fmt.Errorf("%w: the store has used up its inode numbers", ErrNoSpace)
	}
	first = f.mu.nextIno
	f.mu.nextIno += n
	return first, nil
}

func (f *Forest) sawIno(ino uint64) {
	if ino >= f.mu.nextIno {
		f.mu.nextIno = ino + 1
	}
}

func now() int64 { return time.Now().UnixNano() }
