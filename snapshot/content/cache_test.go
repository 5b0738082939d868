package content

import (
	"fmt"
	"testing"

	"github.com/amberfs/amberfs/cas"
)

func TestLRU(t *testing.T) {
	c := NewCache[int](100)
	key := func(i int) cas.Hash { return cas.Hash{byte(i)} }
	for i := range 20 {
		c.Put(key(i), i, 10)
		c.Get(key(0))
	}
	var left []int
	for i := range 20 {
		if v, ok := c.Get(key(i)); ok {
			left = append(left, v)
		}
	}
	if got := fmt.Sprint(left); got != "[0 11 12 13 14 15 16 17 18 19]" {
		t.Errorf("left are %s", got)
	}
	c.Put(key(99), 99, 101)
	if _, ok := c.Get(key(99)); ok {
		t.Error("kept what weighs more than all may")
	}
	if w := c.Weight(); w != 100 {
		t.Errorf("weight %d, want 100", w)
	}
	c.Put(key(11), 11_000, 9)
	if v, _ := c.Get(key(11)); v != 11_000 || c.Weight() != 99 {
		t.Errorf("%d in place of another value, weight %d", v, c.Weight())
	}
}
