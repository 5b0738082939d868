package service

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/tests/must"
)

// BenchmarkFill copies the directory FILL into a new store, as `run --from` does.
func BenchmarkFill(b *testing.B) {
	dir := os.Getenv("FILL")
	for dir != "" && b.Loop() {
		s, err := snapshot.Open(filepath.Join(b.TempDir(), "store"), snapshot.Options{})
		must.OK(b, err)
		must.OK(b, FillStore(b.Context(), s, dir, FillOptions{ShowProgress: func(Progress) {}}))
		must.OK(b, s.Close())
	}
}
