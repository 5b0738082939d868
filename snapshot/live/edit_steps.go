package live

import (
	"context"
	"fmt"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// GraftOptions are the options for making the steps of an edit.
type GraftOptions struct {
	graft.Options
	// ActorsOf, if set, returns the actors of a step. If it returns none, the step has the actors of the edit.
	ActorsOf func(*graft.Step) ([]string, error)
	// If RecordSteps is set, the edit writes its steps to the journal, see Edit.Steps.
	RecordSteps bool
	// Seal, if set, seals the edited state, see graft.Target.
	Seal func(*tree.State) error
}

// Graft makes steps in the edited view.
func (e *Edit) Graft(ctx context.Context, steps []graft.Step, g GraftOptions) error {
	e.beginGraft(&g)
	return e.endGraft(e.target.Graft(ctx, steps, g.Options))
}

// Overlay makes the steps of an overlay in the edited view.
func (e *Edit) Overlay(ctx context.Context, o *graft.Overlay, g GraftOptions) error {
	e.beginGraft(&g)
	return e.endGraft(e.target.Overlay(ctx, o, g.Options))
}

// beginGraft sets up the target for the options g.
func (e *Edit) beginGraft(g *GraftOptions) {
	if g.RecordSteps {
		e.target.RecordOp = e.recordStep
	}

	if seal := g.Seal; seal != nil {
		e.target.Seal = func(st *tree.State) (uint64, error) {
			if err := seal(st); err != nil {
				return 0, err
			}
			return Counters{e.trees}.Epoch(), nil
		}
	}

	if by := g.ActorsOf; by != nil {
		defaultBy := e.stepActors
		g.BeforeStep = func(s *graft.Step) (err error) {
			if e.stepActors, err = by(s); len(e.stepActors) == 0 {
				e.stepActors = defaultBy
			}
			return err
		}
	}
}

// endGraft writes the last steps of a graft, and adds the changed inodes to the invalidation. Its arguments are
// the results of graft.Target.Graft.
func (e *Edit) endGraft(changed []uint64, err error) error {
	for _, ino := range changed {
		e.addChanged(ino)
	}
	if err != nil || e.enc.Len() == 0 {
		return err
	}
	return e.writeSteps()
}

// addChanged adds an inode to the invalidation.
func (e *Edit) addChanged(ino uint64) {
	e.invalidation.Inodes = append(e.invalidation.Inodes, Node(e.view.id, ino))
}

// addReplaced adds a name to the invalidation.
func (e *Edit) addReplaced(r graft.ReplacedName) {
	entry := Entry{Parent: Node(e.view.id, r.Parent), Name: r.Name, WasDir: r.WasDir, MountPoint: r.MountPoint}
	if r.OldIno != 0 {
		entry.OldNode = Node(e.view.id, r.OldIno)
	}
	e.invalidation.Entries = append(e.invalidation.Entries, entry)
}

// Counters allocates epochs and inode numbers. No number is allocated twice.
type Counters struct{ trees *trees }

// Next returns the next inode number and the next view number.
func (c Counters) Next() (ino uint64, view uint32) {
	c.trees.mu.RLock()
	defer c.trees.mu.RUnlock()
	return c.trees.mu.nextIno, c.trees.mu.nextView
}

// Epoch returns a new epoch that is used only by the caller, for changes without the forest's lock.
func (c Counters) Epoch() uint64 {
	c.trees.mu.Lock()
	defer c.trees.mu.Unlock()
	return c.trees.newEpoch()
}

// newEpoch does the work of Epoch. The caller holds the forest's lock.
func (t *trees) newEpoch() uint64 {
	t.mu.epoch += 2
	return t.mu.epoch - 1
}

// ReserveInos returns the first of n numbers for new inodes of an edited state.
func (c Counters) ReserveInos(e *tree.Editor, n uint64) (first uint64, err error) {
	next, _ := c.Next()
	_ = e.OwnSlot(next) // reads the page before the lock is taken
	c.trees.mu.Lock()
	defer c.trees.mu.Unlock()
	return c.trees.newInos(e, n)
}

// stepsBlobSize is the approximate size in bytes of a blob of steps.
const stepsBlobSize = 1 << 20

// recordStep encodes a step, and writes the encoded steps if they have at least stepsBlobSize bytes.
func (e *Edit) recordStep(c *graft.Op) error {
	c.Encode(e.enc)
	e.StepCount++
	e.unsealedSteps++
	if e.enc.Len() < stepsBlobSize {
		return nil
	}

	return e.writeSteps()
}

// writeSteps writes the encoded steps to the journal.
func (e *Edit) writeSteps() error {
	_, err := e.steps.Write(e.enc.Bytes())
	e.enc.Reset()
	return err
}

// Redo reads the steps from the journal and makes them again, in recovery. The caller holds the forest's
// lock.
func (e *Edit) Redo(steps []graft.JournalSpan, now int64, depth int) error {
	e.target.State.Depth, e.target.Time, e.target.OnRedone = depth, now, e.addChanged

	for _, s := range steps {
		if s.Len < 0 || s.Len > journal.MaxPayload {
			return fmt.Errorf("%w: %d bytes of steps", tree.ErrMalformed, s.Len)
		}
		b := make([]byte, s.Len)
		if err := e.trees.log.ReadAt(b, s.Pos, s.Pos); err != nil {
			return err
		}

		n, err := e.target.Redo(b, e.contentOf)
		e.StepCount += n
		e.unsealedSteps += n
		if err != nil {
			return err
		}
		if err := e.sealIfTooLarge(); err != nil {
			return err
		}
	}

	return e.findRemovedInodes()
}

// sealIfTooLarge seals the edited state if the state takes too much memory, see Memory.SealEdit.
func (e *Edit) sealIfTooLarge() error {
	sealed, err := e.trees.memory.SealEdit(e.view.id, e.target.State, int64(e.unsealedSteps)*InodeBytes+e.trees.copiedPageBytes.Load())
	if sealed {
		e.unsealedSteps, e.target.Epoch = 0, e.trees.newEpoch()
		e.trees.copiedPageBytes.Store(0)
	}
	return err
}

// contentOf returns the content of an inode of a view.
func (e *Edit) contentOf(view uint32, ino uint64) (*content.Content, error) {
	n, err := e.trees.inode(Node(view, ino))
	if err != nil {
		return nil, err
	}
	return n.Content, nil
}

// Blobs writes blobs to the journal, to which a later record will refer. Until Release the journal keeps the
// blobs. After Release it keeps them as long as recovery needs the record.
type Blobs struct {
	Spans    []graft.JournalSpan // the places of the blobs
	log      *journal.UnreferencedBytes
	urgent   bool
	releases []func()
}

// Write implements io.Writer.
func (b *Blobs) Write(p []byte) (int, error) {
	pos, unpin, err := b.log.Write(recBlob, p, b.urgent)
	if err != nil {
		return 0, err
	}
	b.Spans, b.releases = append(b.Spans, graft.JournalSpan{Pos: pos, Len: len(p)}), append(b.releases, unpin)
	return len(p), nil
}

// Release is called after the record was appended, or when the caller has decided not to append it.
func (b *Blobs) Release() {
	for _, unpin := range b.releases {
		unpin()
	}
	b.releases = nil
}
