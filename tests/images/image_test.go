// Package images_test imports container images that it builds, exports them, and compares.
package images_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// A file is an entry of a layer.
type file struct {
	name string
	kind byte
	mode int64
	data string // contents, or the target of a link
	own  int
	attr map[string]string
	dev  [2]int64
}

func dir(name string) file { return file{name: name, kind: tar.TypeDir, mode: 0o755} }
func text(name, data string) file {
	return file{name: name, kind: tar.TypeReg, mode: 0o644, data: data}
}
func link(name, to string) file {
	return file{name: name, kind: tar.TypeSymlink, mode: 0o777, data: to}
}
func hard(name, to string) file { return file{name: name, kind: tar.TypeLink, mode: 0o644, data: to} }
func gone(name string) file {
	return text(filepath.Join(filepath.Dir(name), ".wh."+filepath.Base(name)), "")
}
func opaque(name string) file          { return text(name+"/.wh..wh..opq", "") }
func (f file) with(mode int64) file    { f.mode = mode; return f }
func (f file) of(id int) file          { f.own = id; return f }
func (f file) attrs(kv ...string) file { f.attr = map[string]string{kv[0]: kv[1]}; return f }

var stamp = time.Unix(1_600_000_000, 123_000_000)

func archive(t testing.TB, files ...file) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{
			Name: f.name, Typeflag: f.kind, Mode: f.mode, Uid: f.own, Gid: f.own, ModTime: stamp, Format: tar.FormatPAX,
			Devmajor: f.dev[0], Devminor: f.dev[1], PAXRecords: map[string]string{},
		}
		for k, v := range f.attr {
			h.PAXRecords["SCHILY.xattr."+k] = v
		}
		if f.kind == tar.TypeReg {
			h.Size = int64(len(f.data))
		} else {
			h.Linkname = f.data
		}
		must.OK(t, w.WriteHeader(h))
		if f.kind == tar.TypeReg {
			_, err := w.Write([]byte(f.data))
			must.OK(t, err)
		}
	}
	must.OK(t, w.Close())
	return b.Bytes()
}

func sum(b []byte) string { h := sha256.Sum256(b); return hex.EncodeToString(h[:]) }

// A layout is an OCI layout that is being built.
type layout struct {
	t       testing.TB
	dir     string
	entries []any
	plain   bool // no layer is compressed by zstd, which old programs cannot read
}

func newLayout(t testing.TB) *layout {
	t.Helper()
	l := &layout{t: t, dir: t.TempDir()}
	must.OK(t, os.MkdirAll(filepath.Join(l.dir, "blobs", "sha256"), 0o755))
	l.write("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	return l
}

func (l *layout) write(name string, b []byte) {
	l.t.Helper()
	must.OK(l.t, os.WriteFile(filepath.Join(l.dir, name), b, 0o644))
}

type object = map[string]any

func (l *layout) blob(kind string, b []byte) object {
	l.t.Helper()
	l.write("blobs/sha256/"+sum(b), b)
	return object{"mediaType": kind, "digest": "sha256:" + sum(b), "size": len(b)}
}

func (l *layout) json(kind string, v any) object {
	l.t.Helper()
	b, err := json.Marshal(v)
	must.OK(l.t, err)
	return l.blob(kind, b)
}

const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	indexType    = "application/vnd.oci.image.index.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar"
)

// image adds one of some layers, the first plain, the second by gzip and the third by zstd.
func (l *layout) image(arch string, layers ...[]byte) object {
	l.t.Helper()
	var descs, diffs []any
	for i, b := range layers {
		diffs = append(diffs, "sha256:"+sum(b))
		kind := layerType
		var z bytes.Buffer
		switch {
		case i == 1, i > 1 && l.plain:
			w := gzip.NewWriter(&z)
			_, _ = w.Write(b)
			_ = w.Close()
			b, kind = z.Bytes(), layerType+"+gzip"
		case i == 2:
			w, _ := zstd.NewWriter(&z)
			_, _ = w.Write(b)
			_ = w.Close()
			b, kind = z.Bytes(), layerType+"+zstd"
		}
		descs = append(descs, l.blob(kind, b))
	}
	config := l.json(configType, object{
		"architecture": arch, "os": "linux", "x-unknown": 1,
		"config": object{"Entrypoint": []string{"/bin/sh"}, "Cmd": []string{"-c", "true"}, "Env": []string{"A=b"}, "User": "1:2", "WorkingDir": "/srv"},
		"rootfs": object{"type": "layers", "diff_ids": diffs},
	})
	return l.json(manifestType, object{"schemaVersion": 2, "mediaType": manifestType, "config": config, "layers": descs})
}

// tag names an image, and returns the reference.
func (l *layout) tag(name string, d object) string {
	l.t.Helper()
	d = maps.Clone(d)
	d["annotations"] = object{"org.opencontainers.image.ref.name": name}
	l.entries = append(l.entries, d)
	b, err := json.Marshal(object{"schemaVersion": 2, "manifests": l.entries})
	must.OK(l.t, err)
	l.write("index.json", b)
	return "oci:" + l.dir + ":" + name
}

// dump describes a tree, one line a path. Owners and times of what no layer has are left out.
func dump(t testing.TB, root string) (lines []string) {
	t.Helper()
	first := map[uint64]string{}
	err := filepath.WalkDir(root, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		line := fmt.Sprintf("%s %o %d:%d", rel, st.Mode, st.Uid, st.Gid)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %d %.8s nlink=%d", len(b), sum(b), st.Nlink)
		case unix.S_IFLNK:
			to, _ := os.Readlink(p)
			line += " -> " + to
		case unix.S_IFCHR, unix.S_IFBLK:
			line += fmt.Sprintf(" rdev=%d", st.Rdev)
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR && st.Nlink > 1 {
			if _, ok := first[st.Ino]; !ok {
				first[st.Ino] = rel
			}
			line += " is " + first[st.Ino]
		}
		if st.Mtim.Sec == stamp.Unix() && rel != "." { // a directory that no layer has is of now
			line += fmt.Sprintf(" %d.%d", st.Mtim.Sec, st.Mtim.Nsec)
		}
		names := make([]byte, 4096)
		n, _ := unix.Llistxattr(p, names)
		list := strings.Split(strings.Trim(string(names[:max(n, 0)]), "\x00"), "\x00")
		slices.Sort(list)
		for _, name := range list {
			value := make([]byte, 4096)
			if n, err := unix.Lgetxattr(p, name, value); err == nil && name != "" {
				line += fmt.Sprintf(" %s=%x", name, value[:n])
			}
		}
		lines = append(lines, line)
		return nil
	})
	must.OK(t, err)
	return lines
}

func same(t testing.TB, what string, want, got []string) {
	t.Helper()
	has := map[string]bool{}
	for _, line := range want {
		has[line] = true
	}
	for _, line := range got {
		if !has[line] {
			t.Errorf("%s: too much: %s", what, line)
		}
		delete(has, line)
	}
	for line := range has {
		t.Errorf("%s: missing: %s", what, line)
	}
}
