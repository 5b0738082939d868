package snapshot

import (
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/info"
)

// A RequestResult is the result of a kernel request that the previous daemon carried out and had not answered when
// it died. If the journal no longer has the record of the change, only Request is set.
type RequestResult struct {
	Request      uint64
	Workspace    *Workspace
	NewSnapshot  info.Info // the new snapshot; zero if the request made none
	NewFork      string    // the name of the new fork
	LastState    info.Info // the snapshot of the last state of the fork that the request ended
	EditAnswer   *catalogue.EditAnswer
	UndoSnapshot string // for an edit: the snapshot of the state before
}

// ResultOf returns the result of a request that the kernel has sent again, nil if the request was not carried out
// before.
func (s *Store) ResultOf(request uint64) *RequestResult {
	if _, done := s.forest.Takeover.WasCarriedOut(request); !done {
		return nil
	}

	c, view := &RequestResult{Request: request}, uint32(0)

	switch r := s.forest.Takeover.CatalogueRecord(request).(type) {
	case *catalogue.Capture:
		c.NewSnapshot, view = r.UserInfo(), r.WS
	case *catalogue.Edit:
		c.EditAnswer, c.UndoSnapshot, view = r.Answer, r.Pre.Name, r.WS
	case *catalogue.Fork:
		c.NewFork, view = r.Name, r.WS
	case *catalogue.EndFork:
		if r.LastState != nil {
			c.LastState, view = r.LastState.Info, r.LastState.WS
		}
	default:
		return c
	}

	c.Workspace, _ = s.Workspace(view)
	return c
}

// Changes returns the changes of EditAnswer, which must not be nil.
func (c *RequestResult) Changes() Changes {
	return Changes{Changed: c.EditAnswer.Changed, Paths: c.EditAnswer.Paths, More: c.EditAnswer.More, Undo: c.UndoSnapshot}
}
