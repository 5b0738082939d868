package journal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/amberfs/amberfs/internal/vfs"
)

const (
	segmentSuffix = ".seg"
	damagedSuffix = ".damaged" // set aside by a salvage
	minSegment    = 1 << 20    // what is tried before a disk counts as full
	urgentSegment = 64 << 10   // what is then taken for what gives space back
	blockSize     = 4096
)

// A segment is one file of the log. It stays open while refs is above 0; the
// journal's own list holds one reference.
type segment struct {
	base int64
	name string // base name of the file
	f    vfs.File
	desc descriptor // guarded by Journal.mu
	hdr  header
	seed uint32
	good bool         // there is a readable header
	size int64        // bytes of the file that may be written; guarded by Journal.mu
	end  atomic.Int64 // position after the last record
	refs atomic.Int32
}

func segmentName(base int64) string {
	return fmt.Sprintf("%016x%s", base, segmentSuffix)
}

// parseSegmentName returns the base position that a file name states.
func parseSegmentName(name string) (int64, bool) {
	hex, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(hex) != 16 {
		return 0, false
	}
	v, err := strconv.ParseInt(hex, 16, 64)
	if err != nil || v < 0 || segmentName(v) != name {
		return 0, false
	}
	return v, true
}

// acquire is false when the segment is gone.
func (s *segment) acquire() bool {
	for {
		n := s.refs.Load()
		if n == 0 {
			return false
		}
		if s.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release closes the file with the last reference.
func (s *segment) release() error {
	if s.refs.Add(-1) == 0 {
		return s.f.Close()
	}
	return nil
}

// segments returns the list of open segments in the order of their bases.
func (j *Journal) segments() []*segment { return *j.list.Load() }

func (j *Journal) path(name string) string { return filepath.Join(j.dir, name) }

// newSegment opens a segment at the end of the log that can hold need bytes of
// records, and makes it the current one. j.mu is held.
func (j *Journal) newSegment(need int64, urgent bool) error {
	s, err := j.makeSegment(segmentHeader+need, urgent)
	if err != nil {
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			return fmt.Errorf("%w: opening a segment: %w", ErrNoSpace, err)
		}
		return fmt.Errorf("open a journal segment: %w", err)
	}
	list := append(append([]*segment(nil), j.segments()...), s)
	j.list.Store(&list)
	j.names.Add(1)
	j.cur = s
	j.off = segmentHeader
	j.syncFarBehind()
	return nil
}

func (j *Journal) makeSegment(need int64, urgent bool) (*segment, error) {
	base := j.end.Load()
	h := header{base: base, firstSeq: j.seq, durable: j.durable.Load(), id: j.id, nonce: randomNonce()}
	// The header goes out with the first record, in one sector: where it is
	// missing after a crash, no record can be there.
	s := &segment{base: base, name: segmentName(base), hdr: h, seed: h.seed()}
	s.refs.Store(1)
	s.end.Store(base)
	f, size, err := j.takeFile(s.name, need, urgent)
	if err != nil {
		return nil, err
	}
	j.zeroed = 0
	s.f, s.size = f, size
	return s, nil
}

// takeFile returns a new open file of the given name with at least need bytes of
// disk space.
func (j *Journal) takeFile(name string, need int64, urgent bool) (f vfs.File, size int64, err error) {
	for size = max(j.segSize, need); ; size /= 4 {
		size = max((size+blockSize-1)&^(blockSize-1), need)
		if f, err = j.create(name, size); err == nil {
			return f, size, nil
		}
		if !errors.Is(err, syscall.ENOSPC) || size <= max(minSegment, need) {
			break
		}
	}
	if urgent && errors.Is(err, syscall.ENOSPC) {
		size = max(urgentSegment, need)
		if f, err = j.createFrom(name, size, 0); err == nil {
			return f, size, nil
		}
	}
	return nil, 0, err
}

func (j *Journal) create(name string, size int64) (vfs.File, error) {
	return j.createFrom(name, size, j.heldBack())
}

// heldBack is what writers have to leave of the disk, in bytes.
func (j *Journal) heldBack() int64 {
	if j.reserve == nil {
		return 0
	}
	return j.reserve()
}

func (j *Journal) createFrom(name string, size, reserve int64) (vfs.File, error) {
	if err := j.room(size, reserve); err != nil {
		return nil, err
	}
	f, err := vfs.Create(j.fs, j.path(name))
	if err != nil {
		return nil, err
	}
	if err := allocate(f, 0, size); err != nil {
		_ = f.Close()
		_ = j.fs.Remove(j.path(name)) // Open removes a segment without a header
		return nil, err
	}
	return f, nil
}

// room is ENOSPC when the disk has no n bytes beyond what must stay free.
func (j *Journal) room(n, reserve int64) error {
	free, err := j.fs.Free(j.dir)
	if err != nil {
		return err
	}
	free -= reserve
	if free < n {
		return fmt.Errorf("%d bytes needed, %d free: %w", n, max(free, 0), syscall.ENOSPC)
	}
	return nil
}

// allocate reserves disk space. Where the filesystem cannot, the file only
// grows, and a full disk shows up at a later write.
func allocate(f vfs.File, off, n int64) error {
	err := f.Allocate(off, n)
	if errors.Is(err, vfs.ErrNotSupported) {
		return f.Truncate(off + n)
	}
	return err
}

func randomNonce() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}
