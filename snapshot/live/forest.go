package live

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

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
	// Admit is asked, without a lock, before n bytes are written, and with 0
	// before something is created: it may wait, or refuse with ErrQuota or
	// ErrNoSpace.
	Admit func(n int64) error
	// Salvage makes Replay pass over records that do not fit.
	Salvage bool
	Logger  *slog.Logger
}

// A Forest is all the file trees of a store. Its methods may be called from
// many goroutines.
type Forest struct {
	src      *tree.Source
	log      *journal.Journal
	readView func(view uint32) (*tree.State, error)
	admit    func(n int64) error
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

		uncertain error // why nothing can be changed any more, see carryOut
		enc       *wire.Encoder
	}
}

// A view is one writable tree.
type view struct {
	id      uint32
	state   *tree.State
	orphans map[uint64]*tree.Inode
	changed uint64 // value of Forest.mu.changes at the last change
}

// New returns a forest without views.
func New(o Options) *Forest {
	f := &Forest{src: o.Source, log: o.Log, readView: o.ReadView, admit: o.Admit, salvage: o.Salvage, logger: o.Logger}
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

func (f *Forest) isHeld(id NodeID) bool {
	fn := f.held.Load()
	return fn != nil && (*fn)(id)
}

// lock takes the lock for a change, and waits while changes are held back.
func (f *Forest) lock() {
	for {
		f.mu.Lock()
		frozen := f.mu.frozen
		if frozen == nil {
			return
		}
		f.mu.Unlock()
		<-frozen
	}
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
func (f *Forest) Sync() error { return appendError(f.log.Sync()) }

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
		n, err := s.Get(f.src, id.Ino())
		return n, nil, loadError(err)
	}
	n, err := f.inodeOf(v, id.Ino())
	return n, v, err
}

func (f *Forest) inodeOf(v *view, ino uint64) (*tree.Inode, error) {
	n, err := v.state.Get(f.src, ino)
	if err == nil {
		return n, nil
	}
	if o, ok := v.orphans[ino]; ok {
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

// own returns the inode for changing it; its page is of this epoch then.
func (f *Forest) own(v *view, ino uint64) (*tree.Inode, error) {
	n, err := v.state.Own(f.src, f.mu.epoch, ino)
	if err == nil {
		return n, nil
	}
	if o, ok := v.orphans[ino]; ok {
		return o, nil
	}
	return nil, loadError(err)
}

func (f *Forest) newIno() (uint64, error) {
	if f.mu.nextIno > MaxIno {
		return 0, fmt.Errorf("%w: the store has used up its inode numbers", ErrNoSpace)
	}
	ino := f.mu.nextIno
	f.mu.nextIno++
	return ino, nil
}

func (f *Forest) sawIno(ino uint64) {
	if ino >= f.mu.nextIno {
		f.mu.nextIno = ino + 1
	}
}

func now() int64 { return time.Now().UnixNano() }
