package actors

import (
	"log/slog"
	"slices"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/content"
)

// Changes are which inodes which actors changed in an interval: objects of sets, and sets
// that are not stored yet.
type Changes struct {
	Names  []string // of the actors, in order
	Stored []cas.Hash
	Sets   []*Set
}

// ChangesOf returns changes that are in memory.
func ChangesOf(sets []*Set) Changes {
	c := Changes{Sets: sets}
	for _, s := range sets {
		c.Names = JoinNames(c.Names, s.Actors())
	}
	return c
}

func (c *Changes) Take(o Changes) {
	c.Names = JoinNames(c.Names, o.Names)
	for _, h := range o.Stored {
		if !slices.Contains(c.Stored, h) {
			c.Stored = append(slices.Clip(c.Stored), h)
		}
	}
	c.Sets = append(slices.Clip(c.Sets), o.Sets...)
}

// JoinNames returns all names, in order. The list is in records of the catalogue: what is
// beyond maxNames is Unknown.
func JoinNames(a, b []string) []string {
	if len(b) == 0 {
		return a
	}
	out := slices.Concat(a, b)
	slices.Sort(out)
	out = slices.Compact(out)
	if len(out) > maxNames {
		out = append(out[:maxNames], Unknown)
		slices.Sort(out)
		out = slices.Compact(out)
	}
	return out
}

// Union loads sets and joins them. What cannot be read any more is by Unknown: no
// tree is lost with it.
func (c Changes) Union(objects content.ObjectStore, logger *slog.Logger) *Set {
	all := Union(c.Sets...)
	for _, h := range c.Stored {
		var set *Set
		b, err := objects.Get(h, nil)
		if err == nil {
			set, err = Decode(b)
		}
		if err != nil {
			logger.Warn("the actors of an interval cannot be read", "object", h, "err", err)
			all.AddRest(Unknown)
			continue
		}
		all.Merge(set)
	}
	return all
}

// maxSet is the largest object of a set. Tests set it lower.
var maxSet = cas.MaxObject

// PutSet writes the object of a set, none for an empty set.
func PutSet(objects content.ObjectStore, set *Set) (cas.Hash, error) {
	if set.Empty() {
		return cas.Hash{}, nil
	}
	return objects.Put(cas.KindTree, set.EncodeWithin(maxSet))
}
