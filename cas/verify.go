package cas

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"

	"github.com/amberfs/amberfs/cas/vfs"
)

// Verify reads every record of every pack, checks it against its hash, and
// compares the packs with the index in both directions. It calls bad, from the
// calling goroutine, for everything that is not as it should be. Puts and
// Commits go on meanwhile; collections wait. bad may read from the store, but
// not change it. What Open found damaged and put right is told too, once.
//
// The error is that of the context or of a disk that cannot be read at all;
// damage is no error.
func (s *Store) Verify(ctx context.Context, o VerifyOptions, bad func(Damage)) (VerifyResult, error) {
	if err := s.begin(false); err != nil {
		return VerifyResult{}, err
	}
	defer s.life.done()
	if err := s.gcMu.lock(ctx); err != nil {
		return VerifyResult{}, fmt.Errorf("verify: %w", err)
	}
	defer s.gcMu.unlock()
	v := &verifier{s: s, o: o, bad: bad, good: newLocSet(), reported: map[Hash]struct{}{}, limits: map[uint64]int64{}}
	if err := v.run(ctx); err != nil {
		return v.res, fmt.Errorf("verify: %w", err)
	}
	return v.res, nil
}

type verifier struct {
	s        *Store
	o        VerifyOptions
	bad      func(Damage)
	res      VerifyResult
	good     *locSet            // records that are as they should be
	reported map[Hash]struct{}  // objects already named as damaged
	limits   map[uint64]int64   // how far each pack was read
	metas    map[string]metaSum // what the metadata packs say, by replaying them
	parts    batchParts
	done     int64
	total    int64
}

// A metaSum stands for a metadata value.
type metaSum struct {
	seq     uint64
	sum     Hash
	deleted bool
}

func (v *verifier) run(ctx context.Context) error {
	for _, d := range v.s.foundMended() {
		v.report(d)
	}
	for _, d := range v.s.foundMended() {
		v.report(d)
	}
	packs := v.s.packs.all(roleObjects)
	v.s.mu.Lock()
	for _, p := range packs {
		v.limits[p.id] = p.end
		v.total += p.end
	}
	v.s.mu.Unlock()
	for _, p := range packs {
		if err := v.pack(ctx, p, v.limits[p.id], v.object); err != nil {
			return err
		}
		v.res.Packs++
	}
	if err := v.index(ctx); err != nil {
		return err
	}
	return v.metadata(ctx)
}

func (v *verifier) report(d Damage) {
	if !d.Hash.IsZero() {
		v.reported[d.Hash] = struct{}{}
	}
	v.res.Damaged++
	if v.bad != nil {
		v.bad(d)
	}
}

// pack reads one pack up to limit.
func (v *verifier) pack(ctx context.Context, p *pack, limit int64, record func(*pack, *item) error) error {
	if _, err := v.s.fs.Stat(p.path); errors.Is(err, fs.ErrNotExist) {
		// It can be read as long as it is open, and is gone then.
		v.report(Damage{Pack: p.name(), Length: limit, Reason: "the file is missing"})
		return nil
	}
	f, err := v.s.packs.use(p)
	if err != nil {
		if isDamage(err) {
			v.report(Damage{Pack: p.name(), Length: limit, Reason: err.Error()})
			return nil
		}
		return err
	}
	defer v.s.packs.done(p)
	v.header(p, f)
	sc := &scan{r: f, id: p.id, from: packHeaderSize, to: limit, bodies: true}
	return sc.run(ctx, func(it *item) error {
		v.res.Bytes += it.length
		v.done += it.length
		if v.o.Progress != nil {
			v.o.Progress(v.done, max(v.total, v.done))
		}
		if it.bad != "" {
			v.report(damageOf(p, it))
			return nil
		}
		if it.kind == kindFree {
			return nil
		}
		return record(p, it)
	})
}

func damageOf(p *pack, it *item) Damage {
	d := Damage{Pack: p.name(), Offset: it.off, Length: it.length, Reason: it.bad}
	if !it.lost && it.isObject() {
		d.Hash, d.Kind = it.hash, it.kind
	}
	return d
}

func (v *verifier) header(p *pack, f vfs.File) {
	b := make([]byte, packHeaderSize)
	n, err := readFull(f, b, 0)
	if err == nil {
		err = checkPackHeader(b[:n], p.id, p.role)
	}
	if err != nil {
		v.report(Damage{Pack: p.name(), Length: packHeaderSize, Reason: err.Error()})
	}
}

// object checks an intact record of an object against its hash and the index.
func (v *verifier) object(p *pack, it *item) error {
	if !it.isObject() {
		it.bad = fmt.Sprintf("a record of kind %d does not belong here", it.kind)
		v.report(damageOf(p, it))
		return nil
	}
	if err := v.s.checkBody(it); err != nil {
		it.bad = err.Error()
		v.report(damageOf(p, it))
		return nil
	}
	here := it.loc(p.id, it.off)
	v.good.add(here.place())
	v.res.Objects++
	v.s.healed(it.hash, here)
	l, ok, err := v.s.find(it.hash)
	switch {
	case err != nil:
		it.bad = err.Error()
	case !ok && v.unswept(p):
		return nil // an interrupted gc took it out of the index already
	case !ok:
		it.bad = "the index does not know the object"
	case l.same(here) && l != here:
		it.bad = "the index has other lengths than the record"
	default:
		return nil
	}
	v.report(damageOf(p, it))
	return nil
}

func (v *verifier) unswept(p *pack) bool {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	return p.garbage || p.sweeping
}

// checkBody expands an intact record and compares it with its hash.
func (s *Store) checkBody(it *item) error {
	bp := s.codec.bufs.Get().(*[]byte)
	defer s.codec.release(bp)
	b, err := s.codec.expand(it.flags, it.plain, it.body(), *bp)
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
	check := func(h Hash, l loc) {
		if v.good.has(l.place()) {
			return
		}
		p := v.s.packs.get(l.pack)
		if limit, ok := v.limits[l.pack]; l.off >= limit && p != nil && (!ok || !p.sealed) {
			return // put since
		}
		if _, ok := v.reported[h]; ok {
			return
		}
		now, ok, err := v.s.find(h)
		if err == nil && (!ok || !now.same(l)) {
			return // moved or gone since
		}
		d := Damage{Hash: h, Kind: l.kind, Offset: l.off, Length: l.size(),
			Pack: fmt.Sprintf("%016x%s", l.pack, roleObjects.ext()), Reason: "the pack does not hold the object there"}
		if p == nil {
			d.Reason = "the pack is missing"
		}
		v.report(d)
	}
	over := newOverlay()
	v.s.mu.Lock()
	if v.s.flushing != nil {
		maps.Copy(over.objects, v.s.flushing.objects)
	}
	maps.Copy(over.objects, v.s.fresh.objects)
	v.s.mu.Unlock()
	for h, l := range over.objects {
		check(h, l)
	}
	if name := v.s.ix.missing(); name != "" {
		v.report(Damage{Pack: "index", Reason: "the file " + name + " is missing"})
	}
	err := v.s.ix.each([]byte{keyObject}, true, func(k, val []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		l, ok := decodeLoc(val)
		if !ok || len(k) != 1+len(Hash{}) {
			v.report(Damage{Reason: errIndexValue.Error()})
			return nil
		}
		check(Hash(k[1:]), l)
		return nil
	})
	if err != nil && ctx.Err() == nil {
		v.report(Damage{Pack: "index", Reason: err.Error()})
		return nil
	}
	return err
}

// metadata replays the metadata packs and compares the result with what the
// store answers.
func (v *verifier) metadata(ctx context.Context) error {
	v.s.commitMu.Lock()
	defer v.s.commitMu.Unlock()
	if err := v.replayMeta(ctx); err != nil {
		return err
	}
	err := v.s.scanMeta("", func(key string, e metaEntry) error {
		want, ok := v.metas[key]
		delete(v.metas, key)
		switch {
		case !ok || want.deleted:
			v.report(Damage{Key: key, Reason: "the packs do not have it"})
		case want.sum != Sum(e.value):
			v.report(Damage{Key: key, Reason: "the packs have another value"})
		}
		return nil
	})
	if err != nil {
		v.report(Damage{Pack: "index", Reason: err.Error()})
		return nil
	}
	for key, m := range v.metas {
		if !m.deleted {
			v.report(Damage{Key: key, Reason: "the index does not have it"})
		}
	}
	v.metaCopy()
	return nil
}

// metaCopy reads the copy of the metadata. commitMu is held.
func (v *verifier) metaCopy() {
	_, err := v.s.readMetaCopy(func(it *item) { v.report(copyDamage(it)) })
	if errors.Is(err, fs.ErrNotExist) {
		if _, marked, merr := v.s.metaNow(keyCopy); !marked || merr != nil {
			return // there never was one
		}
	}
	if err != nil {
		v.report(Damage{Pack: metaCopyName, Reason: err.Error()})
	}
}

func copyDamage(it *item) Damage {
	return Damage{Pack: metaCopyName, Offset: it.off, Length: it.length, Reason: it.bad}
}

// replayMeta finds out what the metadata packs say. commitMu is held.
func (v *verifier) replayMeta(ctx context.Context) error {
	v.metas = map[string]metaSum{}
	for _, p := range v.s.packs.all(roleMeta) {
		v.s.mu.Lock()
		end := p.end
		v.s.mu.Unlock()
		if err := v.pack(ctx, p, end, v.metaRecord); err != nil {
			return err
		}
		v.res.Packs++
	}
	return nil
}

func (v *verifier) metaRecord(p *pack, it *item) error {
	b, err := v.s.decodeMeta(it)
	switch {
	case err != nil:
	case it.kind == kindPart:
		v.parts.add(it.seq, b)
		return nil
	case it.kind != kindMeta && it.kind != kindBase:
		err = errors.New("an object does not belong here")
	default:
		err = v.parts.join(it.seq, b)
	}
	if err != nil {
		it.bad = err.Error()
		v.report(damageOf(p, it))
		return nil
	}
	for _, e := range b.entries {
		if now, ok := v.metas[e.key]; !ok || now.seq <= e.seq {
			v.metas[e.key] = metaSum{seq: e.seq, sum: Sum(e.value), deleted: e.deleted}
		}
	}
	return nil
}
