package cas

import (
	"context"
	"fmt"
	"slices"

	"github.com/amberfs/amberfs/internal/vfs"
)

// Verify reads every record of every pack, compares it with its hash, and checks that the index and the
// packs contain the same objects. It calls onDamage for all damage that it finds, and progress with numbers
// of bytes of packs. Both functions run in the caller's goroutine. onDamage may read from the store, but not
// change it. progress may be nil. Puts and Commits work while Verify runs; collections wait.
//
// Damage is no error of Verify. Its errors: the error of the context, errs.Closed, or an error of a
// disk that cannot be read at all.
func (s *Store) Verify(ctx context.Context, progress func(done, total int64), onDamage func(Damage)) (VerifyResult, error) {
	if err := s.beginCall(false); err != nil {
		return VerifyResult{}, err
	}
	defer s.lifeMu.RUnlock()

	if err := s.gc.acquire(ctx, s.gc.runLock); err != nil {
		return VerifyResult{}, fmt.Errorf("verify: %w", err)
	}
	defer s.gc.runLock.Release(1)

	v := &verifier{s: s, progress: progress, onDamage: onDamage, intactSlots: map[uint64][]uint32{}, reported: map[Hash]struct{}{}, packEnds: map[uint64]int64{}}
	err := v.run(ctx)
	if merr := s.index.saveMarks(); merr != nil { // the next flush tries again
		s.log.Warn("cannot write down which objects are damaged", "err", merr)
	}
	if err != nil {
		return v.res, fmt.Errorf("verify: %w", err)
	}

	return v.res, nil
}

// A verifier is one run of Verify.
type verifier struct {
	s           *Store
	progress    func(done, total int64)
	onDamage    func(Damage)
	res         VerifyResult
	intactSlots map[uint64][]uint32 // by pack: slots of the intact records, in order
	reported    map[Hash]struct{}   // objects that were reported as damaged
	packEnds    map[uint64]int64    // by pack: the offset up to which it is read
	totalBytes  int64               // bytes of packs to read
}

func (v *verifier) run(ctx context.Context) error {
	size, err := v.s.manifest.Verify(func(file, reason string) { v.report(Damage{Pack: file, Reason: reason}) })
	if v.res.Bytes = size; err != nil {
		return err
	}

	packs := v.s.packs.all()
	v.s.index.mu.Lock()

	for _, p := range packs {
		v.packEnds[p.id] = p.end
		v.totalBytes += p.end
	}

	v.s.index.mu.Unlock()

	for _, p := range packs {
		if err := v.verifyPack(ctx, p, v.packEnds[p.id]); err != nil {
			return err
		}

		v.intactSlots[p.id] = slices.Clone(v.intactSlots[p.id]) // drops the spare capacity
		v.res.Packs++
	}

	return v.verifyIndex(ctx)
}

// report passes damage to the caller of Verify.
func (v *verifier) report(d Damage) {
	if !d.Hash.IsZero() {
		v.reported[d.Hash] = struct{}{}
	}
	v.onDamage(d)
}

// verifyPack reads and checks the records of one pack before limit.
func (v *verifier) verifyPack(ctx context.Context, p *pack, limit int64) error {
	f, err := v.s.packs.acquireFile(p)
	if err != nil {
		if vfs.IsDamage(err) {
			v.report(Damage{Pack: p.name(), Length: limit, Reason: err.Error()})
			return nil
		}
		return err
	}
	defer v.s.packs.releaseFile(p)

	if err := v.s.packs.checkHeader(p); err != nil {
		v.report(Damage{Pack: p.name(), Length: packHeaderSize, Reason: err.Error()})
	}

	sc := &scan{r: f, id: p.id, start: packHeaderSize, end: limit, readBodies: true}
	return sc.run(ctx, func(it *item) error {
		v.res.Bytes += it.length
		if v.progress != nil {
			v.progress(v.res.Bytes, max(v.totalBytes, v.res.Bytes))
		}

		if it.damage != "" {
			v.reportRecord(p, it)
			return nil
		}
		if it.kind == kindFree {
			return nil
		}

		v.verifyObject(p, it)

		return nil
	})
}

// itemDamage describes a damaged item.
func itemDamage(p *pack, it *item) Damage {
	d := Damage{Pack: p.name(), Offset: it.off, Length: it.length, Reason: it.damage}
	if !it.headerBad && it.isObject() {
		d.Hash, d.Kind = it.hash, it.kind
	}
	return d
}

// reportRecord reports a damaged record, and marks its object as damaged.
func (v *verifier) reportRecord(p *pack, it *item) {
	v.report(itemDamage(p, it))
	if !it.headerBad && it.isObject() {
		v.markDamaged(it.hash, it.loc(p.id, it.off))
	}
}

// markDamaged marks an object as damaged, if l is its place in the index.
func (v *verifier) markDamaged(h Hash, l loc) {
	now, ok, err := v.s.index.find(h)
	if err != nil || !ok || !now.samePlace(l) {
		return
	}

	v.s.index.mu.Lock()
	defer v.s.index.mu.Unlock()

	v.s.index.markDamaged(h, l)
}

// verifyObject compares an intact record of an object with its hash and with the index.
func (v *verifier) verifyObject(p *pack, it *item) {
	if err := v.s.codec.checkBody(it); err != nil {
		it.damage = err.Error()
		v.reportRecord(p, it)
		return
	}

	here := it.loc(p.id, it.off)
	v.intactSlots[p.id] = append(v.intactSlots[p.id], here.place().slot())
	v.res.Objects++
	v.s.index.clearMark(it.hash, here)
	l, ok, err := v.s.index.find(it.hash)
	v.s.index.mu.Lock()
	unswept := p.hasGarbage || p.sweeping
	v.s.index.mu.Unlock()

	switch {
	case err != nil:
		it.damage = err.Error()
	case !ok && unswept:
		return // an interrupted gc has removed the object from the index already
	case !ok:
		it.damage = "the index does not know the object"
	case l.samePlace(here) && l != here:
		it.damage = "the index has other lengths than the record"
	default:
		return
	}

	v.report(itemDamage(p, it))
}

// checkBody expands an intact record and compares it with its hash.
func (c *codec) checkBody(it *item) error {
	bp := c.bufs.Get().(*[]byte)
	defer c.releaseBuffer(bp)

	b, err := c.expand(it.flags, it.plainLen, it.body(), *bp)
	if err != nil {
		return err
	}

	*bp = b
	if Sum(b) != it.hash {
		return errHashMismatch
	}

	return nil
}

// verifyIndex reports places in the index at which no pack has an intact record.
func (v *verifier) verifyIndex(ctx context.Context) error {
	if v.s.badIndexReason != "" {
		v.report(Damage{Pack: "index", Reason: v.s.badIndexReason + " (it was made again from the packs)"})
	}
	for h, l := range v.s.index.unwrittenPlaces() {
		v.verifyPlace(h, l)
	}
	if err := v.s.index.eachStoredObject(v.verifyPlace); err != nil {
		v.report(Damage{Pack: "index", Reason: err.Error()})
	}

	return ctx.Err()
}

// verifyPlace reports an object whose place in the index has no intact record. It does not report the
// object twice.
func (v *verifier) verifyPlace(h Hash, l loc) {
	if _, ok := slices.BinarySearch(v.intactSlots[l.pack], l.place().slot()); ok {
		return
	}

	p := v.s.packs.get(l.pack)
	if limit, ok := v.packEnds[l.pack]; l.off >= limit && p != nil && (!ok || !p.noAppend) {
		return // the object was put after the pack was read
	}
	if _, ok := v.reported[h]; ok {
		return
	}

	now, ok, err := v.s.index.find(h)
	if err == nil && (!ok || !now.samePlace(l)) {
		return // the object was moved or removed after the index was read
	}

	d := Damage{Hash: h, Kind: l.kind, Offset: l.off, Length: l.size(),
		Pack: packName(l.pack), Reason: "the pack does not hold the object there"}
	if p == nil {
		d.Reason = "the pack is missing"
	}

	v.report(d)
	v.markDamaged(h, l)
}
