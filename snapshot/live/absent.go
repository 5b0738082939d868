package live

import (
	"context"
	"errors"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// An Absent error says that a call needs an object that is not on this machine. The
// call has changed nothing: its caller fetches the object, which may take long,
// and makes it again. So no process waits for a network with the lock of the forest held.
type Absent = cas.Absent

// Await calls fn, and again each time after an object that it lacked was fetched.
func Await(ctx context.Context, fn func() error) error {
	for {
		err := fn()
		var a *Absent
		if !errors.As(err, &a) {
			return err
		}
		if err := a.Fetch(ctx); err != nil {
			return err
		}
	}
}

// SetSource makes all that is looked up with the lock held come from a source that
// gives Absent errors. It is called before another goroutine has the forest.
func (t *trees) SetSource(src *tree.Source) { t.src = src }

// source is what a view is read through. What is journaled must be carried out: there it is
// waited for.
func (v *view) source() *tree.Source {
	if v.trees.mu.applying {
		return v.trees.waiting
	}
	return v.trees.src
}
