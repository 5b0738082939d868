package live

import (
	"fmt"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// applyStep makes a change of an edit, for a request and for recovery.
func (v *view) applyStep(r *record, removed tree.RemovedFunc) error {
	e := v.edit(r.time)
	switch r.kind {
	case recUnlink:
		e.RemoveAll(r.parent, r.name, removed)
	case recLink:
		e.Link(r.parent, r.name, r.ino)
	case recPut:
		e.Add(r.parent, r.name, r.node)
	case recSetAll:
		e.Own(r.node.Ino).SetAttrs(r.node, r.time)
	default:
		return fmt.Errorf("%w: a step of type %d", tree.ErrMalformed, r.kind)
	}
	return e.Err()
}
