package live

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/amberfs/amberfs/internal/changed"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Errors that say more than their kind.
var (
	ErrReadOnly = errs.New(errs.ReadOnly, "snapshots are read-only")
	ErrTooHeavy = errs.New(errs.ReadOnly, "the workspace is read-only until the next mount: daemons were killed while they opened it")
	ErrFailed   = errs.New(errs.Failed, "a change failed half-way; unmount and mount again")
)

// Options says what a Forest stands on.
type Options struct {
	Source *tree.Source
	Log    *journal.Journal
	// ReadView finds the state of a view that the forest does not hold: that
	// of a snapshot. It is called with the lock of the forest held at least
	// for reading. errs.Stale when there is none.
	ReadView func(src *tree.Source, view uint32) (*tree.State, error)
	// Admit is asked, without a lock, before n bytes are written in a view, and
	// with 0 before a name is created: it may wait, or refuse with errs.Quota or
	// errs.NoSpace.
	Admit func(view uint32, n int64) error
	// Memory is charged for every change; when nil it has no bounds.
	Memory Memory
	// Overlap, if set, is called with the lock held before an actor changes what another
	// one changed since the newest snapshot of a view, at most once a second for a view.
	Overlap func(tx *Tx, view uint32, by string) error
	// Salvage makes Replay pass over records that do not fit.
	Salvage bool
	Logger  *slog.Logger
}

// A Forest is all the file trees of a store, with the operations that a filesystem
// has. Its methods may be called from many goroutines.
type Forest struct {
	*forest
	by      string // see As
	request uint64 // see For
}

type forest struct {
	trees
	Reader
	Takeover
	admit   func(view uint32, n int64) error
	blobs   *journal.Unreferenced
	salvage bool
}

// A Reader is what programs read of the trees, whoever changes them.
type Reader struct{ *trees }

// trees are the views with the lock that guards them, the journal that their changes are
// written to, and what their pages are read through.
type trees struct {
	src      *tree.Source // what is in memory; see source
	near     *tree.Source // gives Absent errors
	waiting  *tree.Source
	log      *journal.Journal
	memory   Memory
	pages    *atomic.Int64 // bytes of pages that were copied with the lock held, see tree.Source.Counting
	requests requests
	readView func(src *tree.Source, view uint32) (*tree.State, error)
	held     atomic.Pointer[func(NodeID) bool]

	mountPoints atomic.Pointer[func(view uint32) []string]
	covered     atomic.Pointer[func(view, pid uint32) []string]
	changed     *changed.Set[uint32]
	overlap     func(view uint32, by string) // takes a snapshot between two actors
	logger      *slog.Logger

	mu struct {
		sync.RWMutex
		views    map[uint32]*view
		epoch    uint64
		nextIno  uint64
		nextView uint32
		changes  uint64        // counts applied records
		frozen   chan struct{} // closed by Thaw; nil when changes go on

		applying bool // what was journaled is carried out

		by        string // the actor that changes are by while the lock is held
		journaled string // that of the last record
		request   uint64 // that changes are for while the lock is held, 0 for none

		replaying bool // recovery; nobody knows which nodes the kernel holds
		inherited inherited
		untold    map[uint32][][]string // by view: edits that the kernel may not know of, see Inheritance.Stale

		failed error // why nothing can be changed any more, see fail
		enc    *wire.Encoder
	}
}

// A view is one writable tree.
type view struct {
	trees   *trees
	id      uint32
	state   *tree.State
	editor  tree.Editor // see edit
	orphans orphans
	changed uint64        // value of trees.mu.changes at the last change
	touched *changed.Mark // of trees.changed
	edited  chan struct{} // closed by the end of an edit; nil when changes go on
	fixed   bool          // it is read-only, see Forest.SetReadOnly
	before  []*tree.State // that edits have just replaced, see Edit.keepHeldInodes

	attribution attribution

	// beneath are orphans that something is mounted on, by the names that they had.
	beneath map[tree.Link]uint64
}

// New returns a forest without views.
func New(o Options) *Forest {
	f := &Forest{forest: &forest{admit: o.Admit, salvage: o.Salvage, blobs: journal.NewUnreferenced(o.Log)}}
	f.Reader.trees, f.Takeover.trees = &f.trees, &f.trees
	f.pages = new(atomic.Int64)
	src := o.Source.Counting(f.pages)
	f.src, f.near, f.waiting = src, src, src
	if f.memory = o.Memory; f.memory == nil {
		f.memory = unbounded{}
	}
	f.log, f.readView, f.logger = o.Log, o.ReadView, o.Logger
	if f.admit == nil {
		f.admit = func(uint32, int64) error { return nil }
	}
	f.mu.views = make(map[uint32]*view)
	f.changed = changed.New[uint32](changedReaders)
	f.requests.clear()
	f.mu.inherited, f.mu.untold = newInherited(), make(map[uint32][][]string)
	f.mu.epoch = 1
	f.mu.nextIno = RootIno + 1
	f.mu.nextView = MainView + 1
	f.mu.enc = wire.NewEncoder(nil)
	f.mu.journaled = actors.Unknown
	if o.Overlap != nil {
		f.overlap = func(view uint32, by string) {
			tx := newTx(f)
			if err := f.ended(tx, o.Overlap(tx, view, by)); err != nil {
				f.logger.Debug("no snapshot between two actors", "error", err)
			}
		}
	}
	return f
}

// newView returns a view with a state of its own.
func (t *trees) newView(id uint32, s *tree.State) *view {
	v := &view{trees: t, id: id, state: s, orphans: orphans{state: &tree.State{}}, touched: t.changed.Add(id)}
	v.editor.Changed, v.editor.Unnamed = v.mark, v.keepUnnamed
	v.orphans.touch = v.touched.Change
	return v
}

// SetHeld gives the forest the way to ask whether the kernel still holds a
// node, so that unlinked files that are open live on. fn must not call back.
func (t *trees) SetHeld(fn func(NodeID) bool) { t.held.Store(&fn) }

// Held reports whether the kernel still knows a node: it is open, in use otherwise, or
// only cached.
func (t *trees) Held(id NodeID) bool {
	fn := t.held.Load()
	return fn != nil && (*fn)(id)
}

// SetReadOnly refuses all changes of a view from now on.
func (t *trees) SetReadOnly(view uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.views[view].fixed = true
}

// Counters returns the next inode number, and the next view.
func (f *Reader) Counters() (ino uint64, view uint32) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.mu.nextIno, f.mu.nextView
}

// SetMountPoints gives the forest the way to ask where file systems are mounted on a view,
// as paths from its root.
func (t *trees) SetMountPoints(fn func(view uint32) []string) { t.mountPoints.Store(&fn) }

// SetCovered gives the forest the way to ask where a process in another mount namespace sees
// something else than a view has there, as paths from its root.
func (t *trees) SetCovered(fn func(view, pid uint32) []string) { t.covered.Store(&fn) }

// lock takes the lock for a change of the views given by the actor, and waits while
// changes are held back.
func (f *Forest) lock(views ...uint32) {
	f.trees.lock(views...)
	f.mu.by, f.mu.request = f.by, f.request
}

func (t *trees) lock(views ...uint32) { t.lockUnless(nil, views) }

// lockUnless is lock, or reports false if done is closed first.
func (t *trees) lockUnless(done <-chan struct{}, views []uint32) bool {
	for {
		t.mu.Lock()
		wait := t.heldBack(views)
		if wait == nil {
			return true
		}
		t.mu.Unlock()
		select {
		case <-wait:
		case <-done:
			return false
		}
	}
}

// change calls fn with the lock held for a change of a node's view, see lock. What fn lacks is
// read without the lock, and fn begins again. If it lacks memory, the error is a cas.Delay.
func (f *Forest) change(id NodeID, fn func() error) error {
	return tree.Again(func() error {
		f.lock(id.View())
		defer f.mu.Unlock()
		return fn()
	})
}

// reading is change with the lock held for reading.
func (t *trees) reading(fn func() error) error {
	return tree.Again(func() error {
		t.mu.RLock()
		defer t.mu.RUnlock()
		return fn()
	})
}

// heldBack returns what is closed when changes of the views may go on, nil if
// they may already. The lock is held.
func (t *trees) heldBack(views []uint32) chan struct{} {
	if t.mu.frozen != nil {
		return t.mu.frozen
	}
	for _, id := range views {
		if v, ok := t.mu.views[id]; ok && v.edited != nil {
			return v.edited
		}
	}
	return nil
}

// HeldBack returns what is closed when changes of a view may go on that are held back, nil if
// none are. It serves to wait for that without a call that waits.
func (t *trees) HeldBack(view uint32) <-chan struct{} {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if wait := t.heldBack([]uint32{view}); wait != nil {
		return wait
	}
	return nil
}

// Freeze holds back every change until Thaw is called, for at most d. It
// reports false when the store is frozen already.
func (t *trees) Freeze(d time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.frozen != nil {
		return false
	}
	ch := make(chan struct{})
	t.mu.frozen = ch
	time.AfterFunc(d, func() { t.thaw(ch) })
	return true
}

// Thaw lets changes go on. It reports false when none were held back.
func (t *trees) Thaw() bool { return t.thaw(nil) }

// thaw is Thaw for the Freeze that made ch, or for any.
func (t *trees) thaw(ch chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.frozen == nil || ch != nil && ch != t.mu.frozen {
		return false
	}
	close(t.mu.frozen)
	t.mu.frozen = nil
	return true
}

// Frozen reports whether changes are held back.
func (t *trees) Frozen() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.mu.frozen != nil
}

// Sync returns when everything acknowledged before the call would survive a
// power cut.
func (t *trees) Sync() error { return t.log.Sync() }

// writable returns the view for a change. The lock is held.
func (t *trees) writable(id NodeID) (*view, error) {
	if v, ok := t.mu.views[id.View()]; ok && v.fixed {
		return nil, ErrTooHeavy
	} else if ok {
		return v, nil
	}
	if _, err := t.readView(t.src, id.View()); err != nil {
		return nil, err
	}
	return nil, ErrReadOnly
}

// changeable returns an inode that is to be changed. The lock is held.
func (t *trees) changeable(id NodeID) (*view, *tree.Inode, error) {
	v, err := t.writable(id)
	if err != nil {
		return nil, nil, err
	}
	n, err := v.inode(id.Ino())
	return v, n, err
}

// inode returns the inode of a node, for reading. The lock is held at least for reading.
func (t *trees) inode(id NodeID) (*tree.Inode, error) {
	if v, ok := t.mu.views[id.View()]; ok {
		return v.inode(id.Ino())
	}
	s, err := t.readView(t.source(), id.View())
	if err != nil {
		return nil, err
	}
	n, err := s.Get(t.source(), id.Ino())
	return n, tree.LoadError(err)
}

func (v *view) inode(ino uint64) (*tree.Inode, error) {
	n, err := v.state.Get(v.source(), ino)
	if errors.Is(err, tree.ErrNoInode) {
		n, err = v.orphan(ino)
	}
	return n, tree.LoadError(err)
}

// stateOf returns the state that a node is looked up in. The lock is held.
func (t *trees) stateOf(id NodeID) (*tree.State, error) {
	if v, ok := t.mu.views[id.View()]; ok {
		return v.state, nil
	}
	return t.readView(t.src, id.View())
}

// own returns the inode for changing it; its page is of this epoch then.
func (v *view) own(ino uint64) (*tree.Inode, error) {
	n, err := v.state.Own(v.source(), v.trees.mu.epoch, ino)
	if errors.Is(err, tree.ErrNoInode) {
		if _, err = v.orphan(ino); err == nil {
			n, err = v.orphans.own(v.source(), v.trees.mu.epoch, ino)
		}
	}
	return n, tree.LoadError(err)
}

// newIno returns a number for a new inode. The lock is held.
func (v *view) newIno() (uint64, error) { return v.trees.newInos(v.edit(0), 1) }

// newInos returns the first of n numbers for new inodes. Where the page of the table that it
// belongs on is damaged, the next page is begun.
func (t *trees) newInos(e *tree.Editor, n uint64) (first uint64, err error) {
	err = e.OwnSlot(t.mu.nextIno)
	if errs.Of(err) == errs.Away {
		return 0, err
	}
	if err != nil {
		t.mu.nextIno = (t.mu.nextIno/tree.PageInodes + 1) * tree.PageInodes
		if err := e.OwnSlot(t.mu.nextIno); err != nil {
			return 0, err
		}
	}
	if t.mu.nextIno+n > MaxIno {
		return 0, fmt.Errorf("%w: the store has used up its inode numbers", errs.NoSpace)
	}
	first = t.mu.nextIno
	t.mu.nextIno += n
	return first, nil
}

func (t *trees) sawIno(ino uint64) {
	if ino >= t.mu.nextIno {
		t.mu.nextIno = ino + 1
	}
}

// SetSource makes the forest read from a source that gives Absent errors, and without the lock.
// It is called before another goroutine has the forest.
func (t *trees) SetSource(near *tree.Source) {
	t.near = near
	t.src = near.Resident().Counting(t.pages)
}

// source is what a view is read through, with the lock held. What is journaled must be carried
// out: there it is waited for.
func (t *trees) source() *tree.Source {
	if t.mu.applying {
		return t.waiting
	}
	return t.src
}

func (v *view) source() *tree.Source { return v.trees.source() }

func now() int64 { return time.Now().UnixNano() }
