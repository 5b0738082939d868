package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/object"
)

// grace is the time from seen to condemned and from condemned to deleted. It has to be longer
// than maxMarkAge and the time from there to the ref.
const grace = 24 * time.Hour

// runTime is how long after its beginning a collection may remove objects.
const runTime = 6 * time.Hour

// expiryMargin is by how much this machine's clock may be ahead of the others'.
const expiryMargin = 24 * time.Hour

// A collection and a push can run at the same time, without a lock:
//
//	gc     writes the objects that no ref and no hold names to gc/seen-ID. A run at
//	       least grace later turns those of them that are still not named into
//	       gc/condemned-ID. A run at least grace after that reads all refs again,
//	       deletes the objects that are still not named, and turns the mark into
//	       gc/removed-ID. A run at least grace after that deletes the mark.
//	push   reads gc/condemned-* and gc/removed-* while its objects are sent, before it
//	       writes its ref. If it needs an object in them, it starts again without it:
//	       on a base that does not need it, and with another name for equal bytes.
//	       It also starts again if it takes longer than maxMarkAge.
//
// So a ref never names a deleted object X. The ref was written either
//
//  1. before the run that deletes X read the refs. Then that run sees the ref; or
//  2. after that, by a push that read the marks more than grace after X was condemned.
//     Then the push saw X in a mark, because gc/removed-ID is written before
//     gc/condemned-ID is deleted.
//
// A second run that deletes X began before gc/removed-ID was written, and deletes nothing
// later than runTime after its beginning. Until long after, no push writes X.
//
// Times are differences between marks, by the clock of the service that holds them.

type Collected struct {
	Snapshots int   `json:"snapshots"` // live ones
	Expired   int   `json:"expired"`   // snapshots removed because their time was over
	Objects   int   `json:"objects"`   // on the remote
	Removed   int   `json:"removed"`   // objects
	Bytes     int64 `json:"bytes"`     // that were removed
	Waiting   int   `json:"waiting"`   // objects that later runs will remove
}

// GC is one run of a collection. It fails if it cannot read a snapshot. A registry collects its
// objects itself; there only expired snapshots are deleted.
func (r *Remote) GC(ctx context.Context) (Collected, error) {
	c := &collection{r: r, began: time.Now(), live: map[string]bool{}, objects: map[string]int64{}}
	steps := []func(context.Context) error{c.readMarks, c.readRefs, c.readObjects, c.readHolds, c.remove, c.advance, c.list}
	if r.b.Collects() {
		steps = []func(context.Context) error{c.readMarks, c.readRefs}
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return c.done, fmt.Errorf("collection: %w", err)
		}
	}
	return c.done, nil
}

type collection struct {
	r     *Remote
	began time.Time // by this machine's clock
	now   time.Time // by the service's clock
	marks []mark
	view  *view

	live    map[string]bool
	objects map[string]int64 // on the remote, and their sizes; noSize if a mark names them
	done    Collected
}

type mark struct {
	stage   string // one of the prefixes
	id      string
	at      time.Time
	objects []string
}

func (m mark) key() string { return m.stage + m.id }

const (
	seenPrefix      = "gc/seen-"
	condemnedPrefix = "gc/condemned-"
	removedPrefix   = "gc/removed-"
)

// listMarks reads the marks of some stages, again if one is replaced meanwhile.
func (r *Remote) listMarks(ctx context.Context, stages ...string) ([]mark, error) {
	for {
		var keys []backend.Info
		if err := r.b.List(ctx, "gc/", func(i backend.Info) error { keys = append(keys, i); return nil }); err != nil {
			return nil, err
		}
		if out, err := r.marks(ctx, keys, stages...); !errors.Is(err, backend.ErrNotFound) {
			return out, err
		}
	}
}

// marks reads the marks of some stages among keys. Errors: backend.ErrNotFound if one was replaced.
func (r *Remote) marks(ctx context.Context, keys []backend.Info, stages ...string) (out []mark, err error) {
	for _, i := range keys {
		for _, stage := range stages {
			if id, ok := strings.CutPrefix(i.Key, stage); ok {
				out = append(out, mark{stage: stage, id: id, at: i.Modified})
			}
		}
	}
	for i := range out {
		raw, err := backend.Get(ctx, r.b, out[i].key())
		if err == nil {
			err = json.Unmarshal(raw, &out[i].objects)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", out[i].key(), err)
		}
	}
	return out, nil
}

// condemned returns the objects that a collection may be about to remove.
func (r *Remote) condemned(ctx context.Context) (map[string]bool, error) {
	out := map[string]bool{}
	if r.b.Collects() {
		return out, nil
	}
	marks, err := r.listMarks(ctx, condemnedPrefix, removedPrefix)
	for _, m := range marks {
		for _, o := range m.objects {
			out[o] = true
		}
	}
	return out, err
}

// nowKey is written for the time that it has then.
const nowKey = "gc/now"

// readMarks also sets now, the time by the clock of the service, and begins the look at all refs.
func (c *collection) readMarks(ctx context.Context) (err error) {
	if c.r.b.Collects() {
		c.view, err = c.r.beginLook(ctx, true)
		return err
	}
	if err := c.r.b.Put(ctx, nowKey, nil, backend.PutOptions{}); err != nil {
		return err
	}
	for {
		if c.view, err = c.r.beginLook(ctx, true); err != nil {
			return err
		}
		for _, i := range c.view.gc {
			if i.Key == nowKey {
				c.now = i.Modified
			}
		}
		c.marks, err = c.r.marks(ctx, c.view.gc, seenPrefix, condemnedPrefix, removedPrefix)
		if !errors.Is(err, backend.ErrNotFound) {
			return err
		}
	}
}

const (
	noSize = -1
	// fewObjects is how many objects are listed in each collection. Of more, on a remote with entries, a
	// collection lists someParts of as many parts as have at most that many.
	fewObjects, someParts = 2000, 2
)

// readObjects finds the objects on the remote. On one with entries, these are the objects of the list,
// of marks and of some parts of the remote: they find what a push has left that did not end.
func (c *collection) readObjects(ctx context.Context) error {
	prefixes := []string{"obj/"}
	if c.view.format.Entries && len(c.view.named) > fewObjects {
		c.nameObjects()
		prefixes = someObjects(len(c.objects))
	}
	for _, prefix := range prefixes {
		if err := c.r.b.List(ctx, prefix, func(i backend.Info) error {
			c.objects[i.Key[len("obj/"):]] = i.Size
			return nil
		}); err != nil {
			return err
		}
	}
	c.done.Objects = len(c.objects)
	return nil
}

func (c *collection) nameObjects() {
	for _, m := range c.marks {
		for _, o := range m.objects {
			if m.stage != removedPrefix {
				c.objects[o] = noSize
			}
		}
	}
	for _, o := range c.view.named {
		c.objects[o.Name] = o.Size
	}
}

// someObjects returns prefixes that some of n objects have, at random.
func someObjects(n int) (prefixes []string) {
	digits, parts := 0, 1
	for n/parts > fewObjects/someParts {
		digits, parts = digits+1, parts*16
	}
	for _, part := range rand.Perm(parts)[:someParts] {
		prefixes = append(prefixes, fmt.Sprintf("obj/%0*x", digits, part))
	}
	return prefixes
}

// readRefs removes what has expired, and notes what the others need. A collection that is to remove
// objects compares the sums of all refs.
func (c *collection) readRefs(ctx context.Context) error {
	err := c.r.endLook(ctx, c.view, len(c.old(condemnedPrefix)) > 0)
	for errors.Is(err, errListGone) {
		if err = c.readMarks(ctx); err == nil {
			err = c.r.endLook(ctx, c.view, len(c.old(condemnedPrefix)) > 0)
		}
	}
	if err != nil {
		return err
	}
	return c.view.each(func(name string, ref *object.Ref, err error) error {
		if err != nil {
			return err
		}
		if !ref.Expires.IsZero() && time.Since(ref.Expires) > expiryMargin {
			c.done.Expired++
			delete(c.view.refs, name)
			return c.r.b.Delete(ctx, "ref/"+name)
		}
		c.done.Snapshots++
		c.keep(ref.Objects)
		return nil
	})
}

// list writes the list. Objects that no ref names any more are in marks now.
func (c *collection) list(ctx context.Context) error {
	before := len(c.view.named)
	c.view.named = slices.DeleteFunc(c.view.named, func(o backend.Object) bool { return !c.live[o.Name] })
	if c.view.format.Entries && (c.done.Expired > 0 || len(c.view.named) < before) || c.r.listingDue(c.view) {
		c.r.writeListing(ctx, c.view)
	}
	return nil
}

func (c *collection) keep(objects []backend.Object) {
	for _, o := range objects {
		c.live[o.Name] = true
	}
}

// readHolds reads holds, and removes those that have ended.
func (c *collection) readHolds(ctx context.Context) error {
	var infos []backend.Info
	if err := c.r.b.List(ctx, "hold/", func(i backend.Info) error { infos = append(infos, i); return nil }); err != nil {
		return err
	}
	var mu sync.Mutex
	return each(ctx, infos, func(ctx context.Context, i backend.Info) error {
		if c.now.Sub(i.Modified) >= holdTime {
			return c.r.b.Delete(ctx, i.Key)
		}
		raw, err := backend.Get(ctx, c.r.b, i.Key)
		var h hold
		if err == nil {
			err = json.Unmarshal(raw, &h)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", i.Key, err)
		}
		mu.Lock()
		defer mu.Unlock()
		c.keep(h.Objects)
		return nil
	})
}

// remove deletes objects that were condemned long enough, and old marks of deleted ones.
func (c *collection) remove(ctx context.Context) error {
	for _, m := range c.old(condemnedPrefix) {
		// Once its objects are removed, a push may have sent them again.
		if !c.has(removedPrefix, m.id) {
			if err := c.removeAll(ctx, m.objects); err != nil {
				return err
			}
			if err := c.write(ctx, removedPrefix+m.id, m.objects); err != nil && !errors.Is(err, backend.ErrChanged) {
				return err
			}
		}
		if err := c.r.b.Delete(ctx, m.key()); err != nil {
			return err
		}
	}
	for _, m := range c.old(removedPrefix) {
		if c.has(condemnedPrefix, m.id) {
			continue
		}
		if err := c.r.b.Delete(ctx, m.key()); err != nil {
			return err
		}
	}
	return nil
}

// old returns the marks of a stage that they have had for long enough.
func (c *collection) old(stage string) (out []mark) {
	for _, m := range c.marks {
		if m.stage == stage && c.now.Sub(m.at) >= grace {
			out = append(out, m)
		}
	}
	return out
}

func (c *collection) has(stage, id string) bool {
	return slices.ContainsFunc(c.marks, func(m mark) bool { return m.stage == stage && m.id == id })
}

// older reports whether more than d has passed since a time, by one of the two clocks: the
// monotonic clock stops while a machine sleeps, and the wall clock can be set.
func older(than time.Time, d time.Duration) bool {
	now := time.Now()
	return now.Sub(than) > d || now.Round(0).Sub(than.Round(0)) > d
}

func (c *collection) removeAll(ctx context.Context, names []string) error {
	var mu sync.Mutex
	forget := func(name string, removed int, size int64) error {
		mu.Lock()
		defer mu.Unlock()
		c.done.Removed += removed
		c.done.Bytes += size
		delete(c.objects, name)
		return nil
	}
	return each(ctx, c.garbage(names), func(ctx context.Context, name string) error {
		if older(c.began, runTime) {
			return fmt.Errorf("it took more than %v: run it again", runTime)
		}
		mu.Lock()
		key, size := backend.Object{Name: name}.Key(), c.objects[name]
		mu.Unlock()
		if size == noSize {
			info, err := c.r.b.Stat(ctx, key)
			if errors.Is(err, backend.ErrNotFound) {
				return forget(name, 0, 0)
			}
			if err != nil {
				return err
			}
			size = info.Size
		}
		if err := c.r.b.Delete(ctx, key); err != nil {
			return err
		}
		return forget(name, 1, size)
	})
}

// advance condemns what was noted long enough ago, and notes what is new.
func (c *collection) advance(ctx context.Context) error {
	noted := map[string]bool{}
	for _, m := range c.marks {
		for _, o := range m.objects {
			noted[o] = noted[o] || m.stage != removedPrefix
		}
	}
	for _, m := range c.old(seenPrefix) {
		if err := c.write(ctx, condemnedPrefix+m.id, c.garbage(m.objects)); err != nil && !errors.Is(err, backend.ErrChanged) {
			return err
		}
		if err := c.r.b.Delete(ctx, m.key()); err != nil {
			return err
		}
	}
	garbage := c.garbage(slices.Collect(maps.Keys(c.objects)))
	c.done.Waiting = len(garbage)
	return c.write(ctx, seenPrefix+uuid.NewString(), slices.DeleteFunc(garbage, func(o string) bool { return noted[o] }))
}

func (c *collection) garbage(names []string) (out []string) {
	for _, o := range names {
		if _, there := c.objects[o]; there && !c.live[o] {
			out = append(out, o)
		}
	}
	slices.Sort(out)
	return out
}

func (c *collection) write(ctx context.Context, key string, objects []string) error {
	if len(objects) == 0 {
		return nil
	}
	raw, err := json.Marshal(objects)
	if err != nil {
		return fmt.Errorf("encode mark: %w", err)
	}
	return c.r.b.Put(ctx, key, raw, backend.PutOptions{IfAbsent: true})
}
