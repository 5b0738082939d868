package actors

import (
	"log/slog"
	"slices"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/content"
)

// Changes has the actor sets of an interval: the inodes that each actor changed.
type Changes struct {
	Names  []string   // all actors, sorted
	Stored []cas.Hash // hashes of sets that are stored as objects
	Sets   []*Set     // sets in memory, which are not in Stored
}

// ChangesOf returns the Changes for sets in memory.
func ChangesOf(sets []*Set) Changes {
	c := Changes{Sets: sets}
	for _, s := range sets {
		c.Names = JoinNames(c.Names, s.Actors())
	}
	return c
}

// Add adds the changes of o to c.
func (c *Changes) Add(o Changes) {
	c.Names = JoinNames(c.Names, o.Names)
	for _, h := range o.Stored {
		if !slices.Contains(c.Stored, h) {
			c.Stored = append(slices.Clip(c.Stored), h)
		}
	}

	c.Sets = append(slices.Clip(c.Sets), o.Sets...)
}

// Replace replaces the first sets of c, which are those of old, by the object union with their union. union is zero if
// it has no inodes. Replace has no effect if c no longer has these sets.
func (c *Changes) Replace(old Changes, union cas.Hash) {
	n, m := len(old.Stored), len(old.Sets)
	if len(c.Stored) < n || len(c.Sets) < m || !slices.Equal(c.Stored[:n], old.Stored) || !slices.Equal(c.Sets[:m], old.Sets) {
		return
	}

	stored := slices.Clone(c.Stored[n:])
	if !union.IsZero() && !slices.Contains(stored, union) {
		stored = append(stored, union)
	}

	c.Stored, c.Sets = stored, slices.Clone(c.Sets[m:])
}

// JoinNames returns the names of both lists, sorted. It replaces names beyond maxActors by Unknown, because records
// of the catalogue contain the list.
func JoinNames(a, b []string) []string {
	if len(b) == 0 {
		return a
	}
	out := slices.Concat(a, b)
	slices.Sort(out)
	out = slices.Compact(out)
	if len(out) > maxActors {
		out = append(out[:maxActors], Unknown)
		slices.Sort(out)
		out = slices.Compact(out)
	}

	return out
}

// Union returns the union of all sets. If a stored set cannot be read, the union has changes by
// Unknown instead; this is no error, because no files are lost.
func (c Changes) Union(objects content.ObjectStore, logger *slog.Logger) *Set {
	all := Union(c.Sets...)

	for _, h := range c.Stored {
		set, err := loadSet(objects, h)
		if err != nil {
			logger.Warn("the actors of an interval cannot be read", "object", h, "err", err)
			all.AddWithoutInodes(Unknown)
			continue
		}

		all.Merge(set)
	}

	return all
}

func loadSet(objects content.ObjectStore, h cas.Hash) (*Set, error) {
	b, err := objects.Get(h, nil)
	if err != nil {
		return nil, err
	}
	return Decode(b)
}

// maxSetBytes is the largest size of a set's object. Tests lower it.
var maxSetBytes = cas.MaxObject

// PutSet stores a set as an object. For an empty set it returns the zero hash.
func PutSet(objects content.ObjectStore, set *Set) (cas.Hash, error) {
	if set.IsEmpty() {
		return cas.Hash{}, nil
	}
	return objects.Put(cas.KindTree, set.EncodeWithin(maxSetBytes))
}
