package fsmodel_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/fsmodel"
	"github.com/amberfs/amberfs/tests/must"
)

// The model agrees with the filesystem that the temporary directory is on;
// otherwise it would be of no use as a judge.
func TestAgreesWithARealFilesystem(t *testing.T) {
	defer unix.Umask(unix.Umask(0))
	for seed := range uint64(6) {
		dir, fs := t.TempDir(), fsmodel.New()
		rng := rand.New(rand.NewPCG(seed, 1))
		failed := 0
		for i := range 800 {
			op := fsmodel.Random(rng, fs, fsmodel.Limits{Files: 40, Size: 64 << 10})
			got, want := op.Do(dir), op.Apply(fs)
			if errors.Is(got, unix.EOPNOTSUPP) {
				t.Skipf("the temporary directory cannot do this: %v", op)
			}
			if !errors.Is(got, want) {
				t.Fatalf("seed %d, step %d: %v: got %v, want %v", seed, i, op, got, want)
			}
			if want != nil {
				failed++
			}
			if i%100 != 99 {
				continue
			}
			list, err := fsmodel.Observe(dir)
			must.OK(t, err)
			if d := fsmodel.Compare(fs.List(), list); d != "" {
				t.Fatalf("seed %d, step %d:\n%s", seed, i, d)
			}
			if d := fsmodel.Compare(fs.List(), fs.Clone().List()); d != "" {
				t.Fatalf("a clone differs:\n%s", d)
			}
		}
		if failed < 40 || failed > 500 {
			t.Errorf("seed %d: %d of 800 operations failed", seed, failed)
		}
	}
}

// The filesystem that the temporary directory is on does what the suite asks of others.
func TestConformanceOfARealFilesystem(t *testing.T) {
	defer unix.Umask(unix.Umask(0))
	fsmodel.Conformance(t, func(t *testing.T) fsmodel.System { return fsmodel.Dir(t.TempDir()) })
}
