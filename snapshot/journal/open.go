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
	j := &Journal{
		disk: disk{dir: dir, fs: o.FS, segSize: o.SegmentSize, reserve: o.Reserve},
		log:  o.Logger, salvage: o.Salvage, reads: o.ReadOnly, begin: o.Begin, seq: 1,
	}
	if j.disk.fs == nil {
		j.disk.fs = vfs.OS
	}
	if j.log == nil {
		j.log = slog.New(slog.DiscardHandler)
	}
	if j.disk.reserve == nil {
		j.disk.reserve = func() int64 { return 0 }
	}
	if j.disk.segSize <= 0 {
		j.disk.segSize = DefaultSegmentSize
	}
	j.disk.segSize = (j.disk.segSize + blockSize - 1) &^ (blockSize - 1)
	j.sync.done.L = &j.sync.mu
	j.behind = syncBehind
	j.list.Store(&[]*segment{})
	if err := (opening{j}).open(); err != nil {
		for _, s := range j.segments() {
			_ = s.release() // nothing was written through it that matters
		}
		return nil, fmt.Errorf("open journal %s: %w", dir, err)
	}
	return j, nil
}

// An opening is what Open does with a journal that nobody else has yet: it finds the end
// of the log, and makes the journal ready to append there.
type opening struct{ *Journal }

func (o opening) open() error {
	if !o.reads {
		if err := o.disk.fs.MkdirAll(o.disk.dir, 0o700); err != nil {
			return err
		}
	}
	infos, err := o.disk.fs.ReadDir(o.disk.dir)
	if err != nil && (!o.reads || !errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	for _, i := range infos {
		base, ok := parseSegmentName(i.Name)
		if !ok || i.Dir {
			continue
		}
		if err := o.openSegment(base, i.Name); err != nil {
			return fmt.Errorf("segment %s: %w", i.Name, err)
		}
	}
	o.names.Store(1) // names that the last run did not sync, for all we know
	if _, err := rand.Read(o.id[:]); err != nil {
		return err
	}
	if err := o.recover(); err != nil {
		return err
	}
	if err := o.atLeast(o.begin); err != nil {
		return err
	}
	if o.reads {
		o.failure.Store(&errReadOnly)
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.syncFarBehind()
	return nil
}

var errReadOnly error = ErrReadOnly

// atLeast sees to it that the log does not end before a position that its owner
// knows of.
func (o opening) atLeast(pos int64) error {
	if end := o.end.Load(); end >= pos {
		if !o.reads && end > 0 && len(o.segments()) == 0 {
			return o.restart() // or the position would be forgotten
		}
		return nil
	}
	d := &DamageError{Pos: o.end.Load(), Reason: fmt.Sprintf("the log ends at %d, and went on to %d at least", o.end.Load(), pos)}
	segs := o.segments()
	if len(segs) > 0 {
		last := segs[len(segs)-1]
		d.Segment, d.Offset = last.name, d.Pos-last.base
	}
	if !o.salvage {
		return d
	}
	o.skipped(d)
	if err := o.discardAll(segs, nil); err != nil {
		return err
	}
	o.cur = nil
	o.end.Store(pos)
	o.durable.Store(pos)
	if o.reads {
		return nil
	}
	return o.restart()
}

// openSegment adds a segment to the list. One whose header is no good is added
// too: recover decides what that means.
func (o opening) openSegment(base int64, name string) error {
	f, err := o.disk.fs.OpenFile(o.disk.path(name), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	s := &segment{base: base, name: name, f: f}
	s.refs.Store(1)
	list := append(append([]*segment(nil), o.segments()...), s)
	o.list.Store(&list)
	if s.size, err = f.Size(); err != nil {
		return err
	}
	win := window{r: f, lenient: o.salvage}
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
