package snapshot

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/steps"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A PathChange is a path that a restore, an import or a promotion changed.
type PathChange struct {
	Path   string `json:"path"`
	Action string `json:"action"` // created, modified, deleted
}

// cleanPaths checks paths that a user gave and brings them to one form.
func cleanPaths(in []string) ([]string, error) {
	var out []string
	for _, p := range in {
		if p == "" || strings.HasPrefix(p, "/") || strings.ContainsRune(p, 0) {
			return nil, errs.New(errs.Invalid, "malformed request: path %q is not relative to the workspace's root", p)
		}
		clean := path.Clean(p)
		if clean == ".." || strings.HasPrefix(clean, "../") {
			return nil, errs.New(errs.Invalid, "malformed request: path %q leaves the workspace", p)
		}
		if clean == "." {
			return nil, nil
		}
		if top, _, _ := strings.Cut(clean, "/"); naming.IsControlDir(top) {
			return nil, errs.New(errs.Invalid, "malformed request: path %q is not part of the workspace", p)
		}
		out = append(out, clean)
	}
	return out, nil
}

// shown reports whether users see a change: of directories only that they come, go or
// have other rights.
func shown(c *live.Step) bool { return !steps.Trivial(c) }

// maxListed is how many bytes the paths have that a result names.
const maxListed = 1 << 20

// listChanges counts the changes that users see, and names as many as a result may.
func listChanges(list []live.Step) (n int, out []PathChange, more bool) {
	room := maxListed
	for i := range list {
		c := &list[i]
		if !shown(c) {
			continue
		}
		if n++; !more {
			room -= min(c.Path.Len(), unix.PathMax)
			more = room < 0
		}
		if !more {
			out = append(out, pathChange(c))
		}
	}
	return n, out, more
}

// PathChangeOf is a change as users see it.
func PathChangeOf(c tree.Change) PathChange {
	s := live.StepOf(c)
	return pathChange(&s)
}

func pathChange(c *live.Step) PathChange {
	p := PathChange{Path: c.Path.Short(), Action: "modified"}
	switch {
	case c.A == 0:
		p.Action = "created"
	case c.B == 0:
		p.Action = "deleted"
	}
	if p.Path == "" {
		p.Path = "."
	}
	return p
}
