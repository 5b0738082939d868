package snapshot

import (
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/info"
)

// Carried is what a daemon did that died before it answered a request of the kernel. Nothing is set
// but Request if the record of it is not in the journal any more.
type Carried struct {
	Request   uint64
	Workspace *Workspace
	Captured  info.Info // the snapshot that was taken; without a name there is none
	Forked    string    // the name of the fork that was made
	Ended     info.Info // the snapshot of the last state of the fork that was ended
	Edit      *catalogue.EditAnswer
	Undo      string // of Edit: the snapshot of the state before
}

// Carried returns what a request did that the kernel has sent again, nil if it was not carried out.
func (s *Store) Carried(request uint64) *Carried {
	if _, done := s.forest.Done(request); !done {
		return nil
	}
	c, view := &Carried{Request: request}, uint32(0)
	switch r := s.forest.Record(request).(type) {
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

// Changes returns what Edit changed.
func (c *Carried) Changes() Changes {
	return Changes{Changed: c.Edit.Changed, Paths: c.Edit.Paths, More: c.Edit.More, Undo: c.Undo}
}
