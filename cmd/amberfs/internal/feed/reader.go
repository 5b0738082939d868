package feed

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"strings"

	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Limits of Linux. The other side keeps to them; a stream that does not is
// broken.
const (
	maxPath   = 4096
	maxXattrs = 1 << 16
	maxValue  = 64 << 10
)

var errBroken = errors.New("the stream of files is broken")

// Read hands a stream to sink.
func Read(in io.Reader, sink gitbridge.Sink) error {
	r := &reader{r: bufio.NewReaderSize(in, bufferSize)}
	for {
		kind, err := r.r.ReadByte()
		if err != nil {
			return early(err)
		}
		if kind == kindEnd {
			return nil
		}
		if err := r.entry(kind, sink); err != nil {
			return err
		}
	}
}

// early makes an error of an end that comes before kindEnd.
func early(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// reader keeps the first error of reading.
type reader struct {
	r   *bufio.Reader
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = early(err)
	}
}

func (r *reader) uint(limit uint64) uint64 {
	if r.err != nil {
		return 0
	}
	v, err := binary.ReadUvarint(r.r)
	if err == nil && v > limit {
		err = errBroken
	}
	if err != nil {
		r.fail(err)
		return 0
	}
	return v
}

func (r *reader) int() int64 {
	if r.err != nil {
		return 0
	}
	v, err := binary.ReadVarint(r.r)
	if err != nil {
		r.fail(err)
	}
	return v
}

func (r *reader) bytes(limit uint64) []byte {
	b := make([]byte, r.uint(limit))
	if r.err == nil {
		if _, err := io.ReadFull(r.r, b); err != nil {
			r.fail(err)
		}
	}
	return b
}

// path reads one that stays where it belongs.
func (r *reader) path() string {
	p := string(r.bytes(maxPath))
	if r.err == nil && (p == "" || p != path.Clean(p) || strings.HasPrefix(p, "/") || p == ".." ||
		strings.HasPrefix(p, "../") || strings.IndexByte(p, 0) >= 0) {
		r.fail(fmt.Errorf("%w: the path %q", errBroken, p))
	}
	return p
}

func (r *reader) meta() (m gitbridge.Meta) {
	m.Mode = uint32(r.uint(math.MaxUint32))
	m.UID = uint32(r.uint(math.MaxUint32))
	m.GID = uint32(r.uint(math.MaxUint32))
	m.Atime, m.Mtime = r.int(), r.int()
	for n := r.uint(maxXattrs); n > 0 && r.err == nil; n-- {
		m.Xattrs = append(m.Xattrs, tree.Xattr{Name: string(r.bytes(maxPath)), Value: r.bytes(maxValue)})
	}
	return m
}

func (r *reader) entry(kind byte, sink gitbridge.Sink) error {
	p := r.path()
	if kind == kindLink {
		old := r.path()
		if r.err != nil {
			return r.err
		}
		return sink.Hardlink(p, old)
	}
	m := r.meta()
	var send func() error
	switch kind {
	case kindDir:
		send = func() error { return sink.Dir(p, m) }
	case kindFile:
		size := int64(r.uint(math.MaxInt64))
		send = func() error { return r.file(p, m, size, sink) }
	case kindSparse:
		size := int64(r.uint(math.MaxInt64))
		send = func() error { return sink.File(p, m, size, &partsReader{r: r, size: size}) }
	case kindSymlink:
		target := string(r.bytes(maxPath))
		send = func() error { return sink.Symlink(p, target, m) }
	case kindSpecial:
		rdev := uint32(r.uint(math.MaxUint32))
		send = func() error { return sink.Special(p, m, rdev) }
	default:
		return fmt.Errorf("%w: an entry of the kind %q", errBroken, kind)
	}
	if r.err != nil {
		return r.err
	}
	if err := send(); err != nil {
		return err
	}
	return r.err
}

func (r *reader) file(p string, m gitbridge.Meta, size int64, sink gitbridge.Sink) error {
	body := &io.LimitedReader{R: r.r, N: size}
	if err := sink.File(p, m, size, body); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, body)
	return err
}

// partsReader is a file with holes.
type partsReader struct {
	r    *reader
	size int64
	at   int64
	left uint64 // of the piece
	in   bool   // a part
}

// Next implements gitbridge.SparseReader.
func (p *partsReader) Next() (int64, error) {
	if p.in {
		if _, err := io.Copy(io.Discard, p); err != nil {
			return 0, err
		}
	}
	off := p.r.uint(math.MaxInt64)
	switch {
	case p.r.err != nil:
		return 0, p.r.err
	case off == 0:
		return p.size, io.EOF
	case int64(off-1) < p.at || int64(off-1) > p.size:
		p.r.fail(errBroken)
		return 0, p.r.err
	}
	p.at, p.in, p.left = int64(off-1), true, p.r.uint(bufferSize)
	return p.at, p.r.err
}

// Read implements gitbridge.SparseReader.
func (p *partsReader) Read(b []byte) (int, error) {
	if p.r.err != nil {
		return 0, p.r.err
	}
	if !p.in || p.left == 0 {
		p.in = false
		return 0, io.EOF
	}
	n, err := p.r.r.Read(b[:min(uint64(len(b)), p.left)])
	p.at += int64(n)
	p.left -= uint64(n)
	if err != nil {
		p.r.fail(err)
		return n, p.r.err
	}
	if p.left == 0 {
		p.left = p.r.uint(bufferSize)
	}
	return n, p.r.err
}
