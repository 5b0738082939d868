package kubernetes

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// The releases of the sidecars that the manifests name.
const (
	provisioner = "registry.k8s.io/sig-storage/csi-provisioner:v6.4.0"
	snapshotter = "registry.k8s.io/sig-storage/csi-snapshotter:v8.7.0"
)

// writeImages writes archives of images with one program each.
func writeImages(t *testing.T, dir, programs string) {
	t.Helper()
	must.OK(t, os.MkdirAll(dir, 0o755))
	for _, i := range []struct {
		name, program string
		command       []string
	}{
		{"registry.k8s.io/pause:3.10.2", "/bin/busybox", []string{"/usr/bin/busybox", "sleep", "1000000"}},
		{"docker.io/library/box:test", "/bin/busybox", []string{"/usr/bin/busybox"}},
		{"docker.io/library/amberfs:test", harness.Binary(t), []string{"/usr/bin/amberfs"}},
		{"docker.io/library/amberfs-csi:test", filepath.Join(programs, "amberfs-csi"), []string{"/usr/bin/amberfs-csi"}},
		{provisioner, filepath.Join(programs, "csi-provisioner"), []string{"/usr/bin/csi-provisioner"}},
		{snapshotter, filepath.Join(programs, "csi-snapshotter"), []string{"/usr/bin/csi-snapshotter"}},
	} {
		writeImage(t, filepath.Join(dir, filepath.Base(i.command[0])+digest.FromString(i.name).Encoded()[:8]+".tar"), i.name, i.program, i.command)
	}
}

// writeImage writes an image as an OCI archive. Its one program has the name of the first word of command.
func writeImage(t *testing.T, file, name, program string, command []string) {
	t.Helper()
	text, err := os.ReadFile(program)
	must.OK(t, err)
	layer := archive(t, map[string][]byte{command[0][1:]: text})
	files := map[string][]byte{ocispec.ImageLayoutFile: encoded(t, ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion})}
	blob := func(kind string, b []byte) ocispec.Descriptor {
		d := ocispec.Descriptor{MediaType: kind, Digest: digest.FromBytes(b), Size: int64(len(b))}
		files["blobs/sha256/"+d.Digest.Encoded()] = b
		return d
	}
	config := ocispec.Image{
		Platform: ocispec.Platform{OS: "linux", Architecture: runtime.GOARCH},
		Config:   ocispec.ImageConfig{Env: []string{"PATH=/usr/bin"}, Entrypoint: command},
		RootFS:   ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.FromBytes(layer)}},
	}
	manifest := blob(ocispec.MediaTypeImageManifest, encoded(t, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: blob(ocispec.MediaTypeImageConfig, encoded(t, config)),
		Layers: []ocispec.Descriptor{blob(ocispec.MediaTypeImageLayer, layer)},
	}))
	manifest.Annotations = map[string]string{"io.containerd.image.name": name}
	files[ocispec.ImageIndexFile] = encoded(t, ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, Manifests: []ocispec.Descriptor{manifest}})
	must.OK(t, os.WriteFile(file, archive(t, files), 0o644))
}

func archive(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, text := range files {
		must.OK(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))}))
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	must.OK(t, w.Close())
	return out.Bytes()
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	must.OK(t, err)
	return b
}

func copied(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	must.OK(t, err)
	defer in.Close()
	must.OK(t, os.MkdirAll(filepath.Dir(to), 0o755))
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	must.OK(t, err)
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
}
