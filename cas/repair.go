package cas

import (
	"fmt"
	"path/filepath"

	"github.com/amberfs/amberfs/cas/index"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
)

// Repair makes a store whole again as far as packs and manifest allow. It must not be
// open. Every record is read; the bytes of a damaged one are moved to the folder
// quarantine, and its object is missing from then on, until it is put again. Then the
// index is rebuilt from the packs alone.
func Repair(dir string, o Options) (RepairResult, error) {
	o.ReadOnly, o.NoCommit, o.Salvage = false, false, true
	r := &repairer{}
	err := r.packs(dir, o)
	var s *Store
	if err == nil {
		s, err = Open(dir, o) // builds the index
	}
	if err != nil {
		return r.res, fmt.Errorf("repair store %s: %w", dir, err)
	}
	st := s.Stats()
	r.res.Packs, r.res.Objects = st.Packs, st.Objects
	return r.res, s.Close()
}

type repairer struct {
	s   *Store
	res RepairResult
}

// packs sets the damaged records aside, and removes the index.
func (r *repairer) packs(dir string, o Options) (err error) {
	if r.s, err = newStore(dir, o); err != nil {
		return err
	}
	defer r.s.abandon()
	damaged, err := r.s.packs.load()
	if err != nil {
		return err
	}
	if err := r.s.space.forOpening(); err != nil {
		return err
	}
	if err := r.s.openManifest(); err != nil {
		return err
	}
	if err := r.s.named(index.Remove(r.s.indexDir())); err != nil {
		return err
	}
	for _, p := range damaged {
		if err := r.writePackHeader(p); err != nil {
			return err
		}
	}
	for _, p := range r.s.packs.all() {
		if err := r.scrub(p); err != nil {
			return fmt.Errorf("pack %s: %w", p.name(), err)
		}
	}
	return nil
}

// writePackHeader rewrites a header: everything in it is in the name too.
func (r *repairer) writePackHeader(p *pack) error {
	f, err := r.s.packs.use(p)
	if err != nil {
		return err
	}
	defer r.s.packs.done(p)
	if _, err := f.WriteAt(encodePackHeader(p.id), 0); err != nil {
		return fmt.Errorf("write header of pack %s: %w", p.name(), err)
	}
	p.size = max(p.size, packHeaderSize)
	r.res.Damage = append(r.res.Damage, Damage{Pack: p.name(), Length: packHeaderSize, Reason: errPackHeader.Error()})
	r.res.Mended++
	return f.Sync()
}

// scrub checks every record of a pack and quarantines the bad ones.
func (r *repairer) scrub(p *pack) error {
	f, err := r.s.packs.use(p)
	if err != nil {
		return err
	}
	defer r.s.packs.done(p)
	changed := false
	sc := &scan{r: f, id: p.id, from: packHeaderSize, to: p.size, bodies: true}
	for off := sc.from; off < sc.to; {
		it := sc.at(off)
		off += it.length
		if it.bad == "" && it.kind != kindFree { // the scan does not compare with the hash
			if err := r.s.codec.checkBody(&it); err != nil {
				it.bad = err.Error()
			}
		}
		if it.bad == "" {
			continue
		}
		changed = true
		r.res.Damage = append(r.res.Damage, damageOf(p, &it))
		r.res.Quarantined++
		if err := r.isolate(p, f, &it); err != nil {
			return err
		}
		sc.buf = nil // the file has changed
	}
	if !changed {
		return nil
	}
	return f.Sync()
}

// isolate copies damaged bytes to the quarantine and makes their place free.
func (r *repairer) isolate(p *pack, f vfs.File, it *item) error {
	if err := r.keep(p, f, it); err != nil {
		return fmt.Errorf("quarantine: %w", errs.Full(err))
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

// keep copies damaged bytes to the quarantine, a piece a file.
func (r *repairer) keep(p *pack, f vfs.File, it *item) error {
	dir := filepath.Join(r.s.dir, "quarantine")
	if err := r.s.fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	b := make([]byte, min(it.length, headerSize+MaxObject))
	for off := it.off; off < it.off+it.length; off += int64(len(b)) {
		n, err := readFull(f, b[:min(int64(len(b)), it.off+it.length-off)], off)
		if err != nil {
			// Bytes that the disk cannot read are left out.
			r.s.log.Error("damaged bytes cannot be read", "pack", p.name(), "offset", off, "err", err)
		}
		if err := vfs.WriteFile(r.s.fs, filepath.Join(dir, fmt.Sprintf("%016x-%012x", p.id, off)), b[:n]); err != nil {
			return err
		}
	}
	return nil
}
