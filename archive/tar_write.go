package archive

import (
	"archive/tar"
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/filetime"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// TarResult has the numbers of files and bytes in an archive, and the files that were left out.
type TarResult struct {
	Files   int64             `json:"files"`   // entries of any type
	Bytes   int64             `json:"bytes"`   // bytes of data
	Skipped []stream.Omission `json:"skipped"` // files and attributes that tar cannot represent
}

// WriteTar writes a state as a tar archive. The bytes of the archive depend only on the state.
func WriteTar(ctx context.Context, w io.Writer, src *tree.Source, st *tree.State) (*TarResult, error) {
	t := tarWriter{NewTarSink(w), ctx, src, nil}
	firstPaths := make(map[uint64]string) // the first paths of files with several names, by inode number
	return t.finish(st.Walk(ctx, src, tree.WalkOptions{}, func(p *tree.Path, n *tree.Inode) error {
		path := cmp.Or(p.String(), ".")
		e := t.entry(path, n, firstPaths[n.Ino])
		if n.Nlink > 1 && !n.IsDir() {
			firstPaths[n.Ino] = cmp.Or(firstPaths[n.Ino], path)
		}

		return t.Add(e)
	}))
}

// A tarWriter writes files of a state to a TarSink.
type tarWriter struct {
	*TarSink
	ctx   context.Context
	src   *tree.Source
	owner *stream.Owner // files of this user and group are written as files of root
}

// entry returns the entry of a path with an inode. If linkTo is set, the entry is a hard link to that path.
func (t tarWriter) entry(path string, n *tree.Inode, linkTo string) stream.Entry {
	e := stream.Entry{Path: path, Meta: stream.Meta{Mode: n.Mode, UID: n.UID, GID: n.GID, Mtime: n.Mtime, Xattrs: n.Xattrs}, Hardlink: linkTo, Target: n.Target, Rdev: n.Rdev}
	if t.owner != nil && e.UID == t.owner.UID {
		e.UID = 0
	}
	if t.owner != nil && e.GID == t.owner.GID {
		e.GID = 0
	}

	if n.IsRegular() && linkTo == "" {
		e.Holes = n.Size() - n.Content.Allocated()
		e.Size, e.Data = n.Size(), stream.WithContext(t.ctx, n.Content.Reader(t.src.Files))
		if e.Holes >= minSparseHoleBytes {
			t.setParts(&e, n.Content)
		}
	}

	return e
}

// A TarSink writes a PAX archive: with modes, numeric owners, times to the nanosecond, extended attributes
// (SCHILY.xattr.*), hard links, FIFOs and devices. Small holes are written as zeros. A file with large holes is
// written as its parts (tar_sparse.go).
type TarSink struct {
	TarResult               // the result for the entries so far
	w         *bufio.Writer // buffers the archive that tar writes
	tar       *tar.Writer
	buf       []byte
	holeBytes int64 // number of zeros that were written for holes
}

// NewTarSink returns a TarSink. The caller closes it.
func NewTarSink(w io.Writer) *TarSink {
	b := bufio.NewWriterSize(w, 256<<10)
	return &TarSink{TarResult: TarResult{Skipped: []stream.Omission{}}, w: b, tar: tar.NewWriter(b), buf: make([]byte, 256<<10)}
}

// addSkipped adds a file to the files that were left out.
func (t *TarSink) addSkipped(path, reason string) {
	t.Skipped = append(t.Skipped, stream.Omission{Path: path, Reason: reason})
}

// Close writes the end of the archive.
func (t *TarSink) Close() error {
	if err := t.tar.Close(); err != nil {
		return err
	}
	return t.w.Flush()
}

// finish closes the archive and returns the result. The caller passes the error of writing the entries as err: if err
// is not nil, finish returns it, and does not close the archive.
func (t *TarSink) finish(err error) (*TarResult, error) {
	if err == nil {
		err = t.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("writing the archive: %w", err)
	}
	return &t.TarResult, nil
}

// maxHoleBytes is the largest number of bytes of holes, in all files together, that are written as zeros.
const maxHoleBytes = 1 << 40

// paxXattr is the prefix of the PAX record of an extended attribute. The attribute's name follows.
const paxXattr = "SCHILY.xattr."

// tarTypes has the types of tar entries by file type.
var tarTypes = map[uint32]byte{
	unix.S_IFDIR: tar.TypeDir, unix.S_IFREG: tar.TypeReg, unix.S_IFLNK: tar.TypeSymlink,
	unix.S_IFIFO: tar.TypeFifo, unix.S_IFCHR: tar.TypeChar, unix.S_IFBLK: tar.TypeBlock,
}

// Add writes an entry. The method is a Sink.
func (t *TarSink) Add(e stream.Entry) error {
	kind, ok := tarTypes[e.Mode&unix.S_IFMT]
	if e.Hardlink != "" {
		kind, ok = tar.TypeLink, true
		e.Target = e.Hardlink
	}

	if !ok {
		t.addSkipped(e.Path, "tar has no sockets")
		return nil
	}

	if e.Sparse {
		e.Holes = 0
	}

	if t.holeBytes += e.Holes; t.holeBytes > maxHoleBytes {
		t.holeBytes -= e.Holes
		t.addSkipped(e.Path, fmt.Sprintf("an archive would hold its %d bytes of holes as zeros; copy it with `cp --sparse=always`", e.Holes))
		return nil
	}

	t.Files++
	t.Bytes += e.Size
	h := &tar.Header{
		Format: tar.FormatPAX, Typeflag: kind, Name: e.Path, Linkname: e.Target, Mode: int64(e.Mode & 0o7777),
		Uid: int(e.UID), Gid: int(e.GID), ModTime: filetime.Time(e.Mtime), PAXRecords: make(map[string]string),
	}
	if e.Atime != 0 {
		h.AccessTime = filetime.Time(e.Atime)
	}

	for _, x := range e.Xattrs {
		if strings.Contains(x.Name, "=") {
			t.addSkipped(e.Path, "tar cannot hold the attribute "+x.Name)
		} else {
			h.PAXRecords[paxXattr+x.Name] = string(x.Value)
		}
	}

	switch kind {
	case tar.TypeDir:
		h.Name += "/"
	case tar.TypeReg:
		h.Size = e.Size
	case tar.TypeChar, tar.TypeBlock:
		h.Devmajor, h.Devminor = int64(unix.Major(uint64(e.Rdev))), int64(unix.Minor(uint64(e.Rdev)))
	}

	if !utf8.ValidString(h.Name) || !utf8.ValidString(h.Linkname) {
		h.PAXRecords["hdrcharset"] = "BINARY" // without this record, libarchive refuses names that are not UTF-8
	}
	if e.Sparse {
		return t.addSparse(h, e)
	}
	if err := t.tar.WriteHeader(h); err != nil || kind != tar.TypeReg {
		return err
	}

	n, err := io.CopyBuffer(struct{ io.Writer }{t.tar}, io.LimitReader(e.Data, e.Size), t.buf)
	if err == nil && n != e.Size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("copying %q: %w", e.Path, err)
	}

	return nil
}
