// Package ociimage makes container images for tests.
//
// Imported by: tests.
package ociimage

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"maps"
	"runtime"
	"slices"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/amberfs/amberfs/tests/must"
)

// A File is an entry of an archive. Its size is that of the data.
type File struct {
	tar.Header
	Data []byte
}

// Tar makes an archive.
func Tar(t testing.TB, files ...File) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		f.Size = int64(len(f.Data))
		must.OK(t, w.WriteHeader(&f.Header))
		_, err := w.Write(f.Data)
		must.OK(t, err)
	}
	must.OK(t, w.Close())
	return out.Bytes()
}

// Layout makes the files of a layout with one image, whose descriptor has the annotations.
func Layout(t testing.TB, annotations map[string]string, config ocispec.ImageConfig, layers ...[]byte) map[string][]byte {
	t.Helper()
	encoded := func(v any) []byte {
		b, err := json.Marshal(v)
		must.OK(t, err)
		return b
	}
	files := map[string][]byte{ocispec.ImageLayoutFile: encoded(ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion})}
	blob := func(kind string, b []byte) ocispec.Descriptor {
		d := ocispec.Descriptor{MediaType: kind, Digest: digest.FromBytes(b), Size: int64(len(b))}
		files["blobs/sha256/"+d.Digest.Encoded()] = b
		return d
	}
	image := ocispec.Image{
		Platform: ocispec.Platform{OS: "linux", Architecture: runtime.GOARCH}, Config: config, RootFS: ocispec.RootFS{Type: "layers"},
	}
	manifest := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest}
	for _, layer := range layers {
		image.RootFS.DiffIDs = append(image.RootFS.DiffIDs, digest.FromBytes(layer))
		manifest.Layers = append(manifest.Layers, blob(ocispec.MediaTypeImageLayer, layer))
	}
	manifest.Config = blob(ocispec.MediaTypeImageConfig, encoded(image))
	named := blob(ocispec.MediaTypeImageManifest, encoded(manifest))
	named.Annotations = annotations
	files[ocispec.ImageIndexFile] = encoded(ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, Manifests: []ocispec.Descriptor{named}})
	return files
}

// Archive makes an archive of the files of a layout.
func Archive(t testing.TB, layout map[string][]byte) []byte {
	t.Helper()
	var files []File
	for _, name := range slices.Sorted(maps.Keys(layout)) {
		files = append(files, File{tar.Header{Name: name, Mode: 0o644}, layout[name]})
	}
	return Tar(t, files...)
}
