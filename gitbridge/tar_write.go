package gitbridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// TarOptions say how an archive is written.
type TarOptions struct {
	Progress func(Progress) // called now and then, nil for never
}

// TarResult tells what an archive holds.
type TarResult struct {
	Files   int64      `json:"files"`   // entries of any type
	Bytes   int64      `json:"bytes"`   // of data
	Skipped []Omission `json:"skipped"` // what tar has no place for
}

// WriteTar writes a snapshot as a TarSink does. The bytes depend on the snapshot
// only.
func WriteTar(ctx context.Context, w io.Writer, src *tree.Source, st *tree.State, o TarOptions) (*TarResult, error) {
	t := &tarWriter{ctx: ctx, src: src, o: o, first: make(map[uint64]string)}
	t.res.Skipped = []Omission{}
	t.sink = NewTarSink(w, func(path, reason string) { t.res.Skipped = append(t.res.Skipped, Omission{path, reason}) })
	if err := st.Walk(ctx, src, "", t.entry); err != nil {
		return nil, fmt.Errorf("writing the archive: %w", err)
	}
	if err := t.sink.Close(); err != nil {
		return nil, fmt.Errorf("writing the archive: %w", err)
	}
	return &t.res, nil
}

type tarWriter struct {
	ctx   context.Context
	src   *tree.Source
	o     TarOptions
	sink  *TarSink
	first map[uint64]string // the first name of each inode with several
	res   TarResult
}

func (t *tarWriter) entry(p *tree.Path, n *tree.Inode) error {
	path := cmp.Or(p.String(), ".")
	m := Meta{Mode: n.Mode, UID: n.UID, GID: n.GID, Mtime: n.Mtime, Xattrs: n.Xattrs}
	if n.Mode&unix.S_IFMT != unix.S_IFSOCK {
		t.res.Files++
	}
	if t.o.Progress != nil && t.res.Files%256 == 0 {
		t.o.Progress(Progress{t.res.Files, t.res.Bytes})
	}
	e := Entry{Path: path, Meta: m, Target: n.Target, Rdev: n.Rdev}
	if n.Nlink > 1 && !n.IsDir() {
		if e.Hardlink = t.first[n.Ino]; e.Hardlink == "" {
			t.first[n.Ino] = path
		}
	}
	if n.IsRegular() && e.Hardlink == "" {
		t.res.Bytes += n.Size()
		e.Size, e.Data = n.Size(), &contextReader{t.ctx, n.Content.Reader(t.src.Files)}
	}
	return t.sink.Add(e)
}

// extent is a part of a file, in bytes.
type extent struct{ Offset, Length int64 }

// dataOf returns the parts of a file that are not holes.
func dataOf(src *tree.Source, c *content.Content) (parts []extent, err error) {
	for off := int64(0); off < c.Size(); {
		from, err := c.SeekData(src.Files, off)
		if errors.Is(err, content.ErrNoData) {
			break
		}
		if err == nil {
			off, err = c.SeekHole(src.Files, from)
		}
		if err != nil {
			return nil, err
		}
		parts = append(parts, extent{from, off - from})
	}
	return parts, nil
}

// contextReader ends with the context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
