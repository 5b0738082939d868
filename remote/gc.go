package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/object"
)

// stagePeriod is the shortest time from one stage of a mark to the next: from seen to condemned, from condemned to
// removed. It must be longer than maxMarkAge plus the time that the write of a ref takes.
const stagePeriod = 24 * time.Hour

// maxRunTime is the time after the beginning of a collection in which it may remove objects. If it has objects to
// remove after that, it fails.
const maxRunTime = 6 * time.Hour

// expiryMargin is the time by which this machine's clock may be ahead of the clock of the machine that set an expiry.
const expiryMargin = 24 * time.Hour

// A mark is a value on the remote with a list of object names. A collection and a push can run at the
// same time, without a lock:
//
//	gc     writes the objects that neither a ref nor a hold names to the mark gc/seen-ID. A run at
//	       least stagePeriod later writes the objects of that mark that are still not named to
//	       gc/condemned-ID, and deletes gc/seen-ID. A run at least stagePeriod after that reads all
//	       refs again, deletes the objects that are still not named, writes gc/removed-ID, and deletes
//	       gc/condemned-ID. A run at least stagePeriod after that deletes gc/removed-ID.
//	push   reads gc/condemned-* and gc/removed-* while it sends its objects, before it
//	       writes its ref. If a mark has an object that the push needs, the push starts again without
//	       that object: without a base that needs it, and with another name for equal bytes.
//	       It also starts again if it takes longer than maxMarkAge.
//
// So a ref never names a deleted object X. The ref was written either
//
//  1. before the run that deletes X read the refs. Then that run found the ref, and kept X; or
//  2. after that, by a push that read the marks more than stagePeriod after X was condemned.
//     Then the push found X in a mark, because gc/removed-ID is written before
//     gc/condemned-ID is deleted.
//
// Two runs at the same time may delete X. The second one began before gc/removed-ID was written, and does
// not delete objects later than maxRunTime after its beginning. As long as gc/removed-ID exists, no push that began
// after X was condemned writes X.
//
// Ages are differences between times of marks, by the clock of the service that stores them.

// A Collected describes the result of a collection.
type Collected struct {
	Snapshots int   `json:"snapshots"` // snapshots that remain
	Expired   int   `json:"expired"`   // snapshots that were removed because they have expired
	Objects   int   `json:"objects"`   // objects that the remote had
	Removed   int   `json:"removed"`   // objects that were removed
	Bytes     int64 `json:"bytes"`     // bytes of the removed objects
	Waiting   int   `json:"waiting"`   // objects that later runs will remove
}

// GC runs a collection. It fails if it cannot read a ref. A registry collects its objects itself: there GC only
// deletes expired snapshots.
func (r *Remote) GC(ctx context.Context) (Collected, error) {
	c := &gcRun{r: r, startedAt: time.Now(), liveObjects: map[string]bool{}, objectSizes: map[string]int64{}}
	steps := []func(context.Context) error{c.readMarks, c.sweepRefs, c.readObjects, c.sweepHolds, c.removeCondemned, c.advanceMarks, c.writeList}
	if r.b.IsRegistry() {
		steps = []func(context.Context) error{c.readMarks, c.sweepRefs}
	}

	for _, step := range steps {
		if err := step(ctx); err != nil {
			return c.result, fmt.Errorf("collection: %w", err)
		}
	}

	return c.result, nil
}

// A gcRun is one run of a collection.
type gcRun struct {
	r           *Remote
	startedAt   time.Time // beginning of the run by this machine's clock
	serviceTime time.Time // beginning of the run by the service's clock
	marks       []gcMark
	scan        *refScan

	liveObjects map[string]bool  // names of objects that a ref or a hold names
	objectSizes map[string]int64 // sizes of the objects on the remote, by name; 0 for an object that only a mark names
	result      Collected
}

// nowKey is the key of an empty value. Its time of modification is the service's clock.
const nowKey = "gc/now"

// readMarks reads the marks, sets serviceTime, and begins the scan of all refs.
func (c *gcRun) readMarks(ctx context.Context) (err error) {
	if c.r.b.IsRegistry() {
		c.scan, err = c.r.beginScan(ctx, true)
		return err
	}

	if err := c.r.b.Put(ctx, nowKey, nil, backend.PutOptions{}); err != nil {
		return err
	}

	for {
		if c.scan, err = c.r.beginScan(ctx, true); err != nil {
			return err
		}

		for _, i := range c.scan.gcKeys {
			if i.Key == nowKey {
				c.serviceTime = i.Modified
			}
		}

		c.marks, err = readMarks(ctx, c.r, c.scan.gcKeys, seenPrefix, condemnedPrefix, removedPrefix)
		if !errors.Is(err, backend.ErrNotFound) {
			return err
		}
	}
}

const (
	// A collection on a remote with entries lists all objects if there are at most maxFullListObjects. Otherwise it
	// divides them into parts, by the first digits of their names, and lists as many random parts as listedParts
	// says. These parts together have about maxFullListObjects objects.
	maxFullListObjects, listedParts = 2000, 2
)

// readObjects finds the objects on the remote. On a remote with entries and many objects, a run that will remove no
// objects does not list all of them. It adds the objects that the list and the marks name, and lists only random
// parts of the remote. So the objects of pushes that did not end are found after some collections. Any other run
// lists all objects.
func (c *gcRun) readObjects(ctx context.Context) error {
	prefixes := []string{"obj/"}
	if c.scan.format.HasEntries && len(c.scan.listedObjects) > maxFullListObjects && !c.willRemove() {
		c.addNamedObjects()
		prefixes = randomPrefixes(len(c.objectSizes))
	}

	for _, prefix := range prefixes {
		if err := c.r.b.List(ctx, prefix, func(i backend.Info) error {
			c.objectSizes[i.Key[len("obj/"):]] = i.Size
			return nil
		}); err != nil {
			return err
		}
	}

	c.result.Objects = len(c.objectSizes)

	return nil
}

// addNamedObjects adds the objects that the list and the marks name.
func (c *gcRun) addNamedObjects() {
	for _, m := range c.marks {
		for _, o := range m.objects {
			if m.stage != removedPrefix {
				c.objectSizes[o] = 0
			}
		}
	}

	for _, o := range c.scan.listedObjects {
		c.objectSizes[o.Name] = o.Size
	}
}

// randomPrefixes returns listedParts random prefixes of keys, for a remote with n objects.
func randomPrefixes(n int) (prefixes []string) {
	digits, parts := 0, 1
	for n/parts > maxFullListObjects/listedParts {
		digits, parts = digits+1, parts*16
	}
	for _, part := range rand.Perm(parts)[:listedParts] {
		prefixes = append(prefixes, fmt.Sprintf("obj/%0*x", digits, part))
	}

	return prefixes
}

// sweepRefs removes expired refs, and adds the objects of all other refs to the live objects. If the run will remove
// objects, the scan asks the service for the sums of all refs.
func (c *gcRun) sweepRefs(ctx context.Context) error {
	for {
		err := c.scan.endScan(ctx, c.willRemove())
		if err == nil {
			break
		}
		if !errors.Is(err, errListReplaced) {
			return err
		}
		if err := c.readMarks(ctx); err != nil {
			return err
		}
	}

	return c.scan.forEach(func(name string, ref *object.Ref, err error) error {
		if err != nil {
			return err
		}

		if !ref.Expires.IsZero() && time.Since(ref.Expires) > expiryMargin {
			c.result.Expired++
			delete(c.scan.refs, name)
			return c.r.b.Delete(ctx, "ref/"+name)
		}

		c.result.Snapshots++
		c.markLive(ref.Objects)

		return nil
	})
}

// writeList writes the list, if it has changed. It leaves out objects that no ref names: advanceMarks has
// written them to a mark.
func (c *gcRun) writeList(ctx context.Context) error {
	before := len(c.scan.listedObjects)
	c.scan.listedObjects = slices.DeleteFunc(c.scan.listedObjects, func(o backend.Object) bool { return !c.liveObjects[o.Name] })
	if c.scan.format.HasEntries && (c.result.Expired > 0 || len(c.scan.listedObjects) < before) || c.scan.listingDue() {
		c.scan.writeListing(ctx)
	}
	return nil
}

// markLive adds objects to the live objects.
func (c *gcRun) markLive(objects []backend.Object) {
	for _, o := range objects {
		c.liveObjects[o.Name] = true
	}
}

// sweepHolds deletes holds that have ended, and adds the objects of all other holds to the live objects.
func (c *gcRun) sweepHolds(ctx context.Context) error {
	var infos []backend.Info
	if err := c.r.b.List(ctx, "hold/", func(i backend.Info) error { infos = append(infos, i); return nil }); err != nil {
		return err
	}

	var mu sync.Mutex
	return backend.ForEach(ctx, infos, func(ctx context.Context, i backend.Info) error {
		if c.serviceTime.Sub(i.Modified) >= holdTime {
			return c.r.b.Delete(ctx, i.Key)
		}
		raw, err := backend.Get(ctx, c.r.b, i.Key)
		if err != nil {
			return fmt.Errorf("%s: %w", i.Key, err)
		}

		var h hold
		if err := json.Unmarshal(raw, &h); err != nil {
			return fmt.Errorf("%s: %w", i.Key, err)
		}

		mu.Lock()
		defer mu.Unlock()

		c.markLive(h.Objects)

		return nil
	})
}

// removeCondemned deletes the objects in due condemned marks, and replaces each of these marks by a removed mark.
// It also deletes due removed marks.
func (c *gcRun) removeCondemned(ctx context.Context) error {
	for _, m := range c.dueMarks(condemnedPrefix) {
		// If there is a removed mark with this id, an earlier run has removed the objects. A push may have sent them
		// again since, so they must stay.
		if !c.hasMark(removedPrefix, m.id) {
			if err := c.removeObjects(ctx, m.objects); err != nil {
				return err
			}
			if err := c.writeMark(ctx, removedPrefix+m.id, m.objects); err != nil && !errors.Is(err, backend.ErrChanged) {
				return err
			}
		}

		if err := c.r.b.Delete(ctx, m.key()); err != nil {
			return err
		}
	}

	for _, m := range c.dueMarks(removedPrefix) {
		if c.hasMark(condemnedPrefix, m.id) {
			continue
		}
		if err := c.r.b.Delete(ctx, m.key()); err != nil {
			return err
		}
	}

	return nil
}

// willRemove reports whether the run will remove objects.
func (c *gcRun) willRemove() bool { return len(c.dueMarks(condemnedPrefix)) > 0 }

// dueMarks returns the marks of a stage that are at least stagePeriod old, and thus due for the next stage.
func (c *gcRun) dueMarks(stage string) (out []gcMark) {
	for _, m := range c.marks {
		if m.stage == stage && c.serviceTime.Sub(m.writtenAt) >= stagePeriod {
			out = append(out, m)
		}
	}
	return out
}

// hasMark reports whether a mark was read.
func (c *gcRun) hasMark(stage, id string) bool {
	return slices.ContainsFunc(c.marks, func(m gcMark) bool { return m.stage == stage && m.id == id })
}

// hasElapsed reports whether more than d has passed since a time that time.Now returned, by the monotonic clock or by
// the wall clock. The monotonic clock stops while the machine sleeps, and the wall clock can be set back.
func hasElapsed(since time.Time, d time.Duration) bool {
	now := time.Now()
	return now.Sub(since) > d || now.Round(0).Sub(since.Round(0)) > d
}

// removeObjects deletes objects, except those that are live, and counts them. It fails after maxRunTime.
func (c *gcRun) removeObjects(ctx context.Context, names []string) error {
	const maxKeysPerDelete = 1000 // objects that a service deletes with one request
	for part := range slices.Chunk(c.unreferenced(names), maxKeysPerDelete) {
		if hasElapsed(c.startedAt, maxRunTime) {
			return fmt.Errorf("it took more than %v: run it again", maxRunTime)
		}

		var keys []string
		for _, name := range part {
			keys = append(keys, backend.Object{Name: name}.Key())
		}
		if err := backend.DeleteAll(ctx, c.r.b, keys); err != nil {
			return err
		}

		for _, name := range part {
			c.result.Removed++
			c.result.Bytes += c.objectSizes[name]
			delete(c.objectSizes, name)
		}
	}

	return nil
}

// advanceMarks replaces due seen marks by condemned marks. It also writes a seen mark with the unreferenced objects
// that are in no mark yet.
func (c *gcRun) advanceMarks(ctx context.Context) error {
	marked := map[string]bool{}
	for _, m := range c.marks {
		for _, o := range m.objects {
			marked[o] = marked[o] || m.stage != removedPrefix
		}
	}

	for _, m := range c.dueMarks(seenPrefix) {
		if err := c.writeMark(ctx, condemnedPrefix+m.id, c.unreferenced(m.objects)); err != nil && !errors.Is(err, backend.ErrChanged) {
			return err
		}
		if err := c.r.b.Delete(ctx, m.key()); err != nil {
			return err
		}
	}

	garbage := c.unreferenced(slices.Collect(maps.Keys(c.objectSizes)))
	c.result.Waiting = len(garbage)
	return c.writeMark(ctx, seenPrefix+uuid.NewString(), slices.DeleteFunc(garbage, func(o string) bool { return marked[o] }))
}

// unreferenced returns the names of objects that are on the remote and not live, sorted.
func (c *gcRun) unreferenced(names []string) (out []string) {
	for _, o := range names {
		if _, there := c.objectSizes[o]; there && !c.liveObjects[o] {
			out = append(out, o)
		}
	}

	slices.Sort(out)
	return out
}

// writeMark writes a mark, unless it would have no objects, or the remote is a registry. Errors: backend.ErrChanged if the mark exists.
func (c *gcRun) writeMark(ctx context.Context, key string, objects []string) error {
	if len(objects) == 0 || c.r.b.IsRegistry() {
		return nil
	}
	raw, err := json.Marshal(objects)
	if err != nil {
		return fmt.Errorf("encode mark: %w", err)
	}

	return c.r.b.Put(ctx, key, raw, backend.PutOptions{IfAbsent: true})
}
