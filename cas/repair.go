package cas

import (
	"fmt"
	"path/filepath"

	"github.com/amberfs/amberfs/cas/index"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
)

// Repair repairs the store in dir as far as its packs and manifest allow. The store must not be open.
// Repair reads every record. It moves the bytes of a damaged record to the folder quarantine; the
// object is then missing until it is put again. Then it rebuilds the index from the packs.
func Repair(dir string, o Options) (RepairResult, error) {
	o.ReadOnly, o.NoCommit, o.Salvage = false, false, true
	r := &repairer{}
	if err := r.repairPacks(dir, o); err != nil {
		return r.res, fmt.Errorf("repair store %s: %w", dir, err)
	}

	s, err := Open(dir, o) // builds the index
	if err != nil {
		return r.res, fmt.Errorf("repair store %s: %w", dir, err)
	}

	st := s.Stats()
	r.res.Packs, r.res.Objects = st.Packs, st.Objects
	return r.res, s.Close()
}

// A repairer repairs the packs of a store that is not open.
type repairer struct {
	s   *Store
	res RepairResult
}

// repairPacks moves damaged records to the quarantine, and removes the index.
func (r *repairer) repairPacks(dir string, o Options) (err error) {
	if r.s, err = newStore(dir, o); err != nil {
		return err
	}
	defer r.s.abandon()

	damaged, err := r.s.packs.load()
	if err != nil {
		return err
	}
	if err := r.s.space.checkForOpening(); err != nil {
		return err
	}
	if err := r.s.openManifest(); err != nil {
		return err
	}
	if err := r.s.withUserPath(index.Remove(r.s.indexDir())); err != nil {
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

// writePackHeader writes the header of a pack again. The header can be rebuilt, because its only
// variable is the pack's id, which is in the name of the file.
func (r *repairer) writePackHeader(p *pack) error {
	f, err := r.s.packs.acquireFile(p)
	if err != nil {
		return err
	}
	defer r.s.packs.releaseFile(p)

	if _, err := f.WriteAt(encodePackHeader(p.id), 0); err != nil {
		return fmt.Errorf("write header of pack %s: %w", p.name(), err)
	}

	p.size = max(p.size, packHeaderSize)
	r.res.Damage = append(r.res.Damage, Damage{Pack: p.name(), Length: packHeaderSize, Reason: errPackHeader.Error()})
	r.res.Mended++

	return f.Sync()
}

// scrub checks every record of a pack and isolates the damaged records (see isolate).
func (r *repairer) scrub(p *pack) error {
	f, err := r.s.packs.acquireFile(p)
	if err != nil {
		return err
	}
	defer r.s.packs.releaseFile(p)

	changed := false
	sc := &scan{r: f, id: p.id, start: packHeaderSize, end: p.size, readBodies: true}
	for off := sc.start; off < sc.end; {
		it := sc.readItem(off)
		off += it.length

		if it.damage == "" && it.kind != kindFree { // readItem has not checked the hash
			if err := r.s.codec.checkBody(&it); err != nil {
				it.damage = err.Error()
			}
		}
		if it.damage == "" {
			continue
		}

		changed = true
		r.res.Damage = append(r.res.Damage, itemDamage(p, &it))
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

// isolate copies damaged bytes to the quarantine and makes their range a free record. If the range is
// at the end of the pack and no free record can have its length, isolate cuts it off.
func (r *repairer) isolate(p *pack, f vfs.File, it *item) error {
	if err := r.quarantine(p, f, it); err != nil {
		return fmt.Errorf("quarantine: %w", errs.WrapNoSpace(err))
	}

	if it.off+it.length >= p.size && it.length%recordAlign != 0 {
		p.size = it.off
		if err := f.Truncate(it.off); err != nil {
			return fmt.Errorf("cut off damaged end: %w", err)
		}

		return nil
	}

	return writeFreeRecord(f, p.id, it.off, it.length)
}

// quarantine copies damaged bytes to files in the folder quarantine, at most an object's length each.
func (r *repairer) quarantine(p *pack, f vfs.File, it *item) error {
	dir := filepath.Join(r.s.dir, "quarantine")
	if err := r.s.fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}

	b := make([]byte, min(it.length, headerSize+MaxObject))

	for off := it.off; off < it.off+it.length; off += int64(len(b)) {
		n, err := readUpTo(f, b[:min(int64(len(b)), it.off+it.length-off)], off)
		if err != nil {
			// Skip the rest of this piece, which cannot be read.
			r.s.log.Error("damaged bytes cannot be read", "pack", p.name(), "offset", off, "err", err)
		}

		if err := vfs.WriteFile(r.s.fs, filepath.Join(dir, fmt.Sprintf("%016x-%012x", p.id, off)), b[:n]); err != nil {
			return err
		}
	}

	return nil
}
