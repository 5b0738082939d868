package importer

import (
	"fmt"
	"io"
	"strings"

	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/snapshot"
)

// Root is a sink for what goes to the root of a workspace, where some names are
// taken.
type Root struct{ gitbridge.Sink }

func (Root) check(p string) error {
	if top, _, _ := strings.Cut(p, "/"); snapshot.IsControlDir(top) {
		return fmt.Errorf("%w: it has %s at its top, a name that amberfs keeps for itself at the root of a workspace; "+
			"bring it in below a directory, or without that", gitbridge.ErrHostile, top)
	}
	return nil
}

// Dir implements gitbridge.Sink.
func (r Root) Dir(p string, m gitbridge.Meta) error {
	if err := r.check(p); err != nil {
		return err
	}
	return r.Sink.Dir(p, m)
}

// File implements gitbridge.Sink.
func (r Root) File(p string, m gitbridge.Meta, size int64, in io.Reader) error {
	if err := r.check(p); err != nil {
		return err
	}
	return r.Sink.File(p, m, size, in)
}

// Symlink implements gitbridge.Sink.
func (r Root) Symlink(p, target string, m gitbridge.Meta) error {
	if err := r.check(p); err != nil {
		return err
	}
	return r.Sink.Symlink(p, target, m)
}

// Hardlink implements gitbridge.Sink.
func (r Root) Hardlink(p, old string) error {
	if err := r.check(p); err != nil {
		return err
	}
	return r.Sink.Hardlink(p, old)
}

// Special implements gitbridge.Sink.
func (r Root) Special(p string, m gitbridge.Meta, rdev uint32) error {
	if err := r.check(p); err != nil {
		return err
	}
	return r.Sink.Special(p, m, rdev)
}
