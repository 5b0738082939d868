package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"

	"github.com/amberfs/amberfs/internal/errs"
)

// An Export is an image of a base, whose layers stay as they are, and one more layer.
type Export struct {
	Blobs   Blobs         // of the base
	Base    digest.Digest // its manifest; "": there is none
	Layer   *os.File      // empty before Compress
	Created time.Time

	plain    digest.Digest // of the layer before it was compressed
	layer    ocispec.Descriptor
	manifest ocispec.Manifest
	self     ocispec.Descriptor // of the manifest
	made     map[digest.Digest][]byte
}

// Compress compresses the layer that write writes.
func (e *Export) Compress(write func(io.Writer) error) error {
	plain, sum := digest.Canonical.Digester(), digest.Canonical.Digester()
	z := gzip.NewWriter(io.MultiWriter(e.Layer, sum.Hash()))
	w := bufio.NewWriterSize(io.MultiWriter(z, plain.Hash()), 1<<20)
	if err := cmp.Or(write(w), w.Flush(), z.Close()); err != nil {
		return err
	}
	size, err := e.Layer.Seek(0, io.SeekCurrent)
	e.plain, e.layer = plain.Digest(), ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: sum.Digest(), Size: size}
	return err
}

func (e *Export) build() (err error) {
	e.made = make(map[digest.Digest][]byte)
	// Fields that are not known here stay as they are.
	config := map[string]any{"os": runtime.GOOS, "architecture": runtime.GOARCH}
	var known ocispec.Image
	m := &e.manifest
	if e.Base != "" {
		var all map[string]json.RawMessage
		if err = e.Blobs.Decode(e.Base, m); err == nil {
			err = cmp.Or(e.Blobs.Decode(m.Config.Digest, &all), e.Blobs.Decode(m.Config.Digest, &known))
		}
		if err != nil {
			return lost(err)
		}
		clear(config)
		for name, v := range all {
			config[name] = v
		}
	}
	created := e.Created.UTC()
	if len(known.History) > 0 || len(m.Layers) == 0 { // it has all layers or none
		config["history"] = append(known.History, ocispec.History{Created: &created, CreatedBy: "amberfs export"})
	}
	config["created"], config["rootfs"] = created, ocispec.RootFS{Type: "layers", DiffIDs: append(known.RootFS.DiffIDs, e.plain)}
	for i, l := range m.Layers {
		switch l.MediaType {
		case dockerLayer:
			m.Layers[i].MediaType = ocispec.MediaTypeImageLayerGzip
		case dockerPlain:
			m.Layers[i].MediaType = ocispec.MediaTypeImageLayer
		}
	}
	m.Versioned, m.MediaType, m.Annotations = specs.Versioned{SchemaVersion: 2}, ocispec.MediaTypeImageManifest, nil
	m.Layers = append(m.Layers, e.layer)
	if m.Config, err = e.make(ocispec.MediaTypeImageConfig, config); err == nil {
		e.self, err = e.make(m.MediaType, m)
	}
	return err
}

func (e *Export) make(kind string, v any) (ocispec.Descriptor, error) {
	raw, err := json.Marshal(v)
	d := content.NewDescriptorFromBytes(kind, raw)
	e.made[d.Digest] = raw
	return d, err
}

func lost(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errs.Fail(errs.NotExist, "the store has lost a part of the image: %w", err).WithHint("import the image again, into a directory of its own, to have it again")
	}
	return err
}

// A target is a place for images.
type target interface {
	content.Pusher
	Exists(context.Context, ocispec.Descriptor) (bool, error)
}

// to writes all blobs, each after those that it names.
func (e *Export) to(ctx context.Context, t target) error {
	for _, d := range append(e.manifest.Layers, e.manifest.Config, e.self) {
		if ok, err := t.Exists(ctx, d); ok || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		var r io.Reader = io.NewSectionReader(e.Layer, 0, d.Size)
		if raw, ok := e.made[d.Digest]; ok {
			r = bytes.NewReader(raw)
		} else if d.Digest != e.layer.Digest {
			kept, err := e.Blobs.Open(d.Digest)
			if err != nil {
				return lost(err)
			}
			defer kept.Close()
			r = kept
		}
		if err := t.Push(ctx, d, r); err != nil {
			return err
		}
	}
	return nil
}

// To writes the image to oci:DIR[:TAG] or HOST/NAME[:TAG], and returns the digest of its manifest.
func (e *Export) To(ctx context.Context, ref string) (digest.Digest, error) {
	if err := e.build(); err != nil {
		return "", err
	}
	at := place{ref: ref}
	var tag string
	var err error
	var t interface {
		target
		content.Tagger
	}
	if rest, ok := strings.CutPrefix(ref, "oci:"); ok {
		var dir string
		if dir, tag = splitLayout(rest); vacant(dir) {
			t, err = oci.NewWithContext(ctx, dir)
		} else {
			err = errs.Fail(errs.Exist, "%s has files and is not an OCI layout", dir).WithHint("name a new or empty directory")
		}
	} else {
		var pinned digest.Digest
		tag, pinned, err = at.registry()
		if t = at.repo; err == nil && pinned != "" {
			err = errs.Fail(errs.Invalid, "%q does not name a place for an image: give a tag and no digest", ref)
		}
	}
	if err != nil {
		return "", at.explain(ctx, "", err)
	}
	if err = e.to(ctx, t); err == nil && tag != "" {
		err = t.Tag(ctx, e.self, tag)
	}
	return e.self.Digest, at.explain(ctx, "", err)
}

// vacant reports whether a directory is an OCI layout or has no files: the library would
// overwrite an index.json there.
func vacant(dir string) bool {
	entries, _ := os.ReadDir(dir)
	_, err := os.Lstat(filepath.Join(dir, ocispec.ImageLayoutFile))
	return err == nil || len(entries) == 0
}

// ToArchive writes the image as an archive for `docker load`, which is an OCI layout too. Its
// bytes depend on the image only.
func (e *Export) ToArchive(ctx context.Context, w io.Writer) (digest.Digest, error) {
	if err := e.build(); err != nil {
		return "", err
	}
	s := saved{Config: blobName(e.manifest.Config)}
	for _, d := range e.manifest.Layers {
		s.Layers = append(s.Layers, blobName(d))
	}
	a := archiver{tar.NewWriter(w), make(map[digest.Digest]bool)}
	return e.self.Digest, cmp.Or(
		a.text(ocispec.ImageLayoutFile, ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion}),
		a.text(ocispec.ImageIndexFile, ocispec.Index{Versioned: e.manifest.Versioned, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{e.self}}),
		a.text("manifest.json", []saved{s}), e.to(ctx, a), a.Close())
}

func blobName(d ocispec.Descriptor) string {
	return path.Join(ocispec.ImageBlobsDir, d.Digest.Algorithm().String(), d.Digest.Encoded())
}

// An archiver is a target that is an archive.
type archiver struct {
	*tar.Writer
	has map[digest.Digest]bool
}

func (a archiver) put(name string, size int64, r io.Reader) error {
	if err := a.WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o644, Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0)}); err != nil {
		return err
	}
	_, err := io.Copy(a, r)
	return err
}

func (a archiver) text(name string, v any) error {
	raw, err := json.Marshal(v)
	return cmp.Or(err, a.put(name, int64(len(raw)), bytes.NewReader(raw)))
}

func (a archiver) Exists(_ context.Context, d ocispec.Descriptor) (bool, error) {
	return a.has[d.Digest], nil
}

func (a archiver) Push(_ context.Context, d ocispec.Descriptor, r io.Reader) error {
	a.has[d.Digest] = true
	v := content.NewVerifyReader(r, d)
	return cmp.Or(a.put(blobName(d), d.Size, v), v.Verify())
}
