package images_test

import (
	"archive/tar"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestRandom: random layers are refused, or what umoci makes of them. Where the order of
// entries decides for umoci, whiteouts come first.
func TestRandom(t *testing.T) {
	seed := harness.NumberFromEnv(t, "SEED", rand.Uint64())
	t.Logf("SEED=%d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	m := harness.New(t)
	_, err := exec.LookPath("umoci")
	compare := err == nil && os.Getuid() == 0
	name := func() string {
		var parts []string
		for range 1 + rnd.IntN(3) {
			parts = append(parts, string(rune('a'+rnd.IntN(3))))
		}
		return strings.Join(parts, "/")
	}
	for n := range harness.Count(t, "IMAGES", 15, 300) {
		l := newLayout(t)
		l.plain = true
		var layers [][]byte
		for range 1 + rnd.IntN(3) {
			var gones, files []file
			for range 1 + rnd.IntN(6) {
				switch p := name(); rnd.IntN(7) {
				case 0:
					gones = append(gones, gone(p))
				case 1:
					gones = append(gones, opaque(p))
				case 2:
					files = append(files, dir(p).with(0o700+int64(rnd.IntN(8))))
				case 3:
					files = append(files, link(p, []string{"..", "/", "/a", "a/b", "../c", "nowhere"}[rnd.IntN(6)]))
				case 4:
					files = append(files, hard(p, name()))
				case 5:
					files = append(files, file{name: p, kind: tar.TypeFifo, mode: 0o600})
				default:
					files = append(files, text(p, strings.Repeat("x", rnd.IntN(9))))
				}
			}
			layers = append(layers, archive(t, append(gones, files...)...))
		}
		ref := l.tag("v", l.image("amd64", layers...))
		out, err := m.TryAmberfs("import", "--platform", "linux/amd64", "--image", ref, "d")
		if err != nil && !strings.Contains(out, "refused") {
			t.Errorf("image %d: %v %s", n, err, out)
		}
		if err == nil {
			if compare {
				to := filepath.Join(t.TempDir(), "bundle")
				if out, err := exec.Command("umoci", "unpack", "--image", l.dir+":v", to).CombinedOutput(); err == nil {
					// umoci changes the times of some directories when it makes others in them
					same(t, "umoci", withoutTime(dump(t, filepath.Join(to, "rootfs"))), withoutTime(dump(t, m.Path("d"))))
				} else if os.Getenv("SHOW") != "" {
					t.Logf("image %d: umoci only: %s", n, out)
				}
			}
			must.OK(t, os.RemoveAll(m.Path("d")))
		} else if compare && os.Getenv("SHOW") != "" {
			if exec.Command("umoci", "unpack", "--image", l.dir+":v", filepath.Join(t.TempDir(), "bundle")).Run() == nil {
				t.Logf("image %d: we only: %s", n, out)
			}
		}
		if t.Failed() {
			for i, b := range layers {
				cmd := exec.Command("tar", "tv")
				cmd.Stdin = strings.NewReader(string(b))
				list, _ := cmd.CombinedOutput()
				t.Logf("layer %d\n%s", i, list)
			}
			t.FailNow()
		}
	}
	checkClean(t, m)
}

// TestRandomExport: an exported image has the tree of the snapshot, for us and for umoci, whatever
// was changed since the import, in layers that lie upon each other.
func TestRandomExport(t *testing.T) {
	seed := harness.NumberFromEnv(t, "SEED", rand.Uint64())
	t.Logf("SEED=%d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	_, err := exec.LookPath("umoci")
	compare := err == nil && os.Getuid() == 0
	m := harness.New(t)
	for n := range harness.Count(t, "IMAGES", 4, 200) {
		root := fmt.Sprint("root", n)
		m.Amberfs("fork", root)
		fork := m.Path(".forks", root)
		path := func() string {
			p := fork
			for range 1 + rnd.IntN(3) {
				p = filepath.Join(p, string(rune('a'+rnd.IntN(4))))
			}
			return p
		}
		layers := 0
		for range 1 + rnd.IntN(3) {
			for range 1 + rnd.IntN(20) { // many of these fail
				switch p := path(); rnd.IntN(9) {
				case 0:
					_ = os.Remove(p)
				case 1:
					_ = os.RemoveAll(p)
				case 2:
					_ = os.Rename(p, path())
				case 3:
					_ = os.Link(p, path())
				case 4:
					_ = os.Symlink([]string{"a", "../b", "/c"}[rnd.IntN(3)], p)
				case 5:
					if i, err := os.Lstat(p); err == nil && i.Mode().Type() != fs.ModeSymlink {
						_ = os.Chmod(p, fs.FileMode(0o700+rnd.IntN(64)))
					}
				case 6:
					_ = os.MkdirAll(p, 0o755)
				default:
					_ = os.MkdirAll(filepath.Dir(p), 0o755)
					_ = os.WriteFile(p, []byte(strings.Repeat("x", rnd.IntN(9))), 0o644)
				}
			}
			out := filepath.Join(t.TempDir(), "out")
			m.Amberfs("-C", fork, "snapshot", fmt.Sprint("s", layers))
			m.Amberfs("-C", fork, "export", fmt.Sprint("s", layers), "--image", "oci:"+out+":v")
			layers++
			root += "x"
			m.Amberfs("fork", root)
			next := m.Path(".forks", root)
			m.Amberfs("-C", next, "import", "--image", "oci:"+out+":v")
			want := withoutTime(dump(t, fork))
			same(t, "imported", want, withoutTime(dump(t, next)))
			if has, _ := blobsOf(t, out); len(has) != layers {
				t.Errorf("%d layers, not %d", len(has), layers)
			}
			if compare {
				same(t, "umoci", want, withoutTime(unpack(t, out)))
			}
			if t.Failed() {
				t.FailNow()
			}
			fork = next
		}
	}
}
