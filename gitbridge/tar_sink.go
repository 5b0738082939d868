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

// kinds are the types of entries that tar has.
var kinds = map[uint32]byte{
	unix.S_IFDIR: tar.TypeDir, unix.S_IFREG: tar.TypeReg, unix.S_IFLNK: tar.TypeSymlink,
	unix.S_IFIFO: tar.TypeFifo, unix.S_IFCHR: tar.TypeChar, unix.S_IFBLK: tar.TypeBlock,
}

// Add is a Sink.
func (t *TarSink) Add(e Entry) error {
	kind, ok := kinds[e.Mode&unix.S_IFMT]
	if e.Hardlink != "" {
		kind, ok = tar.TypeLink, true
		e.Target, e.Meta = e.Hardlink, Meta{}
	}
	if !ok {
		t.skip(e.Path, "tar has no sockets")
		return nil
	}
	h := t.header(kind, e.Path, e.Meta)
	h.Linkname = e.Target
	switch kind {
	case tar.TypeDir:
		h.Name += "/"
	case tar.TypeReg:
		h.Size = e.Size
	case tar.TypeChar, tar.TypeBlock:
		h.Devmajor, h.Devminor = int64(unix.Major(uint64(e.Rdev))), int64(unix.Minor(uint64(e.Rdev)))
	}
	if !utf8.ValidString(h.Name) || !utf8.ValidString(h.Linkname) {
		h.PAXRecords["hdrcharset"] = "BINARY" // libarchive refuses such names without it
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
