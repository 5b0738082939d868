package journal

import (
	"fmt"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{100, 4096, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			j, err := Open(b.TempDir(), Options{})
			must.OK(b, err)
			defer j.Close()
			data := make([]byte, size)
			head := make([]byte, 24)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				_, err = j.Append(1, head, data, false)
				must.OK(b, err)
				must.OK(b, j.DropBefore(j.End()-256<<20))
			}
		})
	}
}

func BenchmarkAppendSync(b *testing.B) {
	j, err := Open(b.TempDir(), Options{})
	must.OK(b, err)
	defer j.Close()
	data := make([]byte, 4096)
	for b.Loop() {
		_, err = j.Append(1, nil, data, false)
		must.OK(b, err)
		must.OK(b, j.Sync())
	}
}
