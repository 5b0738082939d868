package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// writeImage writes an image of two layers, the second of which removes a file of the first, as a
// layout with the tag 1.
func writeImage(t *testing.T, dir string) {
	t.Helper()
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatal(err)
	}
	first := layerOf(t,
		tar.Header{Name: "bin", Typeflag: tar.TypeDir, Mode: 0o755}, nil,
		tar.Header{Name: "bin/busybox", Mode: 0o755}, busybox,
		tar.Header{Name: "bin/sh", Typeflag: tar.TypeSymlink, Linkname: "busybox"}, nil,
		tar.Header{Name: "etc", Typeflag: tar.TypeDir, Mode: 0o755}, nil,
		tar.Header{Name: "etc/one", Mode: 0o644}, []byte("1\n"))
	second := layerOf(t,
		tar.Header{Name: "etc/.wh.one", Mode: 0o644}, []byte(nil),
		tar.Header{Name: "etc/two", Mode: 0o644}, []byte("2\n"))
	config := ocispec.Image{
		Platform: ocispec.Platform{OS: "linux", Architecture: "amd64"},
		Config:   ocispec.ImageConfig{Env: []string{"PATH=/bin"}},
		RootFS:   ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.FromBytes(first), digest.FromBytes(second)}},
	}
	blob := func(kind string, b []byte) ocispec.Descriptor {
		d := ocispec.Descriptor{MediaType: kind, Digest: digest.FromBytes(b), Size: int64(len(b))}
		put(t, filepath.Join(dir, "blobs", "sha256", d.Digest.Encoded()), b)
		return d
	}
	manifest := blob(ocispec.MediaTypeImageManifest, encoded(t, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: blob(ocispec.MediaTypeImageConfig, encoded(t, config)),
		Layers: []ocispec.Descriptor{blob(ocispec.MediaTypeImageLayer, first), blob(ocispec.MediaTypeImageLayer, second)},
	}))
	manifest.Annotations = map[string]string{ocispec.AnnotationRefName: "1"}
	put(t, filepath.Join(dir, ocispec.ImageLayoutFile), encoded(t, ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion}))
	put(t, filepath.Join(dir, ocispec.ImageIndexFile), encoded(t, ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, Manifests: []ocispec.Descriptor{manifest},
	}))
}

// layerOf makes a layer of pairs of a header and contents.
func layerOf(t *testing.T, files ...any) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for i := 0; i < len(files); i += 2 {
		h := files[i].(tar.Header)
		contents, _ := files[i+1].([]byte)
		h.Size = int64(len(contents))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(contents); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func put(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}
