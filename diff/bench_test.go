package diff

import (
	"context"
	"fmt"
	"io"
	"testing"
)

// BenchmarkOneLineIn100kFiles measures the diff of two states that share all
// but one file.
func BenchmarkOneLineIn100kFiles(b *testing.B) {
	s := spec{}
	for i := range 100_000 {
		s[fmt.Sprintf("d%d/e%d/f%d", i/5000, i/50%100, i)] = file(fmt.Sprintf("one\ntwo\n%d\n", i))
	}
	m := newMemory()
	before := m.state(b, s)
	after := before.Clone()
	n, err := after.Resolve(m.src, "d7/e7/f35350")
	check(b, err)
	n, err = after.Own(m.src, testEpoch+1, n.Ino)
	check(b, err)
	n.Content = m.content(b, "one\ntwo\nthree\n")
	check(b, after.Put(m.src, testEpoch+1, n))
	b.ResetTimer()
	for range b.N {
		check(b, Write(context.Background(), io.Discard, m.src, before, after, Options{}))
	}
}
