package archive

import (
	"context"
	"fmt"
	"io"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/stream"
)

// Names in a layer that remove files of the layers below, as in the image specification of OCI.
const (
	whiteoutPrefix = ".wh."
	opaqueName     = ".wh..wh..opq"
)

// Layers feeds the layers of one image to a sink. The limits apply to all layers together. Absolute paths in a
// layer are relative to the root of the image, and ".." does not lead out of it.
type Layers struct{ tarReader }

// NewLayers returns Layers that feed a sink.
func NewLayers(sink stream.Sink, o stream.Options) Layers {
	return Layers{tarReader{stream.NewChecker(sink, o), true}}
}

// Read reads one layer, which is not compressed. It feeds either the layer's whiteouts (whiteoutsOnly) or all other
// entries. The caller reads the whiteouts first, because they remove only files of the layers below, even if they are
// at the end of the layer.
func (l Layers) Read(ctx context.Context, r io.Reader, whiteoutsOnly bool) error {
	c := *l.Checker
	c.Sink = func(e stream.Entry) error {
		if (e.Whiteout || e.Opaque) != whiteoutsOnly {
			return nil
		}
		return l.Sink(e)
	}

	err := tarReader{&c, true}.readArchive(ctx, r)
	if !whiteoutsOnly {
		l.Total = c.Total
	}

	return err
}

// feedWhiteout feeds the whiteout for a name in a layer that begins with whiteoutPrefix. It feeds nothing for the
// names of the files of Aufs itself, which begin with the prefix twice.
func (c tarReader) feedWhiteout(name string) error {
	dir, base := path.Split(name)
	removed, ok := strings.CutPrefix(base, whiteoutPrefix)
	switch {
	case base == opaqueName:
		return c.Add(stream.Entry{Path: path.Clean(dir), Meta: stream.Meta{Mode: unix.S_IFDIR}, Opaque: true})
	case !ok, strings.HasPrefix(removed, whiteoutPrefix):
		return c.CountEntry()
	case removed == "", removed == ".", removed == "..":
		return fmt.Errorf("%w: %q is a whiteout of no name", stream.ErrHostile, name)
	}

	return c.Add(stream.Entry{Path: path.Join(dir, removed), Whiteout: true})
}

// isWhiteout reports whether a component of a path begins with whiteoutPrefix.
func isWhiteout(name string) bool { return strings.Contains("/"+name, "/"+whiteoutPrefix) }

// cleanPath returns the path of an entry in the form of stream.CleanPath. In a layer, it first removes ".." and a
// slash at the beginning.
func (c tarReader) cleanPath(name string) (string, error) {
	if c.isLayer {
		name = path.Clean("/" + name)[1:]
	}
	return stream.CleanPath(name)
}
