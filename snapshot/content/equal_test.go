package content

import (
	"bytes"
	"context"
	"testing"
)

// TestEqualByHash: sealed files are told apart by their hashes, and nothing is read.
func TestEqualByHash(t *testing.T) {
	b := newBench()
	sealed := func(s string) *Content {
		m, err := FromReader(context.Background(), b.z, bytes.NewReader([]byte(s)))
		if err != nil {
			t.Fatal(err)
		}
		return Of(m)
	}
	src := NewSource(b.store, b.log, 8<<20)
	before := b.store.read
	if same, err := sealed("one").Equal(src, sealed("two")); same || err != nil {
		t.Errorf("%v, %v", same, err)
	}
	if same, err := sealed("one").Equal(src, sealed("one")); !same || err != nil {
		t.Errorf("%v, %v", same, err)
	}
	if b.store.read != before {
		t.Error("they were read")
	}
}
