package journal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/amberfs/amberfs/internal/vfs"
)

// Open opens the journal in a directory, which it makes if there is none. It
// finds the end of the log and cuts off what a crash left behind it. It reads
// only what is not known to have been durable, usually the last segment.
//
// Damage among that is a *DamageError, unless Options.Salvage is set.
func Open(dir string, o Options) (*Journal, error) {
	j := &Journal{dir: dir, fs: o.FS, log: o.Logger, segSize: o.SegmentSize, reserve: o.Reserve, salvage: o.Salvage, reads: o.ReadOnly, begin: o.Begin, seq: 1}
	if j.fs == nil {
		j.fs = vfs.OS
	}
	if j.log == nil {
		j.log = slog.New(slog.DiscardHandler)
	}
	if j.segSize <= 0 {
		j.segSize = DefaultSegmentSize
	}
	j.segSize = (j.segSize + blockSize - 1) &^ (blockSize - 1)
	j.sync.done.L = &j.sync.mu
	j.behind.most = syncBehind
	j.list.Store(&[]*segment{})
	if err := j.open(); err != nil {
		for _, s := range j.segments() {
			_ = s.release() // nothing was written through it that matters
		}
		return nil, fmt.Errorf("open journal %s: %w", dir, err)
	}
	return j, nil
}

func (j *Journal) open() error {
	if !j.reads {
		if err := j.fs.MkdirAll(j.dir, 0o700); err != nil {
			return err
		}
	}
	infos, err := j.fs.ReadDir(j.dir)
	if err != nil && (!j.reads || !errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	for _, i := range infos {
		base, ok := parseSegmentName(i.Name)
		if !ok || i.Dir {
			continue
		}
		if err := j.openSegment(base, i.Name); err != nil {
			return fmt.Errorf("segment %s: %w", i.Name, err)
		}
	}
	j.names.Store(1) // names that the last run did not sync, for all we know
	if _, err := rand.Read(j.id[:]); err != nil {
		return err
	}
	if err := j.recover(); err != nil {
		return err
	}
	if err := j.atLeast(j.begin); err != nil {
		return err
	}
	if j.reads {
		j.failure.Store(&errReadOnly)
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.syncFarBehind()
	return nil
}

var errReadOnly error = ErrReadOnly

// atLeast sees to it that the log does not end before a position that its owner
// knows of.
func (j *Journal) atLeast(pos int64) error {
	if end := j.end.Load(); end >= pos {
		if !j.reads && end > 0 && len(j.segments()) == 0 {
			return j.restart() // or the position would be forgotten
		}
		return nil
	}
	d := &DamageError{Pos: j.end.Load(), Reason: fmt.Sprintf("the log ends at %d, and went on to %d at least", j.end.Load(), pos)}
	segs := j.segments()
	if len(segs) > 0 {
		last := segs[len(segs)-1]
		d.Segment, d.Offset = last.name, d.Pos-last.base
	}
	if !j.salvage {
		return d
	}
	j.skipped(d)
	if err := j.discardAll(segs, nil); err != nil {
		return err
	}
	j.cur = nil
	j.end.Store(pos)
	j.durable.Store(pos)
	if j.reads {
		return nil
	}
	return j.restart()
}

// openSegment adds a segment to the list. One whose header is no good is added
// too: recover decides what that means.
func (j *Journal) openSegment(base int64, name string) error {
	f, err := j.fs.OpenFile(j.path(name), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	s := &segment{base: base, name: name, f: f}
	s.refs.Store(1)
	list := append(append([]*segment(nil), j.segments()...), s)
	j.list.Store(&list)
	if s.size, err = f.Size(); err != nil {
		return err
	}
	win := window{r: f, lenient: j.salvage}
	b, err := win.at(0, segmentHeader)
	if err != nil {
		return err
	}
	h, ok, err := decodeHeader(b)
	if err != nil {
		return err
	}
	if ok && h.base == base {
		s.hdr, s.seed, s.good = h, h.seed(), true
	}
	return nil
}
