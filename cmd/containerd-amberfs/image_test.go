package main

import (
	"archive/tar"
	"os"
	"path/filepath"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/ociimage"
)

// writeImage writes an image of two layers, the second of which removes a file of the first, as a
// layout with the tag 1.
func writeImage(t *testing.T, dir string) {
	t.Helper()
	busybox, err := os.ReadFile("/bin/busybox")
	must.OK(t, err)
	first := ociimage.Tar(t,
		ociimage.File{Header: tar.Header{Name: "bin", Typeflag: tar.TypeDir, Mode: 0o755}},
		ociimage.File{Header: tar.Header{Name: "bin/busybox", Mode: 0o755}, Data: busybox},
		ociimage.File{Header: tar.Header{Name: "bin/sh", Typeflag: tar.TypeSymlink, Linkname: "busybox"}},
		ociimage.File{Header: tar.Header{Name: "etc", Typeflag: tar.TypeDir, Mode: 0o755}},
		ociimage.File{Header: tar.Header{Name: "etc/one", Mode: 0o644}, Data: []byte("1\n")})
	second := ociimage.Tar(t,
		ociimage.File{Header: tar.Header{Name: "etc/.wh.one", Mode: 0o644}},
		ociimage.File{Header: tar.Header{Name: "etc/two", Mode: 0o644}, Data: []byte("2\n")})
	tag := map[string]string{ocispec.AnnotationRefName: "1"}
	for name, b := range ociimage.Layout(t, tag, ocispec.ImageConfig{Env: []string{"PATH=/bin"}}, first, second) {
		put(t, filepath.Join(dir, name), b)
	}
}

func put(t *testing.T, path string, b []byte) {
	t.Helper()
	must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.OK(t, os.WriteFile(path, b, 0o644))
}
