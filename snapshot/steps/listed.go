package steps

import (
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// A PathChange is a path that a restore, an import or a merge changed.
type PathChange struct {
	Path   string `json:"path"`
	Raw    string `json:"raw,omitempty"` // of Path, see naming.Raw
	Action string `json:"action"`        // created, modified, deleted
}

// PathChangeOf is a step as users see it.
func PathChangeOf(s live.Step) PathChange {
	p := PathChange{Path: s.Path.Short(), Action: "modified"}
	switch {
	case s.A == 0:
		p.Action = "created"
	case s.B == 0:
		p.Action = "deleted"
	}
	if p.Raw = naming.Raw(p.Path); p.Path == "" {
		p.Path = "."
	}
	return p
}

// maxListed is how many bytes the paths have that a result names.
const maxListed = 1 << 20

// Listed counts the steps that users see, and names as many as a result may.
func Listed(all []live.Step) (n int, out []PathChange, more bool) {
	room := maxListed
	for i := range all {
		s := &all[i]
		if Trivial(s) {
			continue
		}
		if n++; !more {
			room -= min(s.Path.Len(), unix.PathMax)
			more = room < 0
		}
		if !more {
			out = append(out, PathChangeOf(*s))
		}
	}
	return n, out, more
}
