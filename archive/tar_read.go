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
	plain, err := decompress.NewReader(stream.WithContext(ctx, r))
	if err != nil {
		return fmt.Errorf("reading the archive: %w", err)
	}
	defer plain.Close()
	return tarReader{Checker: stream.NewChecker(sink, o)}.readArchive(ctx, plain)
}

// A tarReader reads archives into a sink.
type tarReader struct {
	*stream.Checker
	isLayer bool // see Layers
}

// readArchive reads an archive that is not compressed.
func (c tarReader) readArchive(ctx context.Context, plain io.Reader) error {
	detector := &endDetector{r: plain}
	in := tar.NewReader(detector)

	for {
		h, err := in.Next()
		if err == io.EOF && (detector.foundEnd() || c.isLayer) {
			if err := drainTrailer(plain); err != nil {
				return fmt.Errorf("reading the archive: %w", explainTarError(err, false))
			}
			return nil
		}

		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("reading the archive: %w", explainTarError(err, c.Total.Files == 0))
		}

		body := stream.WithContext(ctx, in)
		if err := feedEntry(c, body, h); err != nil {
			return fmt.Errorf("reading the archive: %w", err)
		}
		if _, err := io.Copy(io.Discard, body); err != nil {
			return fmt.Errorf("reading the archive: %w", explainTarError(err, false))
		}

		detector.zeroCount = 0
	}
}

const blockSize = 512 // bytes; an archive consists of such blocks

// An endDetector passes an archive through, and looks for the block of zeros that POSIX requires at its end. Package
// archive/tar does not require this block, and so accepts an archive that was cut off between two files.
type endDetector struct {
	r         io.Reader
	zeroCount int  // number of zeros since the last byte that was not zero
	anyRead   bool // at least one byte was read
}

func (m *endDetector) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.anyRead = m.anyRead || n > 0
	if text := bytes.TrimRight(p[:n], "\x00"); len(text) > 0 {
		m.zeroCount = n - len(text)
	} else {
		m.zeroCount += n
	}

	return n, err
}

// foundEnd reports whether the block of zeros was read. An empty file is an empty archive, without such a block.
func (m *endDetector) foundEnd() bool { return m.zeroCount >= blockSize || !m.anyRead }

// drainTrailer reads up to 1 GiB after the end of the archive, for two reasons. A compressed archive has its checksum
// there. And the writer of a pipe would get SIGPIPE if its last bytes were not read. Other bytes after the archive
// are no error, as in tar.
func drainTrailer(r io.Reader) error {
	const maxTrailer = 1 << 30
	_, err := io.CopyN(io.Discard, r, maxTrailer)
	var bz bzip2.StructuralError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, gzip.ErrHeader), errors.Is(err, zstd.ErrMagicMismatch):
		return nil
	case errors.As(err, &bz) && strings.Contains(string(bz), "magic"):
		return nil
	}

	return err
}

// ErrTruncated: the archive was cut off.
var ErrTruncated = errors.New("the archive ends in the middle")

// explainTarError returns an error of package archive/tar as an error with a text for users. isFirst is set if the
// error was returned for the first header of the archive.
func explainTarError(err error, isFirst bool) error {
	if isFirst && (errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF)) {
		return errors.New("this is not a tar archive")
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrTruncated
	}
	return err
}

// feedEntry feeds the entry of a header to the sink. r reads the contents of the file.
func feedEntry(c tarReader, r io.Reader, h *tar.Header) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return c.CountEntry() // comments, such as git archive's commit
	}
	name, err := c.cleanPath(h.Name)
	if err != nil {
		return err
	}
	if c.isLayer && isWhiteout(name) {
		return c.feedWhiteout(name)
	}

	m, err := tarMeta(name, h)
	if err != nil {
		return err
	}

	e := stream.Entry{Path: name, Meta: c.WithOwner(m)}

	switch h.Typeflag {
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		e.Mode |= unix.S_IFREG
		e.Size, e.Data = h.Size, r
	case tar.TypeDir:
		e.Mode |= unix.S_IFDIR
	case tar.TypeSymlink:
		e.Mode, e.Target = unix.S_IFLNK|0o777, h.Linkname
	case tar.TypeLink:
		if e.Hardlink, err = c.cleanPath(h.Linkname); err != nil {
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
		return c.SkipFile(name, fmt.Errorf("%q is of the unknown type %q", name, h.Typeflag))
	}

	return c.Add(e)
}

// tarMeta returns the attributes in a header, without the file type.
func tarMeta(name string, h *tar.Header) (stream.Meta, error) {
	m := stream.Meta{Mode: uint32(h.Mode) & 0o7777, Mtime: filetime.FromTime(h.ModTime)}
	m.Atime = m.Mtime
	if !h.AccessTime.IsZero() {
		m.Atime = filetime.FromTime(h.AccessTime)
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
