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

// An Export is a new image: the layers of a base image, unchanged, and one more layer.
type Export struct {
	Blobs   Blobs         // has the blobs of the base
	Base    digest.Digest // digest of the manifest of the base; "" without a base
	Layer   *os.File      // Compress writes the new layer to this empty file
	Created time.Time

	plainDigest  digest.Digest // digest of the new layer before compression
	layerBlob    ocispec.Descriptor
	manifest     ocispec.Manifest
	manifestBlob ocispec.Descriptor       // descriptor of the new manifest
	newBlobs     map[digest.Digest][]byte // the new configuration and the new manifest
}

// Compress calls the function write, which writes the new layer to its argument. Compress compresses these bytes and
// writes them to Export.Layer.
func (e *Export) Compress(write func(io.Writer) error) error {
	plain, sum := digest.Canonical.Digester(), digest.Canonical.Digester()
	z := gzip.NewWriter(io.MultiWriter(e.Layer, sum.Hash()))
	w := bufio.NewWriterSize(io.MultiWriter(z, plain.Hash()), 1<<20)
	if err := cmp.Or(write(w), w.Flush(), z.Close()); err != nil {
		return err
	}

	size, err := e.Layer.Seek(0, io.SeekCurrent)
	e.plainDigest, e.layerBlob = plain.Digest(), ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: sum.Digest(), Size: size}

	return err
}

// build makes the configuration and the manifest of the new image.
func (e *Export) build() (err error) {
	e.newBlobs = make(map[digest.Digest][]byte)
	// The configuration is a map, so that fields of the base's configuration that ocispec.Image lacks
	// are kept.
	config := map[string]any{"os": runtime.GOOS, "architecture": runtime.GOARCH}
	var known ocispec.Image
	m := &e.manifest

	if e.Base != "" {
		var all map[string]json.RawMessage
		if err := e.Blobs.Decode(e.Base, m); err != nil {
			return explainMissingBlob(err)
		}
		if err := cmp.Or(e.Blobs.Decode(m.Config.Digest, &all), e.Blobs.Decode(m.Config.Digest, &known)); err != nil {
			return explainMissingBlob(err)
		}

		clear(config)
		for name, v := range all {
			config[name] = v
		}
	}

	created := e.Created.UTC()
	if len(known.History) > 0 || len(m.Layers) == 0 { // only a history of all layers is valid: without a history of the base, the image gets none
		config["history"] = append(known.History, ocispec.History{Created: &created, CreatedBy: "amberfs export"})
	}

	config["created"], config["rootfs"] = created, ocispec.RootFS{Type: "layers", DiffIDs: append(known.RootFS.DiffIDs, e.plainDigest)}

	for i, l := range m.Layers {
		switch l.MediaType {
		case dockerLayer:
			m.Layers[i].MediaType = ocispec.MediaTypeImageLayerGzip
		case dockerPlainLayer:
			m.Layers[i].MediaType = ocispec.MediaTypeImageLayer
		}
	}

	m.Versioned, m.MediaType, m.Annotations = specs.Versioned{SchemaVersion: 2}, ocispec.MediaTypeImageManifest, nil
	m.Layers = append(m.Layers, e.layerBlob)
	if m.Config, err = e.addJSON(ocispec.MediaTypeImageConfig, config); err != nil {
		return err
	}

	e.manifestBlob, err = e.addJSON(m.MediaType, m)
	return err
}

// addJSON encodes v as JSON, adds the JSON to newBlobs, and returns its descriptor.
func (e *Export) addJSON(mediaType string, v any) (ocispec.Descriptor, error) {
	raw, err := json.Marshal(v)
	d := content.NewDescriptorFromBytes(mediaType, raw)
	e.newBlobs[d.Digest] = raw
	return d, err
}

// explainMissingBlob adds a text and a hint for the user to err if a blob of the base is missing.
func explainMissingBlob(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errs.Fail(errs.NotExist, "the store has lost a part of the image: %w", err).WithHint("import the image again, into a directory of its own, to have it again")
	}
	return err
}

// A target is a registry, an OCI layout or an archive that an image is written to.
type target interface {
	content.Pusher
	Exists(context.Context, ocispec.Descriptor) (bool, error)
}

// pushBlobs writes the blobs that the target lacks: the layers, the configuration, and the manifest last,
// because it names the others.
func (e *Export) pushBlobs(ctx context.Context, t target) error {
	for _, d := range append(e.manifest.Layers, e.manifest.Config, e.manifestBlob) {
		if ok, err := t.Exists(ctx, d); ok || err != nil {
			if err != nil {
				return err
			}
			continue
		}

		var r io.Reader = io.NewSectionReader(e.Layer, 0, d.Size)

		if raw, ok := e.newBlobs[d.Digest]; ok {
			r = bytes.NewReader(raw)
		} else if d.Digest != e.layerBlob.Digest {
			blob, err := e.Blobs.Open(d.Digest)
			if err != nil {
				return explainMissingBlob(err)
			}
			defer blob.Close()

			r = blob
		}

		if err := t.Push(ctx, d, r); err != nil {
			return err
		}
	}
	return nil
}

// WriteImage writes the image to oci:DIR[:TAG] or HOST/NAME[:TAG], and returns the digest of its manifest.
func (e *Export) WriteImage(ctx context.Context, ref string) (digest.Digest, error) {
	if err := e.build(); err != nil {
		return "", err
	}

	loc := location{ref: ref}
	var tag string
	var err error
	var t interface {
		target
		content.Tagger
	}

	if rest, ok := strings.CutPrefix(ref, "oci:"); ok {
		var dir string
		if dir, tag = splitLayout(rest); isLayoutOrEmpty(dir) {
			t, err = oci.NewWithContext(ctx, dir)
		} else {
			err = errs.Fail(errs.Exist, "%s has files and is not an OCI layout", dir).WithHint("name a new or empty directory")
		}
	} else {
		var pinned digest.Digest
		tag, pinned, err = loc.openRepository()
		if t = loc.repo; err == nil && pinned != "" {
			err = errs.Fail(errs.Invalid, "%q does not name a place for an image: give a tag and no digest", ref)
		}
	}
	if err != nil {
		return "", loc.explain(ctx, "", err)
	}

	if err := e.pushBlobs(ctx, t); err != nil || tag == "" {
		return e.manifestBlob.Digest, loc.explain(ctx, "", err)
	}

	return e.manifestBlob.Digest, loc.explain(ctx, "", t.Tag(ctx, e.manifestBlob, tag))
}

// isLayoutOrEmpty reports whether a directory is an OCI layout or has no files. In any other directory the
// library could overwrite a file index.json.
func isLayoutOrEmpty(dir string) bool {
	entries, _ := os.ReadDir(dir)
	_, err := os.Lstat(filepath.Join(dir, ocispec.ImageLayoutFile))
	return err == nil || len(entries) == 0
}

// WriteArchive writes the image as an archive for `docker load`, which is also an OCI layout, and returns the
// digest of its manifest. Equal images have equal archives.
func (e *Export) WriteArchive(ctx context.Context, w io.Writer) (digest.Digest, error) {
	if err := e.build(); err != nil {
		return "", err
	}

	s := savedImage{Config: blobPath(e.manifest.Config)}
	for _, d := range e.manifest.Layers {
		s.Layers = append(s.Layers, blobPath(d))
	}

	a := archiver{tar.NewWriter(w), make(map[digest.Digest]bool)}
	return e.manifestBlob.Digest, cmp.Or(
		a.writeJSON(ocispec.ImageLayoutFile, ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion}),
		a.writeJSON(ocispec.ImageIndexFile, ocispec.Index{Versioned: e.manifest.Versioned, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{e.manifestBlob}}),
		a.writeJSON("manifest.json", []savedImage{s}), e.pushBlobs(ctx, a), a.Close())
}

// blobPath returns the path of a blob in an OCI layout.
func blobPath(d ocispec.Descriptor) string {
	return path.Join(ocispec.ImageBlobsDir, d.Digest.Algorithm().String(), d.Digest.Encoded())
}

// An archiver is a target that writes a tar archive.
type archiver struct {
	*tar.Writer
	writtenBlobs map[digest.Digest]bool
}

// writeFile writes a file of the archive.
func (a archiver) writeFile(name string, size int64, r io.Reader) error {
	if err := a.WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o644, Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0)}); err != nil {
		return err
	}
	_, err := io.Copy(a, r)
	return err
}

// writeJSON writes v as a file of the archive.
func (a archiver) writeJSON(name string, v any) error {
	raw, err := json.Marshal(v)
	return cmp.Or(err, a.writeFile(name, int64(len(raw)), bytes.NewReader(raw)))
}

func (a archiver) Exists(_ context.Context, d ocispec.Descriptor) (bool, error) {
	return a.writtenBlobs[d.Digest], nil
}

func (a archiver) Push(_ context.Context, d ocispec.Descriptor, r io.Reader) error {
	a.writtenBlobs[d.Digest] = true
	v := content.NewVerifyReader(r, d)
	return cmp.Or(a.writeFile(blobPath(d), d.Size, v), v.Verify())
}
