package tree

import (
	"fmt"
	"strings"
	"testing"
)

// TestNamesBeyond4GiB: names of one directory are not mixed up where there are more than
// 4 GiB of them.
func TestNamesBeyond4GiB(t *testing.T) {
	l := byName{blocks: make([][]byte, 1<<20)}
	want := make([]string, 40)
	for i := range want {
		want[i] = fmt.Sprintf("%02d%s", i, strings.Repeat("x", 250))
		l.add(Dirent{Name: want[i], Ino: uint64(i)})
	}
	l.sort()
	i := 0
	for e := range l.all() {
		if e.Name != want[i] || e.Ino != uint64(i) {
			t.Fatalf("name %d is inode %d, %.10s…", i, e.Ino, e.Name)
		}
		i++
	}
}
