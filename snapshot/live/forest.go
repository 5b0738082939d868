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
	"github.com/amberfs/amberfs/snapshot/actors/attribution"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Errors of changes that the forest refuses.
var (
	ErrReadOnly           = errs.New(errs.ReadOnly, "snapshots are read-only")
	ErrReadOnlyAfterKills = errs.New(errs.ReadOnly, "the workspace is read-only until the next mount: daemons were killed while they opened it")
	ErrFailed             = errs.New(errs.Failed, "a change failed half-way; unmount and mount again")
)

// Options are the parameters of a Forest.
type Options struct {
	Source *tree.Source
	Log    *journal.Journal
	// ReadView returns the state of a view that is not in the forest: a snapshot. It is called
	// with the forest's lock held, at least for reading. The error is errs.Stale if the view does not
	// exist.
	ReadView func(src *tree.Source, view uint32) (*tree.State, error)
	// Admit is called without a lock before n bytes are written in a view, and with 0 before a name is
	// created. It may wait. If it returns errs.Quota or errs.NoSpace, the change fails with this error.
	Admit func(view uint32, n int64) error
	// Memory is charged for every change.
	Memory Memory
	// CaptureOnOverlap, if set, takes a snapshot of the view before the actor changes a file that another actor has changed
	// since the newest snapshot. It is called with the forest's lock held, at most once a second for a view.
	CaptureOnOverlap func(tx *Tx, view uint32, actor string) error
	// Salvage makes Replay skip records that cannot be applied.
	Salvage bool
	Logger  *slog.Logger
}

// A Forest contains all file trees of a store. Code that needs only some of its methods uses one of its
// parts, such as a Reader. A Forest and its parts are safe for concurrent use.
type Forest struct {
	Writer   // without an actor
	Takeover Takeover
	Recovery Recovery
	Freezer  Freezer
	Counters Counters
}

// A Reader has the operations of a file system that read the trees.
type Reader struct{ trees *trees }

// A Writer has the operations of a file system. Its changes are attributed to an actor, see WithActor.
type Writer struct {
	Reader
	actor   string
	request uint64 // see ForRequest
}

// trees contains the views, the lock that guards them, the journal to which changes are appended, and the
// sources from which pages are read. Comments call the lock trees.mu "the forest's lock".
type trees struct {
	residentSrc      *tree.Source // reads only memory, else fails with Unread errors; for use under the lock, see source
	localSrc         *tree.Source // reads memory and disk, else fails with a cas.AbsentError
	waitingSrc       *tree.Source // reads memory, disk and network, and waits for them
	log              *journal.Journal
	memory           Memory
	copiedPageBytes  *atomic.Int64 // bytes of pages that were copied under the lock, see tree.Source.CountingCopies
	requests         doneRequests
	readView         func(src *tree.Source, view uint32) (*tree.State, error)
	admit            func(view uint32, n int64) error
	blobs            *journal.UnreferencedBytes
	mount            atomic.Pointer[Mount]           // see Takeover.SetMount
	changedViews     *changed.Set[uint32]            // see Tx.ChangedViews
	captureOnOverlap func(view uint32, actor string) // calls Options.CaptureOnOverlap; may be nil
	logger           *slog.Logger

	mu struct {
		sync.RWMutex
		views       map[uint32]*view
		epoch       uint64
		nextIno     uint64
		nextView    uint32
		changeCount uint64        // number of applied records
		frozen      chan struct{} // closed by Thaw; nil if the forest is not frozen

		inApply bool // a journaled record is being applied

		actor          string // the actor of the present change, while the lock is held
		journaledActor string // the actor in the last recActor record
		request        uint64 // the request of the present change, while the lock is held; 0 for none

		replaying bool // a recovery is running: the nodes to which the kernel has references are unknown
		inherited inheritedEdits
		unnoticed map[uint32][][]string // by view, for each edit without MarkNoticed: names in the root, see Inheritance.Stale

		failed error // the error that stopped all changes, see recordFailure
		enc    *wire.Encoder
	}
}

// A view is one writable tree.
type view struct {
	trees          *trees
	id             uint32
	state          *tree.State
	editor         tree.Editor // see newEditor
	orphans        orphanSet
	changeNumber   uint64        // value of trees.mu.changeCount after the last change of the view
	changeMark     *changed.Mark // the mark of the view in trees.changedViews
	editDone       chan struct{} // closed at the end of the running edit, for which changes wait; nil without an edit
	readOnly       bool          // see SetReadOnly
	ended          bool          // its nodes are stale, see Tx.SetViewEnded
	replacedStates []*tree.State // states before edits, between Tx.Apply and End, see Edit.keepHeldInodes

	attribution attribution.Attribution
	protection  protection

	// mountOrphans has the inode numbers of orphans on which a file system is mounted, by their former names.
	mountOrphans map[tree.Link]uint64
}

// New returns a forest without views.
func New(o Options) *Forest {
	pages := new(atomic.Int64)
	src := o.Source.CountingCopies(pages)
	t := &trees{
		residentSrc: src, localSrc: src, waitingSrc: src, copiedPageBytes: pages,
		log: o.Log, memory: o.Memory, readView: o.ReadView, admit: o.Admit, blobs: journal.NewUnreferencedBytes(o.Log),
		changedViews: changed.New[uint32](changedReaderCount), logger: o.Logger,
	}

	t.mu.views = make(map[uint32]*view)
	t.requests.clear()
	t.mu.inherited, t.mu.unnoticed = newInheritedEdits(), make(map[uint32][][]string)
	t.mu.epoch = 1
	t.mu.nextIno = RootIno + 1
	t.mu.nextView = MainView + 1
	t.mu.enc = wire.NewEncoder(nil)
	t.mu.journaledActor = actors.Unknown
	if o.CaptureOnOverlap != nil {
		t.captureOnOverlap = func(view uint32, actor string) {
			if err := t.update(func(tx *Tx) error { return o.CaptureOnOverlap(tx, view, actor) }); err != nil {
				t.logger.Debug("no snapshot between two actors", "error", err)
			}
		}
	}

	return &Forest{
		Writer: Writer{Reader: Reader{t}}, Takeover: Takeover{t},
		Recovery: Recovery{t, o.Salvage}, Freezer: Freezer{t}, Counters: Counters{t},
	}
}

// newView returns a view that owns the state s.
func (t *trees) newView(id uint32, s *tree.State) *view {
	v := &view{trees: t, id: id, state: s, orphans: orphanSet{state: &tree.State{}}, changeMark: t.changedViews.Add(id)}
	v.editor.OnChanged, v.editor.OnUnnamed = v.attributeInode, v.keepUnnamed
	v.orphans.onChange = v.changeMark.MarkChanged
	return v
}

// lock takes the forest's lock for changes of views. It waits while an edit or a freeze blocks these
// changes.
func (t *trees) lock(views ...uint32) { t.lockUnless(nil, views) }

// lockUnless takes the forest's lock as trees.lock does, and returns true. If done is closed before the lock is
// free, it returns false without the lock.
func (t *trees) lockUnless(done <-chan struct{}, views []uint32) bool {
	for {
		t.mu.Lock()
		wait := t.blocker(views)
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

// change locks the forest to change the view of the node id, and calls fn. If fn fails because an object is not in
// memory, change reads the object without the lock and calls fn again. If fn fails because the change needs more
// memory, the error is a cas.DelayError.
func (w Writer) change(id NodeID, fn func() error) error {
	return tree.Again(func() error {
		w.trees.lock(id.View())
		defer w.trees.mu.Unlock()
		w.trees.mu.actor, w.trees.mu.request = w.actor, w.request
		return fn()
	})
}

// withReadLock calls fn with the forest's lock held for reading. If an object is not in memory, it reads the
// object without the lock and calls fn again.
func (t *trees) withReadLock(fn func() error) error {
	return tree.Again(func() error {
		t.mu.RLock()
		defer t.mu.RUnlock()
		return fn()
	})
}

// servedView returns the writable view of a node. ok is false if there is no such view, or it has ended. The
// caller holds the forest's lock, at least for reading.
func (t *trees) servedView(id NodeID) (v *view, ok bool) {
	v, ok = t.mu.views[id.View()]
	return v, ok && !v.ended
}

// writableView returns the view of a node for a change. The caller holds the forest's lock.
func (t *trees) writableView(id NodeID) (*view, error) {
	v, ok := t.servedView(id)
	if ok && v.readOnly {
		return nil, ErrReadOnlyAfterKills
	}
	if ok {
		return v, nil
	}
	if _, err := t.readView(t.residentSrc, id.View()); err != nil {
		return nil, err
	}

	return nil, ErrReadOnly
}

// changeableInode returns the view and the inode of a node for a change. The caller holds the forest's lock.
func (t *trees) changeableInode(id NodeID) (*view, *tree.Inode, error) {
	v, err := t.writableView(id)
	if err != nil {
		return nil, nil, err
	}
	n, err := v.inode(id.Ino())
	return v, n, err
}

// inode returns the inode of a node for reading. The caller holds the forest's lock, at least for reading.
func (t *trees) inode(id NodeID) (*tree.Inode, error) {
	if v, ok := t.servedView(id); ok {
		return v.inode(id.Ino())
	}

	s, err := t.readView(t.source(), id.View())
	if err != nil {
		return nil, err
	}

	n, err := s.Get(t.source(), id.Ino())
	return n, tree.LoadError(err)
}

// inode returns an inode of the view or an orphan, for reading.
func (v *view) inode(ino uint64) (*tree.Inode, error) {
	n, err := v.state.Get(v.source(), ino)
	if errors.Is(err, tree.ErrNoInode) {
		n, err = v.orphan(ino)
	}
	return n, tree.LoadError(err)
}

// stateOf returns the state of a node's view. The caller holds the forest's lock.
func (t *trees) stateOf(id NodeID) (*tree.State, error) {
	if v, ok := t.servedView(id); ok {
		return v.state, nil
	}
	return t.readView(t.residentSrc, id.View())
}

// ownInode returns an inode of the view, or an orphan, that may be changed in the present epoch.
func (v *view) ownInode(ino uint64) (*tree.Inode, error) {
	n, err := v.state.Own(v.source(), v.trees.mu.epoch, ino)
	if !errors.Is(err, tree.ErrNoInode) {
		return n, tree.LoadError(err)
	}
	if _, err := v.orphan(ino); err != nil {
		return nil, tree.LoadError(err)
	}

	n, err = v.orphans.own(v.source(), v.trees.mu.epoch, ino)
	return n, tree.LoadError(err)
}

// newIno returns a number for a new inode. The caller holds the forest's lock.
func (v *view) newIno() (uint64, error) { return v.trees.newInos(v.newEditor(0), 1) }

// newInos returns the first of n numbers for new inodes. If the table page of the next number is damaged, it skips
// the remaining numbers of the page. The caller holds the forest's lock.
func (t *trees) newInos(e *tree.Editor, n uint64) (first uint64, err error) {
	err = e.OwnSlot(t.mu.nextIno)
	if errs.KindOf(err) == errs.Unreachable {
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

// raiseNextIno raises the next inode number to at least ino+1.
func (t *trees) raiseNextIno(ino uint64) {
	if ino >= t.mu.nextIno {
		t.mu.nextIno = ino + 1
	}
}

// source returns the source from which a view is read under the forest's lock. While a journaled record is
// applied, which must not fail, this is waitingSrc.
func (t *trees) source() *tree.Source {
	if t.mu.inApply {
		return t.waitingSrc
	}
	return t.residentSrc
}

func (v *view) source() *tree.Source { return v.trees.source() }

func now() int64 { return time.Now().UnixNano() }
