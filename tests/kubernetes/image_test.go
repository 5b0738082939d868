package kubernetes

import (
	"archive/tar"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/ociimage"
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
	layer := ociimage.Tar(t, ociimage.File{Header: tar.Header{Name: command[0][1:], Mode: 0o755}, Data: text})
	config := ocispec.ImageConfig{Env: []string{"PATH=/usr/bin"}, Entrypoint: command}
	image := ociimage.Layout(t, map[string]string{"io.containerd.image.name": name}, config, layer)
	must.OK(t, os.WriteFile(file, ociimage.Archive(t, image), 0o644))
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
	_, err = io.Copy(out, in)
	must.OK(t, err)
}
