package images_test

import (
	"archive/tar"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
)

// TestRandom: random layers are refused, or what umoci makes of them. Where the order of
// entries decides for umoci, whiteouts come first.
func TestRandom(t *testing.T) {
	seed := harness.FromEnv(t, "SEED", rand.Uint64())
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
			if err := os.RemoveAll(m.Path("d")); err != nil {
				t.Fatal(err)
			}
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
