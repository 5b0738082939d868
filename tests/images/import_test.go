package images_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

var capability = string([]byte{1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})

func images(t testing.TB) map[string]struct {
	layers [][]byte
	want   string // names, without those of directories above others
} {
	type image = struct {
		layers [][]byte
		want   string
	}
	var many []file
	for i := range harness.Count(t, "IMAGE_FILES", 5_000, 200_000) {
		many = append(many, text(fmt.Sprintf("d%d/f%d", i/500, i), fmt.Sprint(i)))
	}
	of := func(want string, layers ...[]file) image {
		im := image{want: want}
		for _, l := range layers {
			im.layers = append(im.layers, archive(t, l...))
		}
		return im
	}
	all := map[string]image{
		"attributes": of("bin/ping bin/su dev/null dev/sda fifo srv tmp",
			[]file{
				dir("./"), dir("bin/"), text("bin/su", "su").with(0o4755).of(7), text("bin/ping", "p").with(0o755).attrs("security.capability", capability),
				dir("tmp").with(0o1777), {name: "fifo", kind: tar.TypeFifo, mode: 0o600}, {name: "dev/null", kind: tar.TypeChar, mode: 0o666, dev: [2]int64{1, 3}},
				{name: "dev/sda", kind: tar.TypeBlock, mode: 0o660, dev: [2]int64{8, 0}}, dir("srv").of(33).attrs("user.x", "y"),
			}, []file{dir("srv").with(0o700), text("bin/su", "su2").with(0o2755)}),
		"whiteouts": of("a/kept a/own e/new f",
			[]file{text("a/kept", "1"), text("a/gone", "2"), text("a/own", "3"), text("b/c/d", "4"), text("e/old", "5"), text("f", "6")},
			[]file{text("a/own", "new"), gone("a/own"), gone("a/gone"), gone("b"), gone("not/there"), gone("nothing"), text("e/new", "7"), gone("e/old")}),
		"opaque": of("after/new before/new emptied root",
			[]file{text("before/old", "1"), text("after/sub/old", "2"), text("emptied/old", "3"), text("root", "4")},
			[]file{dir("before/"), opaque("before"), text("before/new", "5"), dir("after"), text("after/new", "6"), opaque("after"), opaque("emptied"), opaque("not/there")}),
		"opaque link": of("d/new l", []file{text("d/old", "1"), link("l", "/d")}, []file{opaque("l"), text("l/new", "2")}),
		"opaque root": of("new",
			[]file{text("a/b", "1"), text("c", "2")}, []file{text(".wh..wh..opq", ""), text("new", "3")}),
		"hard links": of("a b c/d x y z",
			[]file{text("a", "1"), hard("b", "a"), text("x", "2"), hard("y", "x"), hard("z", "./y")},
			[]file{dir("c/"), hard("c/d", "/b"), text("y", "replaced")}, []file{hard("x", "z"), text("a", "3")}),
		"types": of("d2f f2d/in l2d/in s2f",
			[]file{text("d2f/a/b", "1"), text("f2d", "2"), link("l2d", "d2f"), link("s2f", "nowhere"), text("d2l/x", "3")},
			[]file{text("d2f", "file"), dir("f2d"), text("f2d/in", "4"), dir("l2d"), text("l2d/in", "5"), text("s2f", "6"), gone("d2l")}),
		"links above": of("bin etc/in lib out/x/y rel sub/up tmp usr/bin/b usr/bin/sh usr/lib/l dangling/x"+" "+"away",
			[]file{dir("usr/bin/"), dir("usr/lib"), link("bin", "usr/bin"), link("lib", "/usr/lib"), text("usr/bin/sh", "1"), dir("etc"), link("rel", "../../../etc"), link("sub/up", ".."), link("away", "dangling")},
			[]file{text("bin/b", "2"), text("lib/l", "3"), text("rel/in", "4"), text("sub/up/out/x/y", "5"), dir("tmp"), text("away/x", "6")}),
		"hostile names": of("a/b etc/passwd in out outside up x",
			[]file{text("/etc/passwd", "1"), text("../../up", "2"), text("a/../in", "3"), text("a//./b", "4"), link("out", "/etc/passwd"), link("outside", "../../../../../etc/shadow")},
			[]file{hard("x", "../../etc/passwd"), gone("../../../nothing"), gone("/never"), text("a/.wh..wh.plnk", "")}),
		"compressed": of("big one/1 two/2 three/3",
			[]file{text("one/1", "1"), text("big", strings.Repeat("\x00", 3<<20)+"end")}, []file{text("two/2", "2")}, []file{text("three/3", "3")}, nil),
		"again":      of("f", []file{text("f", "1")}, []file{gone("f")}, []file{text("f", "1")}),
		"parents":    of("a/b/c/d a/b/e", []file{text("a/b/c/d", "1")}, []file{dir("a/b").with(0o700).of(5), text("a/b/e", "2")}),
		"many files": of("", many, []file{gone("d0"), text("d1/new", "1")}),
	}
	return all
}

// TestImport: what comes of an image is what `umoci unpack` makes of it and, without umoci
// or root, has the names that are expected.
func TestImport(t *testing.T) {
	m := harness.New(t)
	_, err := exec.LookPath("umoci")
	compare := err == nil && os.Getuid() == 0
	for name, im := range images(t) {
		t.Run(name, func(t *testing.T) {
			l := newLayout(t)
			l.plain = name != "compressed"
			ref := l.tag("v", l.image("amd64", im.layers...))
			to := strings.ReplaceAll(name, " ", "-")
			m.Amberfs("import", "--platform", "linux/amd64", "--image", ref, to)
			got := dump(t, m.Path(to))
			if im.want != "" {
				var names []string
				for _, line := range got {
					name, _, _ := strings.Cut(line, " ")
					if !slices.ContainsFunc(got, func(l string) bool { return strings.HasPrefix(l, name+"/") }) && name != "." {
						names = append(names, name)
					}
				}
				want := strings.Fields(im.want)
				slices.Sort(want)
				if slices.Sort(names); !slices.Equal(names, want) {
					t.Errorf("it has %s, not %s", names, want)
				}
			}
			if compare && l.plain {
				same(t, "umoci", unpack(t, l.dir), got)
			}
		})
	}
	checkClean(t, m)
}

// unpack returns what umoci makes of the image v of a layout.
func unpack(t *testing.T, layout string) []string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "bundle")
	if out, err := exec.Command("umoci", "unpack", "--image", layout+":v", to).CombinedOutput(); err != nil {
		t.Fatalf("umoci: %v\n%s", err, out)
	}
	return dump(t, filepath.Join(to, "rootfs"))
}

type snapshot struct {
	Name  string
	Image *struct {
		Ref, Digest, Config, Platform, User string
		Path                                string
		Layers, Entrypoint, Cmd, Env        []string
		WorkingDir                          string `json:"working_dir"`
	}
}

// checkClean: the folder of blobs has those that snapshots name, and nothing else.
func checkClean(t *testing.T, m *harness.Mount) {
	t.Helper()
	named := map[string]bool{}
	var list []snapshot
	must.OK(t, json.Unmarshal([]byte(m.Amberfs("list", "--all", "--json")), &list))
	for _, s := range list {
		if s.Image != nil {
			for _, d := range append(s.Image.Layers, s.Image.Digest, s.Image.Config) {
				named[strings.ReplaceAll(d, ":", "-")] = true
			}
		}
	}
	entries, _ := os.ReadDir(filepath.Join(m.Store, "images"))
	for _, e := range entries {
		if !named[e.Name()] {
			t.Errorf("%s is left behind", e.Name())
		}
		delete(named, e.Name())
	}
	for name := range named {
		t.Errorf("%s is missing", name)
	}
}

// TestRefused: nothing of these is imported, and nothing is left behind.
func TestRefused(t *testing.T) {
	m := harness.New(t)
	must.OK(t, os.WriteFile(m.Path("mine"), []byte("1"), 0o644))
	l := newLayout(t)
	base := archive(t, text("f", "1"))
	good := l.image("amd64", base)
	bad := func(files ...file) string {
		return l.tag(sum(archive(t, files...))[:8], l.image("amd64", base, archive(t, files...)))
	}
	// A layer that was changed, and one that is not what the configuration says.
	changed := l.image("amd64", archive(t, text("changed", "1")))
	l.write("blobs/sha256/"+sum(archive(t, text("changed", "1"))), archive(t, text("changed", "2")))
	lost := l.image("amd64", archive(t, text("lost", "1")))
	must.OK(t, os.Remove(filepath.Join(l.dir, "blobs/sha256", sum(archive(t, text("lost", "1"))))))
	other := l.blob(layerType, archive(t, text("other", "1")))
	config := l.json(configType, object{"architecture": "amd64", "os": "linux", "rootfs": object{"diff_ids": []string{"sha256:" + sum(base)}}})
	wrong := l.json(manifestType, object{"schemaVersion": 2, "mediaType": manifestType, "config": config, "layers": []any{other}})
	several := l.json(indexType, object{"schemaVersion": 2, "manifests": []any{
		object{"mediaType": manifestType, "digest": good["digest"], "size": good["size"], "platform": object{"os": "linux", "architecture": "s390x"}},
		object{"mediaType": manifestType, "digest": good["digest"], "size": good["size"], "platform": object{"os": "linux", "architecture": "arm", "variant": "v7"}},
	}})
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	w := tar.NewWriter(z)
	_ = w.WriteHeader(&tar.Header{Name: "zeros", Typeflag: tar.TypeReg, Size: 1 << 30, Mode: 0o644})
	_, _ = w.Write(make([]byte, 1<<30))
	_ = w.Close()
	_ = z.Close()
	huge := l.blob(layerType+"+gzip", bomb.Bytes())
	bombed := l.json(manifestType, object{"schemaVersion": 2, "mediaType": manifestType, "config": config, "layers": []any{huge}})
	loop := []file{link("a", "b"), link("b", "a"), text("a/x", "1")}

	before := dump(t, m.Dir)
	for _, c := range []struct {
		ref, says string
		flags     []string
	}{
		{l.tag("changed", changed), "does not have this digest", nil},
		{l.tag("lost", lost), "is missing", nil},
		{l.tag("wrong", wrong), "the configuration says", nil},
		{l.tag("bomb", bombed), "too big", []string{"--max-bytes", "1000000"}},
		{bad(text("x", "1"), text("y", "2")), "too big", []string{"--max-files", "1"}},
		{bad(gone("..")), "whiteout", nil},
		{bad(text(".wh.", "")), "whiteout", nil},
		{bad(loop...), "symbolic links", nil},
		{bad(hard("x", "/not/there")), "hard link", nil},
		{bad(dir("d"), hard("x", "d")), "hard link", nil},
		{bad(text("f/below", "1")), "not a directory", nil},
		{bad(text(".snapshots/x", "1")), "reserves", nil},
		{l.tag("several", several), "it has linux/s390x, linux/arm/v7", nil},
		{l.tag("arm", good), "linux/amd64", []string{"--platform", "linux/arm64"}},
		{l.tag("config", config), "not a container image", nil},
		{l.tag("outside", object{"mediaType": manifestType, "digest": "sha256:../../index.json", "size": 9}), "invalid digest", nil},
		{l.tag("huge", object{"mediaType": manifestType, "digest": "sha256:" + sum(nil), "size": int64(1) << 62}), "more than the", nil},
		{"oci:" + l.dir + ":none", "no image", nil},
		{"oci:" + l.dir, "several images", nil},
		{"oci:/nowhere", "no image", nil},
		{"docker-archive:/nowhere", "no image", nil},
		{"docker-archive:" + l.dir + "/index.json", "not an archive of", nil},
		{"UPPER/x", "does not name an image", nil},
		{"localhost:1/x@sha256:12", "does not name an image", nil},
		{"localhost:1/x", "localhost:1", nil},
	} {
		platform := []string{"--platform", "linux/amd64"}
		out, err := m.TryAmberfs(append(append([]string{"import", "--image", c.ref}, platform...), c.flags...)...)
		if err == nil || !strings.Contains(out+err.Error(), c.says) || strings.Count(out, c.ref+": ") > 1 || strings.Count(out, "\n") != 1 {
			t.Errorf("%s %s: %v %s", c.ref, c.flags, err, out)
		} else if os.Getenv("SHOW") != "" {
			t.Log(strings.TrimSpace(out))
		}
	}
	same(t, "the workspace", before, dump(t, m.Dir))
	if out := m.Amberfs("list", "--all"); !strings.Contains(out, "no snapshots") {
		t.Errorf("snapshots of failed imports: %s", out)
	}
	checkClean(t, m)
}

// TestSharedLayers: what a second image has in common with the first is stored once.
func TestSharedLayers(t *testing.T) {
	m, l := harness.New(t), newLayout(t)
	rnd := rand.NewChaCha8([32]byte{})
	random := func(name string, size int) []byte {
		data := make([]byte, size)
		_, _ = rnd.Read(data)
		return archive(t, text(name, string(data)))
	}
	base := random("base", 16<<20)
	size := func() (n int64) {
		_ = filepath.WalkDir(m.Store, func(p string, _ fs.DirEntry, _ error) error {
			var st unix.Stat_t
			if unix.Lstat(p, &st) == nil {
				n += st.Blocks * 512
			}
			return nil
		})
		return n
	}
	m.Amberfs("import", "--platform", "linux/amd64", "--image", l.tag("one", l.image("amd64", base, random("one", 1<<20))), "one")
	before := size()
	m.Amberfs("import", "--platform", "linux/amd64", "--image", l.tag("two", l.image("amd64", base, random("two", 1<<20))), "two")
	if grown := size() - before; grown > 4<<20 {
		t.Errorf("an image with 1 MiB that is new takes %d KiB, and the first took %d", grown>>10, before>>10)
	}
}

// TestDebootstrap: a whole system is what umoci makes of it.
func TestDebootstrap(t *testing.T) {
	if !harness.LongTests() {
		t.Skip("make test-long runs it")
	} else if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	harness.SkipWithout(t, "debootstrap", "umoci", "tar")
	root := filepath.Join(t.TempDir(), "root")
	if out, err := exec.Command("debootstrap", "--variant=minbase", "stable", root).CombinedOutput(); err != nil {
		t.Fatalf("debootstrap: %v\n%s", err, out)
	}
	layer, err := exec.Command("tar", "-c", "--xattrs", "--xattrs-include=*", "--numeric-owner", "-C", root, ".").Output()
	must.OK(t, err)
	m, l := harness.New(t), newLayout(t)
	m.Amberfs("import", "--platform", "linux/amd64", "--image", l.tag("v", l.image("amd64", layer)))
	same(t, "umoci", unpack(t, l.dir), dump(t, m.Dir))
}
