package gitbridge

import (
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// LayerOptions say what a layer is of.
type LayerOptions struct {
	Source    *tree.Source
	Base, Now *tree.State
	Dir       string // the root of the image in both, "" for theirs
	// Owner is the user that the files of the image were given to when it was imported: in
	// the layer they belong to root again.
	Owner *Owner
}

// WriteLayer writes a layer of an image: what makes Now of Base, as an archive whose bytes
// depend on the two only. It has whole files, the directories above them, and whiteouts;
// opaque directories are never needed, as all paths are compared.
func WriteLayer(ctx context.Context, w io.Writer, o LayerOptions) (*TarResult, error) {
	t := &tarWriter{ctx: ctx, src: o.Source}
	t.res.Skipped = []Omission{}
	skip := func(path, reason string) { t.res.Skipped = append(t.res.Skipped, Omission{path, reason}) }
	t.sink = NewTarSink(w, skip)
	l := &layerWriter{LayerOptions: o, tarWriter: t, skip: skip, written: map[string]bool{".": true}, linked: make(map[uint64]bool)}
	var only []string
	if o.Dir != "" {
		only = []string{o.Dir}
	}
	err := tree.Diff(ctx, o.Source, o.Base, o.Now, tree.DiffOptions{Paths: only}, l.change)
	if err == nil {
		err = t.sink.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("writing the layer: %w", err)
	}
	return &t.res, nil
}

type layerWriter struct {
	LayerOptions
	*tarWriter
	skip    func(path, reason string)
	written map[string]bool // directories
	linked  map[uint64]bool // files of several names
	gone    *tree.Path      // a path that is no directory any more: nothing is below it
}

func (l *layerWriter) change(c tree.Change) error {
	for p := c.Path; p != nil && l.gone != nil; p = p.Dir {
		if p == l.gone {
			return nil
		}
	}
	if c.A != nil && c.A.IsDir() && (c.B == nil || !c.B.IsDir()) {
		l.gone = c.Path
	}
	p, ok := l.inside(c.Path.String())
	switch {
	case !ok:
		return nil
	case c.B == nil:
		return l.whiteout(p)
	case c.B.IsDir() || c.B.Nlink < 2:
		if c.What == tree.Links && c.A.Ino == c.B.Ino {
			return nil // another of its names was removed
		}
		return l.put(p, c.B)
	case c.What == tree.Links && c.A.Ino == c.B.Ino && c.B.Nlink < c.A.Nlink, l.linked[c.B.Ino]:
		return nil
	}
	// All names come, so that they are one file in the image too.
	l.linked[c.B.Ino] = true
	names, err := l.Now.Paths(l.Source, c.B)
	if err != nil {
		return err
	}
	slices.Sort(names)
	first := ""
	for _, name := range names {
		p, ok := l.inside(name)
		if !ok {
			continue
		}
		if first == "" {
			if err := l.put(p, c.B); err != nil {
				return err
			}
			first = p
		} else if err := l.add(Entry{Path: p, Meta: l.meta(c.B), Hardlink: first}); err != nil {
			return err
		}
	}
	return nil
}

// inside returns the path in the image.
func (l *layerWriter) inside(p string) (string, bool) {
	if l.Dir == "" {
		return path.Clean(p), true
	}
	if p == l.Dir {
		return ".", true
	}
	return strings.CutPrefix(p, l.Dir+"/")
}

func (l *layerWriter) put(p string, n *tree.Inode) error {
	e := Entry{Path: p, Meta: l.meta(n), Target: n.Target, Rdev: n.Rdev}
	if n.IsRegular() {
		e.Size, e.Data = n.Size(), &contextReader{l.ctx, n.Content.Reader(l.src.Files)}
	}
	return l.add(e)
}

func (l *layerWriter) meta(n *tree.Inode) Meta {
	m := Meta{Mode: n.Mode, UID: n.UID, GID: n.GID, Mtime: n.Mtime, Xattrs: n.Xattrs}
	if l.Owner != nil && m.UID == l.Owner.UID {
		m.UID = 0
	}
	if l.Owner != nil && m.GID == l.Owner.GID {
		m.GID = 0
	}
	return m
}

func (l *layerWriter) whiteout(p string) error {
	return l.add(Entry{Path: path.Join(path.Dir(p), whiteoutPrefix+path.Base(p)), Meta: Meta{Mode: unix.S_IFREG}, Whiteout: true})
}

// add writes an entry after the directories above it.
func (l *layerWriter) add(e Entry) error {
	if !e.Whiteout && strings.Contains("/"+e.Path, "/"+whiteoutPrefix) {
		l.skip(e.Path, "in a layer such a name means that a file was removed")
		return nil
	}
	if err := l.above(path.Dir(e.Path)); err != nil {
		return err
	}
	if e.Mode&unix.S_IFMT == unix.S_IFDIR && e.Hardlink == "" {
		if l.written[e.Path] && e.Path != "." {
			return nil
		}
		l.written[e.Path] = true
	}
	l.res.Files++
	l.res.Bytes += e.Size
	return l.sink.Add(e)
}

func (l *layerWriter) above(dir string) error {
	if l.written[dir] {
		return nil
	}
	n, err := l.Now.Resolve(l.Source, path.Join(l.Dir, dir))
	if err != nil {
		return err
	}
	return l.put(dir, n)
}
