package archive

import (
	"cmp"
	"context"
	"io"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// LayerOptions are the options of WriteLayer.
type LayerOptions struct {
	Source    *tree.Source
	Base, Now *tree.State
	Dir       string // the path of the image's root in both states; "" if it is their root
	// Owner is the user who became the owner of the image's files when it was imported. In the layer, files of
	// this user belong to root.
	Owner *stream.Owner
}

// WriteLayer writes the layer that changes Base to Now, as an archive. Its bytes depend only on the two states.
// The layer has changed files as a whole, the directories above them, and whiteouts. It needs no opaque
// directories, because all paths are compared.
func WriteLayer(ctx context.Context, w io.Writer, o LayerOptions) (*TarResult, error) {
	l := &layerWriter{LayerOptions: o, tarWriter: tarWriter{NewTarSink(w), ctx, o.Source, o.Owner}, written: map[string]bool{".": true}, linked: make(map[uint64]bool)}
	var only []string
	if o.Dir != "" {
		only = []string{o.Dir}
	}
	return l.done(tree.Diff(ctx, o.Source, o.Base, o.Now, tree.DiffOptions{Paths: only}, l.change))
}

type layerWriter struct {
	LayerOptions
	tarWriter
	written map[string]bool // the directories in the layer
	linked  map[uint64]bool // the files with several names in the layer, by inode number
	removed *tree.Path      // the last path that is a directory in Base but not in Now: changes below it are skipped
}

func (l *layerWriter) change(c tree.Change) error {
	for p := c.Path; p != nil && l.removed != nil; p = p.Dir {
		if p == l.removed {
			return nil
		}
	}

	if c.Before != nil && c.Before.IsDir() && (c.After == nil || !c.After.IsDir()) {
		l.removed = c.Path
	}

	p, ok := l.inside(c.Path.String())
	switch n := c.After; {
	case !ok:
		return nil
	case isWhiteout(p):
		l.skip(p, "in a layer such a name means that a file was removed")
		return nil
	case n == nil:
		return l.put(stream.Entry{Path: path.Join(path.Dir(p), whiteoutPrefix+path.Base(p)), Meta: stream.Meta{Mode: unix.S_IFREG}})
	case l.linked[n.Ino], c.What == tree.Links && c.Before.Ino == n.Ino && (n.IsDir() || n.Nlink < c.Before.Nlink):
		return nil // the file is in the layer already, or only another name of it was removed
	case n.IsDir() || n.Nlink < 2:
		return l.put(l.entry(p, n, ""))
	}

	// All names of a file are written, so that they are hard links in the image, too.
	l.linked[c.After.Ino] = true
	names, err := l.Now.Paths(l.Source, c.After)
	slices.Sort(names)
	first := ""
	for _, name := range names {
		if p, ok := l.inside(name); ok && !isWhiteout(p) && err == nil {
			err = l.put(l.entry(p, c.After, first))
			first = cmp.Or(first, p)
		}
	}

	return err
}

// inside returns a path relative to the root of the image. It returns false for a path that is not below that
// root.
func (l *layerWriter) inside(p string) (string, bool) {
	if l.Dir == "" {
		return path.Clean(p), true
	}
	if p == l.Dir {
		return ".", true
	}
	return strings.CutPrefix(p, l.Dir+"/")
}

// put writes an entry after the directories above it.
func (l *layerWriter) put(e stream.Entry) error {
	if dir := path.Dir(e.Path); !l.written[dir] {
		n, err := l.Now.Resolve(l.Source, path.Join(l.Dir, dir))
		if err == nil {
			err = l.put(l.entry(dir, n, ""))
		}
		if err != nil {
			return err
		}
	}

	if e.Mode&unix.S_IFMT == unix.S_IFDIR {
		if l.written[e.Path] && e.Path != "." {
			return nil
		}
		l.written[e.Path] = true
	}

	return l.Add(e)
}
