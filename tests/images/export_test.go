package images_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// system is an image to change.
func system(t testing.TB) [][]byte {
	return [][]byte{
		archive(t, dir("etc"), text("etc/passwd", "root"), text("etc/issue", "1"), dir("etc/apt"), text("etc/apt/list", "2"), dir("opt"), link("bin", "usr/bin"),
			text("usr/bin/sh", "sh").with(0o755), text("a", "linked"), hard("b", "a"), hard("c", "a"), text("x", "1"), hard("y", "x"), text("keep/1", "1"), text("keep/2", "2")),
		archive(t, text("etc/issue", "two"), text("big", strings.Repeat("0123456789", 100_000))),
	}
}

// change makes one of each kind of change.
func change(t testing.TB, root string) {
	t.Helper()
	script := `set -e; cd "$1"
rm -r etc/apt; echo hi > new; mkdir -p opt/p/q; echo 1 > opt/p/q/r; chmod 700 opt; ln usr/bin/sh usr/bin/bash
rm etc/issue; mkdir etc/issue; echo a > etc/issue/x; rm bin; echo file > bin; rm -r keep/1; mkfifo opt/fifo; touch .wh.no; ln .wh.no seen
rm b; ln a d; rm y; echo more >> x; rm big; ln -s a l; setfattr -n user.k -v v a || true; mkdir gone; rmdir gone; touch -d @5 etc/passwd`
	if out, err := exec.Command("sh", "-c", script, "sh", root).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// last returns the last line.
func last(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return lines[len(lines)-1]
}

func blobsOf(t testing.TB, layout string) (layers []string, digest string) {
	t.Helper()
	var index struct{ Manifests []struct{ Digest string } }
	read(t, filepath.Join(layout, "index.json"), &index)
	digest = index.Manifests[len(index.Manifests)-1].Digest
	var m struct{ Layers []struct{ Digest string } }
	read(t, filepath.Join(layout, "blobs", strings.ReplaceAll(digest, ":", "/")), &m)
	for _, l := range m.Layers {
		layers = append(layers, l.Digest)
	}
	return layers, digest
}

func read(t testing.TB, file string, into any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	must.OK(t, err)
}

func show(t testing.TB, m *harness.Mount, name string) (s snapshot) {
	t.Helper()
	if err := json.Unmarshal([]byte(m.Amberfs("show", "--json", name)), &s); err != nil || s.Image == nil {
		t.Fatal(err, s)
	}
	return s
}

// TestExport: an exported image has the layers below as they were, one more, and the tree of the
// snapshot, also when the source of the import is gone, from a fork, and after a remount.
func TestExport(t *testing.T) {
	harness.SkipWithout(t, "setfattr")
	m := harness.New(t)
	l := newLayout(t)
	ref := l.tag("v", l.image("amd64", system(t)...))
	out := m.Amberfs("import", "--platform", "linux/amd64", "--image", ref)
	_, name, _ := strings.Cut(strings.TrimSpace(out), "snapshot ")
	s := show(t, m, name)
	if i := s.Image; i.Ref != ref || len(i.Layers) != 2 || i.Platform != "linux/amd64" || i.User != "1:2" || i.WorkingDir != "/srv" ||
		!slices.Equal(i.Entrypoint, []string{"/bin/sh"}) || !slices.Equal(i.Cmd, []string{"-c", "true"}) || !slices.Equal(i.Env, []string{"A=b"}) {
		t.Errorf("the snapshot says %+v", *i)
	}
	must.OK(t, os.RemoveAll(l.dir))
	m.Amberfs("fork", "f")
	change(t, m.Path(".forks", "f"))
	m.Amberfs("-C", m.Path(".forks", "f"), "snapshot", "one")
	m.Stop()
	m.Start()
	fork := m.Path(".forks", "f")
	to := t.TempDir()
	digest := last(m.Amberfs("-C", fork, "export", "one", "--image", "oci:"+to+"/out:v1"))
	layers, got := blobsOf(t, to+"/out")
	if got != digest || len(layers) != 3 || !slices.Equal(layers[:2], s.Image.Layers) {
		t.Errorf("it has %s with the layers %s, not %s and those of %s", got, layers, digest, s.Image.Layers)
	}
	if again := last(m.Amberfs("-C", fork, "export", "one", "--base", name, "--image", "oci:"+to+"/again")); again != digest {
		t.Errorf("again it is %s, not %s", again, digest)
	}
	names := layerNames(t, filepath.Join(to, "out/blobs", strings.ReplaceAll(layers[2], ":", "/")))
	want := strings.Fields(`./ a bin c=a d=a etc/ etc/.wh.apt etc/issue/ etc/issue/x etc/passwd keep/ keep/.wh.1 l new opt/ opt/fifo opt/p/ opt/p/q/ opt/p/q/r seen usr/ usr/bin/ usr/bin/bash usr/bin/sh=usr/bin/bash x .wh.b .wh.big .wh.y`)
	slices.Sort(names)
	if slices.Sort(want); !slices.Equal(names, want) {
		t.Errorf("the layer has\n%s, not\n%s", names, want)
	}

	// Back again, by way of each kind of place.
	if err := os.Remove(filepath.Join(fork, ".wh.no")); err != nil { // no layer can have it
		t.Fatal(err)
	}
	tree := withoutTime(dump(t, fork))
	file := filepath.Join(to, "v1.tar")
	if d := last(m.Amberfs("-C", fork, "export", "one", "--image", "docker-archive:"+file)); d != digest {
		t.Errorf("the archive has %s", d)
	}
	must.OK(t, exec.Command("gzip", "-k", file).Run())
	r := newRegistry(t)
	docker := t.TempDir()
	auth := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, r.host, base64.StdEncoding.EncodeToString([]byte("me:secret")))
	place := r.host + "/some/thing:v1"
	t.Setenv("DOCKER_CONFIG", docker)
	if out, err := m.TryAmberfs("-C", fork, "export", "one", "--image", place); err == nil || !strings.Contains(out+err.Error(), "docker login") {
		t.Errorf("without credentials: %v %s", err, out)
	}
	must.OK(t, os.WriteFile(docker+"/config.json", []byte(auth), 0o600))
	if d := last(m.Amberfs("-C", fork, "export", "one", "--image", place)); d != digest {
		t.Errorf("the registry has %s", d)
	}
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	podman := filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "containers")
	must.OK(t, os.MkdirAll(podman, 0o700))
	must.OK(t, os.WriteFile(podman+"/auth.json", []byte(strings.Replace(auth, r.host, r.host+"/some", 1)), 0o600))
	for i, ref := range []string{"oci:" + to + "/out:v1", "oci:" + to + "/again", "docker-archive:" + file, place, place + "@" + digest, r.host + "/some/thing@" + digest} {
		dir := fmt.Sprint("back", i)
		m.Amberfs("import", "--platform", "linux/amd64", "--image", ref, dir)
		same(t, ref, tree, withoutTime(dump(t, m.Path(dir))))
		back := show(t, m, "latest").Image
		if !slices.Equal(back.Layers, layers) || back.Path != dir || back.User != "1:2" {
			t.Errorf("%s: %+v", ref, back)
		}
	}
	if exec.Command("umoci", "--version").Run() == nil && os.Getuid() == 0 {
		cmd := exec.Command("umoci", "unpack", "--image", to+"/out:v1", to+"/bundle")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		same(t, "umoci", tree, withoutTime(dump(t, to+"/bundle/rootfs")))
	}
	listed := func() string { // without the ids, which come when a snapshot is stored
		return regexp.MustCompile(`(?m)^(\S+)\t\S+`).ReplaceAllString(m.Amberfs("list", "--all"), "$1")
	}
	before := listed()
	for ref, says := range map[string]string{
		r.host + "/some/thing:none": "no image", r.host + "/none/x": "no image", "docker-archive:" + file + ".gz": "gzip -d",
		place + "@sha256:" + strings.Repeat("0", 64): "the tag moved",
	} {
		if out, err := m.TryAmberfs("import", "--platform", "linux/amd64", "--image", ref, "no"); err == nil || !strings.Contains(out+err.Error(), says) {
			t.Errorf("%s: %v %s", ref, err, out)
		}
	}
	if after := listed(); after != before {
		t.Errorf("failed imports left snapshots: %s", after)
	}
	checkClean(t, m)
	m.Amberfs("rm", name)
	m.Amberfs("gc", "--all") // now it cannot be restored any more
	checkClean(t, m)
}

// TestExportAll: a snapshot without an image is an image of one layer, and one of an import
// that was merged into other files is none.
func TestExportAll(t *testing.T) {
	m := harness.New(t)
	must.OK(t, os.WriteFile(m.Path("f"), []byte("1"), 0o644))
	m.Amberfs("snapshot", "one")
	to := t.TempDir()
	m.Amberfs("export", "one", "--image", "oci:"+to+"/out")
	if layers, _ := blobsOf(t, to+"/out"); len(layers) != 1 {
		t.Errorf("it has %s", layers)
	}
	m.Amberfs("import", "--image", "oci:"+to+"/out", "d")
	same(t, "d", []string{dump(t, m.Dir)[2][2:]}, dump(t, m.Path("d"))[1:])
	l := newLayout(t)
	m.Amberfs("import", "--platform", "linux/amd64", "--image", l.tag("v", l.image("amd64", archive(t, text("g", "1")))))
	if out, err := m.TryAmberfs("export", "latest", "--image", "oci:"+to+"/no"); err == nil || !strings.Contains(out, "before the image was imported") {
		t.Errorf("%v %s", err, out)
	}
	for _, ref := range []string{"UPPER/x", "localhost:1/x@sha256:12"} {
		if out, err := m.TryAmberfs("export", "one", "--image", ref); err == nil || !strings.Contains(out, "does not name an image") {
			t.Errorf("%s: %v %s", ref, err, out)
		}
	}
	if out, err := m.TryAmberfs("export", "latest", "--base", "one", "--image", "oci:"+to+"/no"); err == nil || !strings.Contains(out, "not a snapshot that") {
		t.Errorf("%v %s", err, out)
	}
	checkClean(t, m)
}

// withoutTime leaves times out: a change through the mount is of now.
func withoutTime(lines []string) (out []string) {
	for _, l := range lines {
		if !strings.HasPrefix(l, ". ") {
			before, after, _ := strings.Cut(l, " 1600000000.123000000")
			out = append(out, before+after)
		}
	}
	return out
}

func layerNames(t testing.TB, file string) (names []string) {
	t.Helper()
	out, err := exec.Command("tar", "tzvf", file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		name := f[5]
		if i := slices.Index(f, "link"); i > 0 {
			name += "=" + f[i+2]
		}
		names = append(names, name)
	}
	return names
}

// A registry in memory, for me:secret only.
type registry struct {
	host  string
	mu    sync.Mutex
	blobs map[string][]byte
	kinds map[string]string
}

func newRegistry(t testing.TB) *registry {
	r := &registry{blobs: map[string][]byte{}, kinds: map[string]string{}}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	r.host = strings.TrimPrefix(s.URL, "http://")
	return r
}

func (r *registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if user, pass, _ := q.BasicAuth(); user != "me" || pass != "secret" {
		w.Header().Set("WWW-Authenticate", `Basic realm="r"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	body, _ := io.ReadAll(q.Body)
	key := q.URL.Path[strings.LastIndexByte(q.URL.Path, '/')+1:]
	digest := "sha256:" + sum(body)
	switch {
	case q.Method == http.MethodPost:
		w.Header().Set("Location", q.URL.Path+"1")
		w.WriteHeader(http.StatusAccepted)
	case q.Method == http.MethodPut && strings.Contains(q.URL.Path, "/manifests/"):
		r.kinds[digest], r.kinds[key] = q.Header.Get("Content-Type"), q.Header.Get("Content-Type")
		r.blobs[key] = body
		fallthrough
	case q.Method == http.MethodPut:
		r.blobs[digest] = body
		w.Header().Set("Docker-Content-Digest", digest)
		w.WriteHeader(http.StatusCreated)
	default:
		b, ok := r.blobs[key]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if kind := r.kinds[key]; kind != "" {
			w.Header().Set("Content-Type", kind)
		}
		w.Header().Set("Docker-Content-Digest", "sha256:"+sum(b))
		http.ServeContent(w, q, "", stamp, bytes.NewReader(b))
	}
}

// TestDockerSave: archives as old versions of docker write them: layers beside their own
// folders, the same one by a link.
func TestDockerSave(t *testing.T) {
	m := harness.New(t)
	one, two := archive(t, text("f", "1")), archive(t, gone("f"), text("g", "2"))
	config, _ := json.Marshal(object{"architecture": "amd64", "os": "linux", "rootfs": object{"diff_ids": []string{"sha256:" + sum(one), "sha256:" + sum(two), "sha256:" + sum(one)}}})
	manifest, _ := json.Marshal([]object{{"Config": "c.json", "RepoTags": []string{"x:1"}, "Layers": []string{"1/layer.tar", "2/layer.tar", "3/layer.tar"}}})
	file := filepath.Join(t.TempDir(), "saved.tar")
	saved := archive(t, dir("1"), text("1/layer.tar", string(one)), text("2/layer.tar", string(two)), link("3/layer.tar", "../1/layer.tar"), text("c.json", string(config)), text("manifest.json", string(manifest)))
	must.OK(t, os.WriteFile(file, saved, 0o644))
	m.Amberfs("import", "--platform", "linux/amd64", "--image", "docker-archive:"+file, "d")
	same(t, "d", []string{"f", "g"}, []string{strings.Fields(dump(t, m.Path("d"))[1])[0], strings.Fields(dump(t, m.Path("d"))[2])[0]})
	if layers := show(t, m, "latest").Image.Layers; len(layers) != 3 || layers[0] != layers[2] {
		t.Errorf("layers %s", layers)
	}
}

// TestKilled: an import that was answered is there after a kill, with its snapshot and its layers.
func TestKilled(t *testing.T) {
	m := harness.New(t)
	l := newLayout(t)
	m.Amberfs("import", "--platform", "linux/amd64", "--image", l.tag("v", l.image("amd64", system(t)...)))
	tree, before := dump(t, m.Dir), show(t, m, "latest")
	m.Kill()
	m.Start()
	if after := show(t, m, "latest"); after.Name != before.Name || after.Image.Digest != before.Image.Digest {
		t.Errorf("%+v is %+v after a kill", before, after)
	}
	same(t, "after a kill", tree, dump(t, m.Dir))
	checkClean(t, m)
	m.Amberfs("export", "latest", "--image", "oci:"+t.TempDir()+"/out")
}
