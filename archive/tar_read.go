package archive

import (
	"archive/tar"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/decompress"
	"github.com/amberfs/amberfs/internal/filetime"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// ReadTar feeds a tar archive to a sink: ustar, PAX or GNU, plain or compressed by gzip, zstd or bzip2. It fails
// for a path that is absolute or contains "..", and if the archive exceeds the Limits. In these cases the sink
// has received a part of the archive.
func ReadTar(ctx context.Context, r io.Reader, sink stream.Sink, o stream.Options) error {
	plain, err := decompress.Reader(stream.WithContext(ctx, r))
	if err != nil {
		return fmt.Errorf("reading the archive: %w", err)
	}
	defer plain.Close()
	return tarReader{Checker: stream.NewChecker(sink, o)}.archive(ctx, plain)
}

// A tarReader reads archives into a sink.
type tarReader struct {
	*stream.Checker
	layer bool // see Layers
}

// archive reads an archive that is not compressed.
func (c tarReader) archive(ctx context.Context, plain io.Reader) error {
	marked := &endMark{r: plain}
	in := tar.NewReader(marked)

	for {
		h, err := in.Next()
		if err == io.EOF && (marked.seen() || c.layer) {
			if err := drain(plain); err != nil {
				return fmt.Errorf("reading the archive: %w", explainTarError(err, false))
			}
			return nil
		}

		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("reading the archive: %w", explainTarError(err, c.Done.Files == 0))
		}

		body := stream.WithContext(ctx, in)
		if err := tarEntry(c, body, h); err != nil {
			return fmt.Errorf("reading the archive: %w", err)
		}
		if _, err := io.Copy(io.Discard, body); err != nil {
			return fmt.Errorf("reading the archive: %w", explainTarError(err, false))
		}

		marked.zeros = 0
	}
}

const block = 512 // bytes; an archive consists of such blocks

// An endMark looks for the block of zeros that POSIX requires at the end of an archive. Package archive/tar does
// not require this block, and so accepts an archive that was cut off between two files.
type endMark struct {
	r     io.Reader
	zeros int  // number of zeros since the last byte that was not zero
	began bool // a byte was read
}

func (m *endMark) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.began = m.began || n > 0
	if text := bytes.TrimRight(p[:n], "\x00"); len(text) > 0 {
		m.zeros = n - len(text)
	} else {
		m.zeros += n
	}

	return n, err
}

// seen reports whether the end was marked. An empty file is an empty archive.
func (m *endMark) seen() bool { return m.zeros >= block || !m.began }

// drain reads up to 1 GiB after the end of the archive. The checksum of a compressed archive follows there, and
// if the bytes were not read, the writer of a pipe would get SIGPIPE. As in tar, other bytes may follow.
func drain(r io.Reader) error {
	const reason = 1 << 30
	_, err := io.CopyN(io.Discard, r, reason)
	var bz bzip2.StructuralError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, gzip.ErrHeader), errors.Is(err, zstd.ErrMagicMismatch):
		return nil
	case errors.As(err, &bz) && strings.Contains(string(bz), "magic"):
		return nil
	}

	return err
}

var ErrTorn = errors.New("the archive ends in the middle")

// explainTarError returns an error of package archive/tar as an error with a text for users. first is set for the
// first header.
func explainTarError(err error, first bool) error {
	if first && (errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF)) {
		return errors.New("this is not a tar archive")
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrTorn
	}
	return err
}

func tarEntry(c tarReader, r io.Reader, h *tar.Header) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return c.Count() // comments, such as git archive's commit
	}
	name, err := c.clean(h.Name)
	if err != nil {
		return err
	}
	if c.layer && isWhiteout(name) {
		return c.feedWhiteout(name)
	}

	m, err := tarMeta(name, h)
	if err != nil {
		return err
	}

	e := stream.Entry{Path: name, Meta: c.Own(m)}

	switch h.Typeflag {
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		e.Mode |= unix.S_IFREG
		e.Size, e.Data = h.Size, r
	case tar.TypeDir:
		e.Mode |= unix.S_IFDIR
	case tar.TypeSymlink:
		e.Mode, e.Target = unix.S_IFLNK|0o777, h.Linkname
	case tar.TypeLink:
		if e.Hardlink, err = c.clean(h.Linkname); err != nil {
			return fmt.Errorf("hard link %q: %w", name, err)
		}
	case tar.TypeFifo:
		e.Mode |= unix.S_IFIFO
	case tar.TypeChar, tar.TypeBlock:
		e.Mode |= map[byte]uint32{tar.TypeChar: unix.S_IFCHR, tar.TypeBlock: unix.S_IFBLK}[h.Typeflag]
		const maxMajor, maxMinor = 1<<12 - 1, 1<<20 - 1
		if h.Devmajor < 0 || h.Devmajor > maxMajor || h.Devminor < 0 || h.Devminor > maxMinor {
			return fmt.Errorf("%w: %q is device %d:%d", stream.ErrHostile, name, h.Devmajor, h.Devminor)
		}
		e.Rdev = uint32(unix.Mkdev(uint32(h.Devmajor), uint32(h.Devminor)))

	default:
		return c.LeaveOut(name, fmt.Errorf("%q is of the unknown type %q", name, h.Typeflag))
	}

	return c.Add(e)
}

func tarMeta(name string, h *tar.Header) (stream.Meta, error) {
	m := stream.Meta{Mode: uint32(h.Mode) & 0o7777, Mtime: filetime.OfTime(h.ModTime)}
	m.Atime = m.Mtime
	if !h.AccessTime.IsZero() {
		m.Atime = filetime.OfTime(h.AccessTime)
	}
	if h.Uid < 0 || h.Uid >= stream.NoID || h.Gid < 0 || h.Gid >= stream.NoID {
		return m, fmt.Errorf("%w: %q belongs to %d:%d", stream.ErrHostile, name, h.Uid, h.Gid)
	}

	m.UID, m.GID = uint32(h.Uid), uint32(h.Gid)
	for k, v := range h.PAXRecords {
		if key, ok := strings.CutPrefix(k, paxXattr); ok {
			m.Xattrs = append(m.Xattrs, tree.Xattr{Name: key, Value: []byte(v)})
		}
	}

	stream.SortXattrs(m.Xattrs)

	return m, nil
}
