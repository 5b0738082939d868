package cas

import (
	"context"
	"fmt"
	"slices"

	"github.com/amberfs/amberfs/internal/vfs"
)

// Verify reads every record of every pack, checks it against its hash, and
// compares the packs with the index in both directions. It calls bad, from the
// calling goroutine, for everything that is not as it should be, and progress, which may
// be nil, with bytes of packs. Puts and Commits go on meanwhile; collections wait. bad
// may read from the store, but not change it.
//
// The error is that of the context or of a disk that cannot be read at all;
// damage is no error.
func (s *Store) Verify(ctx context.Context, progress func(done, total int64), bad func(Damage)) (VerifyResult, error) {
	if err := s.begin(false); err != nil {
		return VerifyResult{}, err
	}
	defer s.life.RUnlock()
	if err := s.gc.running.Acquire(ctx, 1); err != nil {
		return VerifyResult{}, fmt.Errorf("verify: %w", err)
	}
	defer s.gc.running.Release(1)
	v := &verifier{s: s, progress: progress, bad: bad, good: map[uint64][]uint32{}, reported: map[Hash]struct{}{}, limits: map[uint64]int64{}}
	err := v.run(ctx)
	if merr := s.index.saveMarks(); merr != nil { // the next flush writes them
		s.log.Warn("cannot write down which objects are damaged", "err", merr)
	}
	if err != nil {
		return v.res, fmt.Errorf("verify: %w", err)
	}
	return v.res, nil
}

type verifier struct {
	s        *Store
	progress func(done, total int64)
	bad      func(Damage)
	res      VerifyResult
	good     map[uint64][]uint32 // by pack: records that are as they should be, in order
	reported map[Hash]struct{}   // objects already named as damaged
	limits   map[uint64]int64    // how far each pack was read
	total    int64
}

func (v *verifier) run(ctx context.Context) error {
	size, err := v.s.manifest.Verify(func(file, reason string) { v.report(Damage{Pack: file, Reason: reason}) })
	if v.res.Bytes = size; err != nil {
		return err
	}
	packs := v.s.packs.all()
	v.s.index.mu.Lock()
	for _, p := range packs {
		v.limits[p.id] = p.end
		v.total += p.end
	}
	v.s.index.mu.Unlock()
	for _, p := range packs {
		if err := v.pack(ctx, p, v.limits[p.id]); err != nil {
			return err
		}
		v.good[p.id] = slices.Clone(v.good[p.id]) // without what append has in reserve
		v.res.Packs++
	}
	return v.index(ctx)
}

func (v *verifier) report(d Damage) {
	if !d.Hash.IsZero() {
		v.reported[d.Hash] = struct{}{}
	}
	v.bad(d)
}

// pack reads one pack up to limit.
func (v *verifier) pack(ctx context.Context, p *pack, limit int64) error {
	f, err := v.s.packs.use(p)
	if err != nil {
		if vfs.IsDamage(err) {
			v.report(Damage{Pack: p.name(), Length: limit, Reason: err.Error()})
			return nil
		}
		return err
	}
	defer v.s.packs.done(p)
	if err := v.s.packs.checkHeader(p); err != nil {
		v.report(Damage{Pack: p.name(), Length: packHeaderSize, Reason: err.Error()})
	}
	sc := &scan{r: f, id: p.id, from: packHeaderSize, to: limit, bodies: true}
	return sc.run(ctx, func(it *item) error {
		v.res.Bytes += it.length
		if v.progress != nil {
			v.progress(v.res.Bytes, max(v.total, v.res.Bytes))
		}
		if it.bad != "" {
			v.bytesOf(p, it)
			return nil
		}
		if it.kind == kindFree {
			return nil
		}
		v.object(p, it)
		return nil
	})
}

func damageOf(p *pack, it *item) Damage {
	d := Damage{Pack: p.name(), Offset: it.off, Length: it.length, Reason: it.bad}
	if !it.lost && it.isObject() {
		d.Hash, d.Kind = it.hash, it.kind
	}
	return d
}

// bytesOf reports a record that is not as it was written, and marks its object.
func (v *verifier) bytesOf(p *pack, it *item) {
	v.report(damageOf(p, it))
	if !it.lost && it.isObject() {
		v.mark(it.hash, it.loc(p.id, it.off))
	}
}

// mark has an object stored again by the next Put, if this is where it is read.
func (v *verifier) mark(h Hash, l loc) {
	now, ok, err := v.s.index.find(h)
	if err != nil || !ok || !now.same(l) {
		return
	}
	v.s.index.mu.Lock()
	defer v.s.index.mu.Unlock()
	v.s.index.mark(h, l)
}

// object checks an intact record of an object against its hash and the index.
func (v *verifier) object(p *pack, it *item) {
	if err := v.s.codec.checkBody(it); err != nil {
		it.bad = err.Error()
		v.bytesOf(p, it)
		return
	}
	here := it.loc(p.id, it.off)
	v.good[p.id] = append(v.good[p.id], here.place().number())
	v.res.Objects++
	v.s.index.healed(it.hash, here)
	l, ok, err := v.s.index.find(it.hash)
	v.s.index.mu.Lock()
	unswept := p.garbage || p.sweeping
	v.s.index.mu.Unlock()
	switch {
	case err != nil:
		it.bad = err.Error()
	case !ok && unswept:
		return // an interrupted gc took it out of the index already
	case !ok:
		it.bad = "the index does not know the object"
	case l.same(here) && l != here:
		it.bad = "the index has other lengths than the record"
	default:
		return
	}
	v.report(damageOf(p, it))
}

// checkBody expands an intact record and compares it with its hash.
func (c *codec) checkBody(it *item) error {
	bp := c.bufs.Get().(*[]byte)
	defer c.release(bp)
	b, err := c.expand(it.flags, it.plain, it.body(), *bp)
	if err != nil {
		return err
	}
	*bp = b
	if Sum(b) != it.hash {
		return errHash
	}
	return nil
}

// index looks for places that the index has and the packs do not.
func (v *verifier) index(ctx context.Context) error {
	if v.s.badIndex != "" {
		v.report(Damage{Pack: "index", Reason: v.s.badIndex + " (it was made again from the packs)"})
	}
	for h, l := range v.s.index.unwritten() {
		v.place(h, l)
	}
	if err := v.s.index.storedObjects(v.place); err != nil {
		v.report(Damage{Pack: "index", Reason: err.Error()})
	}
	return ctx.Err()
}

// place checks a place that the index has.
func (v *verifier) place(h Hash, l loc) {
	if _, ok := slices.BinarySearch(v.good[l.pack], l.place().number()); ok {
		return
	}
	p := v.s.packs.get(l.pack)
	if limit, ok := v.limits[l.pack]; l.off >= limit && p != nil && (!ok || !p.sealed) {
		return // put since
	}
	if _, ok := v.reported[h]; ok {
		return
	}
	now, ok, err := v.s.index.find(h)
	if err == nil && (!ok || !now.same(l)) {
		return // moved or gone since
	}
	d := Damage{Hash: h, Kind: l.kind, Offset: l.off, Length: l.size(),
		Pack: packName(l.pack), Reason: "the pack does not hold the object there"}
	if p == nil {
		d.Reason = "the pack is missing"
	}
	v.report(d)
	v.mark(h, l)
}
