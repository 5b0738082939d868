package service

import (
	"context"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/process"
)

// Actor asks to register a name for a process and its descendants.
type Actor struct {
	Name string `json:"name" jsonschema:"the name: letters, digits, '_', '.', '-', ':' and '/'"`
	PID  uint32 `json:"pid,omitempty" jsonschema:"the process; the caller if missing. Through the mount, the caller or an ancestor of it"`
	Up   int    `json:"up,omitempty" jsonschema:"the process is so many generations above the caller"`
}

// Registered is the result of Actor.
type Registered struct {
	Name string `json:"name"`
	PID  uint32 `json:"pid" jsonschema:"0 stands for all processes that the daemon cannot see"`
}

func registerActor(_ context.Context, r *Request, a Actor) (Registered, error) {
	id, err := actorProcess(r, a)
	if err != nil {
		return Registered{}, err
	}
	return Registered{a.Name, id}, r.Workspace.Store().Actors().Register(id, r.Caller.UID, r.Workspace.View(), a.Name)
}

// actorProcess returns the process to register. The result 0 stands for all processes that the
// daemon cannot see. Through the mount, only the caller and its ancestors can be registered.
func actorProcess(r *Request, a Actor) (uint32, error) {
	switch {
	case r.Caller.Direct && a.PID != 0:
		return a.PID, nil
	case r.Caller.PID == 0 && r.Workspace.IsFork():
		return 0, nil // the caller is in another PID namespace, as are all programs in its fork
	case r.Caller.PID == 0:
		return 0, errs.Fail(errs.Perm, "the process cannot be seen by the daemon: a name for all such can be registered in a fork only")
	}

	id := process.Of(int(r.Caller.PID))
	for up := a.Up; id > 1; up-- {
		if a.PID == 0 && up <= 0 || a.PID != 0 && id == int(a.PID) {
			return uint32(id), nil
		}
		st, err := process.StatOf(id)
		if err != nil {
			break
		}
		id = st.Parent
	}

	return 0, errs.Fail(errs.NotExist, "the caller has no such ancestor")
}
