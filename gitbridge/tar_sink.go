package gitbridge

import (
	"archive/tar"
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// A TarSink writes a PAX archive: with modes, numeric owners, times to the nanosecond,
// extended attributes (SCHILY.xattr.*), hard links, FIFOs and devices. Holes are written
// as zeros.
type TarSink struct {
	w    *bufio.Writer // below tar
	tar  *tar.Writer
	buf  []byte
	skip func(path, reason string)
}

var _ Sink = (*TarSink)(nil)

// NewTarSink returns a sink to w. skip is told of what tar has no place for.
func NewTarSink(w io.Writer, skip func(path, reason string)) *TarSink {
	b := bufio.NewWriterSize(w, 256<<10)
	return &TarSink{w: b, tar: tar.NewWriter(b), buf: make([]byte, 256<<10), skip: skip}
}

// Close ends the archive: what was written is the whole tree.
func (t *TarSink) Close() error {
	if err := t.tar.Close(); err != nil {
		return err
	}
	return t.w.Flush()
}

func (t *TarSink) header(kind byte, path string, m Meta) *tar.Header {
	h := &tar.Header{
		Format: tar.FormatPAX, Typeflag: kind, Name: path, Mode: int64(m.Mode & 0o7777),
		Uid: int(m.UID), Gid: int(m.GID), ModTime: time.Unix(0, m.Mtime), PAXRecords: t.xattrs(path, m),
	}
	if m.Atime != 0 {
		h.AccessTime = time.Unix(0, m.Atime)
	}
	return h
}

// xattrs returns the PAX records of extended attributes.
func (t *TarSink) xattrs(path string, m Meta) map[string]string {
	records := make(map[string]string)
	for _, x := range m.Xattrs {
		if strings.Contains(x.Name, "=") {
			t.skip(path, "tar cannot hold the attribute "+x.Name)
			continue
		}
		records[paxXattr+x.Name] = string(x.Value)
	}
	return records
}

const paxXattr = "SCHILY.xattr."

// put writes a header. Without the hint, libarchive refuses names that are no
// UTF-8.
func (t *TarSink) put(h *tar.Header) error {
	if !utf8.ValidString(h.Name) || !utf8.ValidString(h.Linkname) {
		h.PAXRecords["hdrcharset"] = "BINARY"
	}
	return t.tar.WriteHeader(h)
}

// Dir implements Sink.
func (t *TarSink) Dir(path string, m Meta) error {
	name := "./"
	if path != "." && path != "" {
		name = path + "/"
	}
	return t.put(t.header(tar.TypeDir, name, m))
}

// Symlink implements Sink.
func (t *TarSink) Symlink(path, target string, m Meta) error {
	h := t.header(tar.TypeSymlink, path, m)
	h.Linkname = target
	return t.put(h)
}

// Hardlink implements Sink.
func (t *TarSink) Hardlink(path, old string) error {
	h := t.header(tar.TypeLink, path, Meta{})
	h.Linkname = old
	return t.put(h)
}

// Special implements Sink. Tar has no sockets.
func (t *TarSink) Special(path string, m Meta, rdev uint32) error {
	kinds := map[uint32]byte{unix.S_IFIFO: tar.TypeFifo, unix.S_IFCHR: tar.TypeChar, unix.S_IFBLK: tar.TypeBlock}
	kind, ok := kinds[m.Mode&unix.S_IFMT]
	if !ok {
		t.skip(path, "tar has no sockets")
		return nil
	}
	h := t.header(kind, path, m)
	if kind != tar.TypeFifo {
		h.Devmajor, h.Devminor = int64(unix.Major(uint64(rdev))), int64(unix.Minor(uint64(rdev)))
	}
	return t.put(h)
}

// File implements Sink.
func (t *TarSink) File(path string, m Meta, size int64, r io.Reader) error {
	h := t.header(tar.TypeReg, path, m)
	h.Size = size
	if err := t.put(h); err != nil {
		return err
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{t.tar}, io.LimitReader(r, size), t.buf)
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("copying %q: %w", path, err)
	}
	return nil
}
