package gitbridge

import (
	"archive/tar"
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/amberfs/amberfs/snapshot/tree"
	"golang.org/x/sys/unix"
)

// TarOptions say how an archive is written.
type TarOptions struct {
	Progress func(Progress) // called now and then, nil for never
}

// TarResult tells what an archive holds.
type TarResult struct {
	Files   int64  `json:"files"`   // entries of any type
	Bytes   int64  `json:"bytes"`   // of data
	Skipped []Lost `json:"skipped"` // what tar has no place for
}

// WriteTar writes a snapshot as a PAX archive: with modes, numeric owners,
// modification times to the nanosecond, extended attributes (SCHILY.xattr.*),
// hard links, FIFOs, devices, and sparse files as GNU tar writes them (format
// 1.0). The bytes depend on the snapshot only.
func WriteTar(ctx context.Context, w io.Writer, src *tree.Source, st *tree.State, o TarOptions) (*TarResult, error) {
	buffered := bufio.NewWriterSize(w, 256<<10)
	t := &tarWriter{ctx: ctx, src: src, o: o, w: buffered, tar: tar.NewWriter(buffered), buf: make([]byte, 256<<10), first: make(map[uint64]string)}
	t.res.Skipped = []Lost{}
	if err := st.Walk(ctx, src, "", t.entry); err != nil {
		return nil, fmt.Errorf("writing the archive: %w", err)
	}
	if err := t.tar.Close(); err != nil {
		return nil, fmt.Errorf("writing the archive: %w", err)
	}
	if err := buffered.Flush(); err != nil {
		return nil, fmt.Errorf("writing the archive: %w", err)
	}
	return &t.res, nil
}

type tarWriter struct {
	ctx   context.Context
	src   *tree.Source
	o     TarOptions
	w     *bufio.Writer // below tar
	tar   *tar.Writer
	buf   []byte
	first map[uint64]string // the first name of each inode with several
	res   TarResult
}

func (t *tarWriter) entry(path string, n *tree.Inode) error {
	if n.Mode&unix.S_IFMT == unix.S_IFSOCK {
		t.res.Skipped = append(t.res.Skipped, Lost{path, "tar has no sockets"})
		return nil
	}
	h := &tar.Header{
		Format:     tar.FormatPAX,
		Name:       path,
		Mode:       int64(n.Mode & 0o7777),
		Uid:        int(n.UID),
		Gid:        int(n.GID),
		ModTime:    time.Unix(0, n.Mtime),
		PAXRecords: t.xattrs(path, n),
	}
	if !utf8.ValidString(path) || !utf8.ValidString(n.Target) {
		// Without it, libarchive refuses names that are no UTF-8.
		if h.PAXRecords == nil {
			h.PAXRecords = make(map[string]string)
		}
		h.PAXRecords["hdrcharset"] = "BINARY"
	}
	t.res.Files++
	if t.o.Progress != nil && t.res.Files%256 == 0 {
		t.o.Progress(Progress{t.res.Files, t.res.Bytes})
	}
	if n.Nlink > 1 && !n.IsDir() {
		if first, ok := t.first[n.Ino]; ok {
			h.Typeflag, h.Linkname = tar.TypeLink, first
			maps.DeleteFunc(h.PAXRecords, func(k, _ string) bool { return strings.HasPrefix(k, paxXattr) })
			if !utf8.ValidString(first) {
				h.PAXRecords = map[string]string{"hdrcharset": "BINARY"}
			}
			return t.tar.WriteHeader(h)
		}
		t.first[n.Ino] = path
	}
	switch n.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		h.Typeflag = tar.TypeDir
		h.Name = strings.TrimPrefix(path+"/", "./")
		if path == "" || path == "." {
			h.Name = "./"
		}
	case unix.S_IFLNK:
		h.Typeflag, h.Linkname = tar.TypeSymlink, n.Target
	case unix.S_IFIFO:
		h.Typeflag = tar.TypeFifo
	case unix.S_IFCHR, unix.S_IFBLK:
		h.Typeflag = tar.TypeChar
		if n.Mode&unix.S_IFMT == unix.S_IFBLK {
			h.Typeflag = tar.TypeBlock
		}
		h.Devmajor, h.Devminor = int64(unix.Major(uint64(n.Rdev))), int64(unix.Minor(uint64(n.Rdev)))
	default:
		return t.file(path, n, h)
	}
	return t.tar.WriteHeader(h)
}

// file writes a regular file, sparse if that leaves something out.
func (t *tarWriter) file(path string, n *tree.Inode, h *tar.Header) error {
	h.Typeflag, h.Size = tar.TypeReg, n.Size()
	data, err := dataOf(t.src, n.Content)
	if err != nil {
		return fmt.Errorf("reading %q: %w", path, err)
	}
	var stored int64
	for _, e := range data {
		stored += e.Length
	}
	t.res.Bytes += stored
	const worthIt = 4096
	if h.Size-stored >= worthIt {
		return t.sparse(path, n, h, data, stored)
	}
	if err := t.tar.WriteHeader(h); err != nil {
		return err
	}
	return t.copy(path, t.tar, open(t.src, n), h.Size)
}

func (t *tarWriter) copy(path string, w io.Writer, r io.Reader, size int64) error {
	n, err := io.CopyBuffer(w, &contextReader{t.ctx, r}, t.buf)
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("copying %q: %w", path, err)
	}
	return nil
}

// dataOf returns the parts of a file that are not holes.
func dataOf(src *tree.Source, c *tree.Content) ([]Extent, error) {
	var out []Extent
	size := c.Size()
	if c.Allocated() >= size {
		if size > 0 {
			out = []Extent{{0, size}}
		}
		return out, nil
	}
	for off := int64(0); off < size; {
		from, err := c.SeekData(src, off)
		if err != nil {
			if isNoData(err) {
				break
			}
			return nil, err
		}
		to, err := c.SeekHole(src, from)
		if err != nil {
			return nil, err
		}
		out = append(out, Extent{from, to - from})
		off = to
	}
	return out, nil
}

// xattrs returns the PAX records of a file's extended attributes.
func (t *tarWriter) xattrs(path string, n *tree.Inode) map[string]string {
	var records map[string]string
	for _, x := range n.Xattrs {
		if strings.Contains(x.Name, "=") {
			t.res.Skipped = append(t.res.Skipped, Lost{path, "tar cannot hold the attribute " + x.Name})
			continue
		}
		if records == nil {
			records = make(map[string]string)
		}
		records[paxXattr+x.Name] = string(x.Value)
	}
	return records
}

const paxXattr = "SCHILY.xattr."

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
