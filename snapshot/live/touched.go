package live

import (
	"slices"
	"sync"
)

// touched are the views that may differ from what the last checkpoint stored: in their state,
// orphans, or actors. Every other view is sealed. Views that were dropped may be among them.
type touched struct {
	mu    sync.Mutex
	views []*view
}

// touch is called before a change of a view, with the forest's lock held at least for reading.
func (v *view) touch() {
	if v.touched.Load() || v.touched.Swap(true) {
		return
	}
	t := &v.trees.touched
	t.mu.Lock()
	defer t.mu.Unlock()
	t.views = append(t.views, v)
}

// Touched returns the views that may differ from what the last checkpoint stored, in order. The
// lock is held for changes, as for TakeTouched, Touch and Untouch.
func (tx *Tx) Touched() []uint32 {
	t := &tx.f.touched
	t.mu.Lock()
	defer t.mu.Unlock()
	var ids []uint32
	t.views = slices.DeleteFunc(t.views, func(v *view) bool { return tx.f.mu.views[v.id] != v })
	for _, v := range t.views {
		ids = append(ids, v.id)
	}
	slices.Sort(ids)
	return ids
}

// TakeTouched is Touched for a checkpoint, which stores them, or calls Touch.
func (tx *Tx) TakeTouched() []uint32 {
	ids := tx.Touched()
	tx.Untouch(ids...)
	return ids
}

// Touch notes that views may differ from what the last checkpoint stored.
func (tx *Tx) Touch(views ...uint32) {
	for _, id := range views {
		if v, ok := tx.f.mu.views[id]; ok {
			v.touch()
		}
	}
}

// Untouch notes that views are as the last checkpoint stored them.
func (tx *Tx) Untouch(views ...uint32) {
	t := &tx.f.touched
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range views {
		if v, ok := tx.f.mu.views[id]; ok {
			v.touched.Store(false)
		}
	}
	t.views = slices.DeleteFunc(t.views, func(v *view) bool { return !v.touched.Load() })
}
