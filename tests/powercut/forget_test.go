package powercut_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestForgetOnTheDisk: after a forget, no block of the disk has the bytes, also none that the forget freed.
// Blocks that were freed before belong to the disk: see docs/how-to/operate.md.
func TestForgetOnTheDisk(t *testing.T) {
	d := newDisk(t)
	m := harness.NewUnmounted(t, filepath.Join(d.dir, "store"))
	t.Setenv("XDG_CACHE_HOME", filepath.Join(d.dir, "cache"))
	m.Start()

	// Random bytes are not compressed, so that they are found in every format.
	source := rand.NewChaCha8([32]byte{byte(harness.RandomSeed(t))})
	secrets := map[string][]byte{"key": make([]byte, 500), "part": make([]byte, 9000), "large": make([]byte, 3<<20), "pack": make([]byte, 200_000)}
	for name, b := range secrets {
		_, _ = source.Read(b)
		must.OK(t, os.WriteFile(m.Path(name), b, 0o600))
	}
	filler := make([]byte, 1<<20)
	_, _ = source.Read(filler)
	must.OK(t, os.WriteFile(m.Path("filler"), filler, 0o600))

	// The bytes are in every place.
	m.Amberfs("snapshot", "v1")
	m.Amberfs("remote", "add", "origin", "file://"+filepath.Join(d.dir, "remote"))
	m.Amberfs("push", "origin", "v1")
	m.Amberfs("pull", "origin", "v1", "--as", "pulled")
	must.OK(t, os.WriteFile(m.Path(".snapshots/export"), []byte("v1\n"), 0o600))
	must.OK(t, os.WriteFile(m.Path("part"), append(secrets["part"], "and more"...), 0o600))
	must.OK(t, os.Remove(m.Path("filler")))
	m.Amberfs("snapshot", "v2")
	must.OK(t, os.WriteFile(m.Path(".snapshots/export"), []byte("v2\n"), 0o600))
	m.Amberfs("fork", "f")
	for name, b := range secrets {
		if !diskHas(t, d, b) {
			t.Errorf("%s is not on the disk before", name)
		}
	}

	t.Log(m.Amberfs("forget", "key", "part", "large", "pack", "--now", "--remotes", "--yes"))
	t.Log(m.Amberfs("verify", "--forgotten"))
	m.Stop()
	d.unmount()
	for name, b := range secrets {
		if diskHas(t, d, b) {
			t.Errorf("%s is on the disk", name)
		}
	}
}

// diskHas reports whether the disk has some of the bytes.
func diskHas(t *testing.T, d *disk, b []byte) bool {
	t.Helper()
	if d.mounted {
		unix.Sync()
	}
	f, err := os.Open(d.image)
	must.OK(t, err)
	defer f.Close()

	const window = 64 << 20
	block := make([]byte, window+64)
	for off := int64(0); ; off += window {
		n, err := f.ReadAt(block, off)
		for at := 0; at+64 <= len(b); at += max(64, len(b)/7) {
			if bytes.Contains(block[:n], b[at:at+64]) {
				return true
			}
		}
		if err == io.EOF {
			return false
		}
		must.OK(t, err)
	}
}
