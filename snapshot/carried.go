package snapshot

import (
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/info"
)

// Carried is the result of a kernel request that a daemon carried out, and had not answered when it died. If the
// journal no longer has the record of the change, only Request is set.
type Carried struct {
	Request   uint64
	Workspace *Workspace
	Captured  info.Info // the new snapshot; zero if the request made none
	Forked    string    // the name of the new fork
	Ended     info.Info // the snapshot of the last state of the fork that the request ended
	Edit      *catalogue.EditAnswer
	Undo      string // for an Edit: the snapshot of the state before
}

// Carried returns the result of a request that the kernel has sent again, nil if the request was
// not carried out before.
func (s *Store) Carried(request uint64) *Carried {
	if _, done := s.forest.Takeover.Done(request); !done {
		return nil
	}

	c, view := &Carried{Request: request}, uint32(0)

	switch r := s.forest.Takeover.Record(request).(type) {
	case *catalogue.Capture:
		c.Captured, view = r.Info, r.WS
	case *catalogue.Edit:
		c.Edit, c.Undo, view = r.Answer, r.Pre.Name, r.WS
	case *catalogue.Fork:
		c.Forked, view = r.Name, r.WS
	case *catalogue.EndFork:
		if r.Last != nil {
			c.Ended, view = r.Last.Info, r.Last.WS
		}
	default:
		return c
	}

	c.Workspace, _ = s.Workspace(view)
	return c
}

// Changes returns the changes of Edit, which must not be nil.
func (c *Carried) Changes() Changes {
	return Changes{Changed: c.Edit.Changed, Paths: c.Edit.Paths, More: c.Edit.More, Undo: c.Undo}
}
