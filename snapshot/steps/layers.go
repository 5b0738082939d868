package steps

import (
	"path"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Outside refuses steps in directories of a state that mounted overlays have as layers:
// the kernel calls it undefined what such an overlay shows then.
func Outside(layers []string, src *tree.Source, now *tree.State, all []live.Step) error {
	in := make(map[string]bool)
	for _, l := range layers {
		in[followLinks(src, now, l)] = true
	}
	checked := make(map[*tree.Path]bool) // directories that are in no layer
	for i := range all {
		if Trivial(&all[i]) {
			continue
		}
		for p := all[i].Path; !checked[p]; p = p.Dir {
			at := ""
			if p != nil {
				at = p.String()
			}
			if in[at] {
				return errs.New(errs.Busy, "busy: %s changes, and a mounted overlay has %s as a layer; unmount it, or stop its container, first",
					PathChangeOf(all[i]).Path, path.Join("/", at))
			}
			if p != all[i].Path || p == nil {
				checked[p] = true
			}
			if p == nil {
				break
			}
		}
	}
	return nil
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
