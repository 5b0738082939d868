package gitbridge

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// errFull says that a difference reaches further than the paths it is about, so
// that everything has to be sent.
var errFull = errors.New("not incremental")

// changes finds what is sent again after an earlier export, and takes what is gone out of
// its tree. It returns false if everything has to be sent; nothing has been recorded then.
func (x *exporter) changes() (bool, error) {
	var gone []string
	x.only = make(map[string]bool)
	err := tree.Diff(x.ctx, x.o.Source, x.before, x.o.State, tree.DiffOptions{}, func(c tree.Change) error {
		p := c.Path.String()
		if strings.HasPrefix(p+"/", ".git/") {
			return nil
		}
		if name := path.Base(p); name == ".gitattributes" || name == ".gitignore" && x.o.Gitignore {
			return errFull
		}
		if c.A != nil && !c.A.IsDir() {
			gone = append(gone, p)
		}
		x.only[p] = c.B != nil
		return nil
	})
	switch {
	case errors.Is(err, errFull):
		x.only = nil
		return false, nil
	case err != nil:
		return false, fmt.Errorf("comparing with the export before: %w", err)
	}
	for _, link := range x.base.Links {
		x.linked[link] = true
		x.w.remove(link)
	}
	for _, p := range gone {
		x.w.remove(p)
	}
	return true, nil
}
