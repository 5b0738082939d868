package steps

import (
	"path"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Layers are the directories that mounted overlays have as layers. The paths may lead
// through symbolic links.
type Layers struct {
	Paths []string // from the root of the workspace
	// Relative has, for each overlay, paths from a directory that is not known.
	Relative [][]string
}

// A LayerCheck refuses steps in layers of mounted overlays: the kernel calls it undefined
// what such an overlay shows then.
type LayerCheck struct {
	src      *tree.Source
	now      *tree.State
	prefix   string // where the paths of the steps begin
	relative [][]string
	layers   map[string]bool
	outside  map[*tree.Path]bool // directories that are in no layer
}

// Check returns what checks steps that are to change a state below a path.
func (l Layers) Check(src *tree.Source, now *tree.State, prefix string) *LayerCheck {
	c := &LayerCheck{src, now, prefix, l.Relative, make(map[string]bool), make(map[*tree.Path]bool)}
	for _, p := range l.Paths {
		c.layers[followLinks(src, now, p)] = true
	}
	return c
}

// Any reports whether a step may be refused.
func (c *LayerCheck) Any() bool { return len(c.layers)+len(c.relative) > 0 }

// Step returns an error if a step changes a layer.
func (c *LayerCheck) Step(s *live.Step) error {
	if !c.Any() || Trivial(s) {
		return nil
	}
	var above []string // the outermost last
	for p := s.Path; p != nil && !c.outside[p]; p = p.Dir {
		above = append(above, path.Join(c.prefix, p.String()))
		if p != s.Path {
			c.outside[p] = true
		}
	}
	if !c.outside[nil] {
		c.outside[nil] = true
		for at := c.prefix; at != "" && at != "."; at = path.Dir(at) {
			above = append(above, at)
		}
		above = append(above, "")
	}
	for _, at := range slices.Backward(above) {
		c.below(at)
	}
	for _, at := range above {
		if c.layers[at] {
			return errs.New(errs.Busy, "busy: %s changes, and a mounted overlay has %s as a layer; unmount it, or stop its container, first",
				path.Join(c.prefix, PathChangeOf(*s).Path), path.Join("/", at))
		}
	}
	return nil
}

// below adds the layers whose relative paths may begin in a directory: it has all of an
// overlay.
func (c *LayerCheck) below(dir string) {
	for _, all := range c.relative {
		var found []string
		for _, p := range all {
			at := followLinks(c.src, c.now, path.Join(dir, p))
			if n, err := c.now.Resolve(c.src, at); err != nil || !n.IsDir() {
				break
			}
			found = append(found, at)
		}
		if len(found) == len(all) {
			for _, at := range found {
				c.layers[at] = true
			}
		}
	}
}

// followLinks resolves the relative symbolic links in a path. Container engines mount
// layers by such links.
func followLinks(src *tree.Source, st *tree.State, p string) string {
	for range 8 {
		names, followed := strings.Split(p, "/"), false
		for i := 1; i <= len(names) && !followed; i++ {
			at := path.Join(names[:i]...)
			if n, err := st.Resolve(src, at); err == nil && n.IsSymlink() && !path.IsAbs(n.Target) {
				p, followed = path.Join(path.Dir(at), n.Target, path.Join(names[i:]...)), true
			}
		}
		if !followed {
			break
		}
	}
	return p
}
