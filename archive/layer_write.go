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
	Source       *tree.Source
	Base, Target *tree.State
	Dir          string // the path of the image's root in both states; "" if it is their root
	// Owner is the user who became the owner of the image's files when the image was imported. In the layer, files of
	// this user belong to root.
	Owner *stream.Owner
}

// WriteLayer writes the layer that changes the state Base to the state Target, as an archive. The bytes of the
// archive depend only on the two states. The layer has changed files as a whole, the directories above them, and a
// whiteout for each removed path. So it needs no opaque directories.
func WriteLayer(ctx context.Context, w io.Writer, o LayerOptions) (*TarResult, error) {
	l := &layerWriter{LayerOptions: o, tarWriter: tarWriter{NewTarSink(w), ctx, o.Source, o.Owner}, writtenDirs: map[string]bool{".": true}, writtenLinks: make(map[uint64]bool)}
	var only []string
	if o.Dir != "" {
		only = []string{o.Dir}
	}
	return l.finish(tree.Diff(ctx, o.Source, o.Base, o.Target, tree.DiffOptions{Paths: only}, l.writeChange))
}

// A layerWriter writes the layer of WriteLayer.
type layerWriter struct {
	LayerOptions
	tarWriter
	writtenDirs  map[string]bool // the directories in the layer
	writtenLinks map[uint64]bool // the files with several names in the layer, by inode number
	removedDir   *tree.Path      // the last path that is a directory in Base but not in Target: changes below it are skipped
}

// writeChange writes the entries for one change of a path.
func (l *layerWriter) writeChange(c tree.Change) error {
	if l.removedDir != nil && c.Path.IsUnder(l.removedDir) {
		return nil
	}

	if c.Before != nil && c.Before.IsDir() && (c.After == nil || !c.After.IsDir()) {
		l.removedDir = c.Path
	}

	p, ok := l.imagePath(c.Path.String())
	switch n := c.After; {
	case !ok:
		return nil
	case isWhiteout(p):
		l.addSkipped(p, "in a layer such a name means that a file was removed")
		return nil
	case n == nil:
		return l.writeEntry(stream.Entry{Path: path.Join(path.Dir(p), whiteoutPrefix+path.Base(p)), Meta: stream.Meta{Mode: unix.S_IFREG}})
	case l.writtenLinks[n.Ino], c.Differences == tree.LinksDiffer && c.Before.Ino == n.Ino && (n.IsDir() || n.Nlink < c.Before.Nlink):
		return nil // the file is in the layer already, or only another name of it was removed
	case n.IsDir() || n.Nlink < 2:
		return l.writeEntry(l.entry(p, n, ""))
	}

	// All names of a file are written, so that they are hard links in the image, too.
	l.writtenLinks[c.After.Ino] = true
	names, err := l.Target.Paths(l.Source, c.After)
	slices.Sort(names)
	first := ""
	for _, name := range names {
		if p, ok := l.imagePath(name); ok && !isWhiteout(p) && err == nil {
			err = l.writeEntry(l.entry(p, c.After, first))
			first = cmp.Or(first, p)
		}
	}

	return err
}

// imagePath converts a path of the states to a path relative to the root of the image. It returns false for a path
// that is not below that root.
func (l *layerWriter) imagePath(p string) (string, bool) {
	if l.Dir == "" {
		return path.Clean(p), true
	}
	if p == l.Dir {
		return ".", true
	}
	return strings.CutPrefix(p, l.Dir+"/")
}

// writeEntry writes an entry. It first writes the entries of the directories above it that are not in the layer yet.
func (l *layerWriter) writeEntry(e stream.Entry) error {
	if dir := path.Dir(e.Path); !l.writtenDirs[dir] {
		n, err := l.Target.Resolve(l.Source, path.Join(l.Dir, dir))
		if err == nil {
			err = l.writeEntry(l.entry(dir, n, ""))
		}
		if err != nil {
			return err
		}
	}

	if e.Mode&unix.S_IFMT == unix.S_IFDIR {
		if l.writtenDirs[e.Path] && e.Path != "." {
			return nil
		}
		l.writtenDirs[e.Path] = true
	}

	return l.Add(e)
}
