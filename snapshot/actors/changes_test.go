package actors

import (
	"fmt"
	"slices"
	"testing"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/tests/must"
)

type objects map[cas.Hash][]byte

func (o objects) Get(h cas.Hash, _ []byte) ([]byte, error) { return o[h], nil }
func (o objects) Has(h cas.Hash) (bool, error)             { return o[h] != nil, nil }

func (o objects) Put(_ cas.Kind, b []byte) (cas.Hash, error) {
	if len(b) > maxSetBytes {
		return cas.Hash{}, fmt.Errorf("%d bytes are too many", len(b))
	}
	h := cas.Sum(b)
	o[h] = b
	return h, nil
}

// TestSetBeyondAnObject: a set of actors that has more marks than an object has room for can
// be written and read. Each actor of it may have changed everything then.
func TestSetBeyondAnObject(t *testing.T) {
	defer func(n int) { maxSetBytes = n }(maxSetBytes)
	maxSetBytes = 1 << 10
	var set Set
	for ino := range uint64(1 << 10) {
		set.Add(64*ino, fmt.Sprint("a", ino%3))
	}
	o := objects{}
	h, err := PutSet(o, &set)
	must.OK(t, err)
	got, err := Decode(o[h])
	if err != nil || !slices.Equal(got.Actors(), set.Actors()) || !slices.Equal(got.ActorsWithoutInodes(), set.Actors()) {
		t.Errorf("it has %v, all by %v: %v", got.Actors(), got.ActorsWithoutInodes(), err)
	}
}

// TestNamesAreBounded: the names that are in a record are, however many intervals are joined.
func TestNamesAreBounded(t *testing.T) {
	var c Changes
	for i := range 5 * maxActors {
		c.Add(Changes{Names: []string{fmt.Sprint("actor/", i)}})
	}
	if len(c.Names) > maxActors+1 || !slices.Contains(c.Names, Unknown) || !slices.IsSorted(c.Names) {
		t.Errorf("%d names", len(c.Names))
	}
}
