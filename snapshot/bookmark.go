package snapshot

import (
	"github.com/amberfs/amberfs/snapshot/interval"
	"github.com/amberfs/amberfs/snapshot/live"
)

// Bookmark remembers a fork's present state in place of the one remembered
// before. It is called when something begins to be removed in a fork, since
// `rm -rf .forks/NAME` empties the fork before its last rmdir ends it: EndFork
// then keeps the bookmark beside the last state. It costs as much as a capture,
// but is in no list, and not sealed unless a checkpoint comes.
func (w *Workspace) Bookmark() error {
	s := w.store
	return s.forest.Update(true, func(tx *live.Tx) error {
		if err := w.alive(); err != nil {
			return err
		}
		view, err := tx.NewView()
		if err != nil {
			return err
		}
		r := storedSnapshot{View: view, WS: w.rec.View, Info: Info{Name: "before", Kind: KindAuto, Created: s.opt.Now()}}
		st := w.present(tx)
		r.Files, r.Bytes = st.Inodes-1, st.Bytes
		return s.commit(tx, recBookmark, &bookmarkRecord{r})
	})
}

type bookmarkRecord struct{ storedSnapshot }

func (r *bookmarkRecord) apply(c *catalogue, tx *live.Tx) error {
	w, ok := c.workspaces[r.WS]
	if !ok {
		return nil
	}
	if old, ok := c.snaps[w.rec.Before]; ok {
		c.remove(old)
	}
	w.rec.Before = r.View
	return c.keepState(tx, r.storedSnapshot, w.freeze(tx), interval.Changes{})
}
