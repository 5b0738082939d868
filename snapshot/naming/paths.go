package naming

import (
	"path"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
)

// CleanPaths checks paths that a user gave, and returns them in their shortest form; nil
// if the root is one of them.
func CleanPaths(in []string) ([]string, error) {
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
		if top, _, _ := strings.Cut(clean, "/"); IsControlDir(top) {
			return nil, errs.New(errs.Invalid, "malformed request: path %q is not part of the workspace", p)
		}
		out = append(out, clean)
	}
	return out, nil
}
