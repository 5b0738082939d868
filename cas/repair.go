package cas

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/amberfs/amberfs/cas/vfs"
)

// Repair makes a store whole again as far as the packs allow. It must not be
// open. Every record is read; a damaged one is mended if a single bit is wrong,
// otherwise its bytes are moved to the folder quarantine beside packs and its
// object is missing from then on, until it is put again. Then the index, objects
// and metadata, is built anew from the packs alone.
func Repair(dir string, o Options) (RepairResult, error) {
	o.ReadOnly = false
	res, err := repair(dir, o)
	if err != nil {
		return res, fmt.Errorf("repair store %s: %w", dir, err)
	}
	return res, nil
}

func repair(dir string, o Options) (RepairResult, error) {
	mended, err := salvage(dir, o)
	if err != nil {
		return RepairResult{}, err
	}
	s, err := newStore(dir, o)
	if err != nil {
		return RepairResult{}, err
	}
	r := &repairer{s: s, quarantine: filepath.Join(dir, "quarantine")}
	r.res.Damage, r.res.Mended = mended, int64(len(mended))
	err = r.run()
	s.packs.close()
	s.codec.close()
	if err != nil {
		return r.res, err
	}
	if s, err = Open(dir, o); err != nil {
		return r.res, err
	}
	_ = s.foundMended() // of the index, which run took away
	r.res.Metas, err = s.countMetas()
	st := s.Stats()
	r.res.Packs, r.res.Objects = st.Packs, st.Objects
	if cerr := s.Close(); err == nil {
		err = cerr
	}
	return r.res, err
}

// salvage writes to the packs what metadata only the index still has, for its
// record in the packs is damaged. It must be there before the index goes: neither a
// kill nor an error may lose it. A store that does not open has nothing to save;
// one that is in use is an error. mended is what its opening put right.
func salvage(dir string, o Options) (mended []Damage, err error) {
	s, err := Open(dir, o)
	switch {
	case errors.Is(err, ErrInUse) || errors.Is(err, ErrFormat) || errors.Is(err, ErrNoSpace) || errors.Is(err, syscall.EIO):
		return nil, err
	case err != nil:
		return nil, nil
	}
	err = s.saveMeta()
	if cerr := s.Close(); cerr != nil {
		s.log.Warn("close store", "err", cerr)
	}
	return s.foundMended(), err
}

func (s *Store) saveMeta() error {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	v := &verifier{s: s, reported: map[Hash]struct{}{}}
	if err := v.replayMeta(context.Background()); err != nil {
		return err
	}
	m := s.durable()
	err := s.scanMeta("", func(key string, e metaEntry) error {
		if have, ok := v.metas[key]; !ok || have.seq < e.seq {
			s.log.Info("metadata saved from the old index", "key", key)
			m.entries = append(m.entries, metaItem{key, e})
		}
		return nil
	})
	if err != nil {
		s.log.Warn("cannot read metadata from the old index", "err", err)
	}
	if len(m.entries) == 0 {
		return nil
	}
	return s.appendMeta(kindMeta, s.meta.seq, m)
}

type repairer struct {
	s          *Store
	quarantine string
	res        RepairResult
}

func (r *repairer) run() error {
	damaged, err := r.s.packs.load()
	if err != nil {
		return err
	}
	if err := r.s.space.forOpening(); err != nil {
		return err
	}
	if err := removeIndex(r.s.o.indexDir); err != nil {
		return err
	}
	for _, p := range damaged {
		if err := r.mendPackHeader(p); err != nil {
			return err
		}
	}
	for _, p := range append(r.s.packs.all(roleObjects), r.s.packs.all(roleMeta)...) {
		if err := r.scrub(p); err != nil {
			return fmt.Errorf("pack %s: %w", p.name(), err)
		}
	}
	return r.scrubMetaCopy()
}

// scrubMetaCopy sets a damaged copy of the metadata aside. Closing makes a new one.
func (r *repairer) scrubMetaCopy() error {
	c, err := r.s.readMetaCopy(func(it *item) { r.res.Damage = append(r.res.Damage, copyDamage(it)) })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", metaCopyName, err)
	case c.lost == nil:
		return nil
	}
	fsys := r.s.fs
	if err := fsys.MkdirAll(r.quarantine, 0o700); err != nil {
		return fmt.Errorf("quarantine: %w", err)
	}
	if err := fsys.Rename(r.s.metaCopyPath(), filepath.Join(r.quarantine, metaCopyName)); err != nil {
		return fmt.Errorf("quarantine: %w", err)
	}
	r.res.Quarantined++
	return nil
}

// mendPackHeader writes the header anew: everything in it is in the name too.
func (r *repairer) mendPackHeader(p *pack) error {
	f, err := r.s.packs.use(p)
	if err != nil {
		return err
	}
	defer r.s.packs.done(p)
	if _, err := f.WriteAt(encodePackHeader(p.id, p.role), 0); err != nil {
		return fmt.Errorf("mend header of pack %s: %w", p.name(), err)
	}
	p.size = max(p.size, packHeaderSize)
	r.res.Mended++
	r.res.Damage = append(r.res.Damage, Damage{Pack: p.name(), Length: packHeaderSize, Reason: errPackHeader.Error()})
	return f.Sync()
}

// scrub checks every record of a pack and mends or quarantines the bad ones.
func (r *repairer) scrub(p *pack) error {
	f, err := r.s.packs.use(p)
	if err != nil {
		return err
	}
	defer r.s.packs.done(p)
	changed := false
	var parts batchParts
	sc := &scan{r: f, id: p.id, from: packHeaderSize, to: p.size, bodies: true}
	for off := sc.from; off < sc.to; {
		it := sc.at(off)
		r.check(p, &it)
		partless := it.bad == "" && !r.complete(&parts, &it)
		if it.bad == "" && !partless {
			off += it.length
			continue
		}
		if partless {
			it.bad = errParts.Error()
		}
		changed = true
		r.res.Damage = append(r.res.Damage, damageOf(p, &it))
		mended := false
		if !partless {
			if mended, err = r.mend(p, f, &it); err != nil {
				return err
			}
		}
		sc.buf = nil // the file has changed
		if mended {
			r.res.Mended++
			continue // look at it again
		}
		if err := r.isolate(p, f, &it); err != nil {
			return err
		}
		r.res.Quarantined++
		off += it.length
	}
	if !changed {
		return nil
	}
	return f.Sync()
}

// check finds what the scan did not: bytes that are not what the hash says, and
// records in the wrong sort of pack.
func (r *repairer) check(p *pack, it *item) {
	if it.bad != "" || it.kind == kindFree {
		return
	}
	var err error
	switch {
	case it.isObject() != (p.role == roleObjects):
		err = fmt.Errorf("a record of kind %d does not belong here", it.kind)
	case it.isObject():
		err = r.s.checkBody(it)
	default:
		_, err = r.s.decodeMeta(it)
	}
	if err != nil {
		it.bad = err.Error()
	}
}

// complete tells whether a good record counts: one that ends a batch does not if a
// part of that is lost.
func (r *repairer) complete(parts *batchParts, it *item) bool {
	if it.kind != kindMeta && it.kind != kindBase && it.kind != kindPart {
		return true
	}
	b, err := r.s.decodeMeta(it)
	if err == nil && it.kind == kindPart {
		parts.add(it.seq, b)
		return true
	}
	return err == nil && parts.join(it.seq, b) == nil
}

// isolate copies damaged bytes to the quarantine and makes their place free.
func (r *repairer) isolate(p *pack, f vfs.File, it *item) error {
	fsys := r.s.fs
	b := make([]byte, it.length)
	n, err := readFull(f, b, it.off)
	if err != nil {
		// What the disk does not give cannot be kept.
		r.s.log.Error("damaged bytes cannot be read", "pack", p.name(), "offset", it.off, "err", err)
	}
	if err := fsys.MkdirAll(r.quarantine, 0o700); err != nil {
		return fmt.Errorf("quarantine: %w", err)
	}
	name := filepath.Join(r.quarantine, fmt.Sprintf("%016x-%012x", p.id, it.off))
	if err := vfs.WriteFile(fsys, name, b[:n]); err != nil {
		return fmt.Errorf("quarantine: %w", noSpace(err))
	}
	if it.off+it.length >= p.size && it.length%recordAlign != 0 {
		p.size = it.off
		if err := f.Truncate(it.off); err != nil {
			return fmt.Errorf("cut off damaged end: %w", err)
		}
		return nil
	}
	return writeFree(f, p.id, it.off, it.length)
}

// mend corrects a record in which a single bit is wrong. It is written back only
// if everything then fits: the checksums and the hash.
func (r *repairer) mend(p *pack, f vfs.File, it *item) (bool, error) {
	b := make([]byte, headerSize)
	if err := readExactly(f, b, it.off); err != nil {
		return false, nil
	}
	h := it.header
	if it.lost {
		var ok bool
		if h, ok = mendHeader(b, p.id, it.off); !ok {
			return false, nil
		}
	}
	if h.kind == kindFree {
		return r.writeBack(p, f, it.off, b)
	}
	rec := make([]byte, h.size())
	if err := readExactly(f, rec, it.off); err != nil {
		return false, nil
	}
	copy(rec, b)
	if !mendBody(rec[headerSize:], h.crc) {
		return false, nil
	}
	fixed := item{header: h, off: it.off, length: h.size(), raw: rec}
	if r.check(p, &fixed); fixed.bad != "" {
		return false, nil
	}
	return r.writeBack(p, f, it.off, rec)
}

func (r *repairer) writeBack(p *pack, f vfs.File, off int64, rec []byte) (bool, error) {
	if _, err := f.WriteAt(rec, off); err != nil {
		return false, fmt.Errorf("write mended record of pack %s: %w", p.name(), noSpace(err))
	}
	sc := &scan{r: f, id: p.id, to: p.size, bodies: true}
	again := sc.at(off)
	return again.bad == "", nil
}
