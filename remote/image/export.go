package image

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/remote/backend"
)

// A Layer is a new one: its bytes, compressed, in a file. What is written to it becomes them.
type Layer struct {
	file       *os.File
	gz         *gzip.Writer
	plain, sum digest.Digester
}

// NewLayer begins a layer in an empty file.
func NewLayer(f *os.File) *Layer {
	l := &Layer{file: f, plain: digest.Canonical.Digester(), sum: digest.Canonical.Digester()}
	l.gz = gzip.NewWriter(io.MultiWriter(f, l.sum.Hash()))
	return l
}

func (l *Layer) Write(p []byte) (int, error) {
	l.plain.Hash().Write(p)
	return l.gz.Write(p)
}

// An Export is an image of a base, whose layers stay as they are, and one more layer.
type Export struct {
	Blobs   Blobs         // of the base
	Base    digest.Digest // its manifest; "": there is none
	Layer   *Layer
	Created time.Time

	made map[digest.Digest][]byte
	last ocispec.Descriptor // the layer's
}

// build makes the configuration and the manifest, and returns the manifest's descriptor.
func (e *Export) build(ctx context.Context) (d ocispec.Descriptor, m ocispec.Manifest, err error) {
	if err := e.Layer.gz.Close(); err != nil {
		return d, m, err
	}
	st, err := e.Layer.file.Stat()
	if err != nil {
		return d, m, err
	}
	e.made = make(map[digest.Digest][]byte)
	e.last = ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: e.Layer.sum.Digest(), Size: st.Size()}
	// Fields that are not known here stay as they are.
	config := map[string]json.RawMessage{"os": quoted(runtime.GOOS), "architecture": quoted(runtime.GOARCH)}
	var known ocispec.Image
	if e.Base != "" {
		clear(config)
		if err := e.parse(ctx, e.Base, &m); err != nil {
			return d, m, err
		}
		if err := errors.Join(e.parse(ctx, m.Config.Digest, &config), e.parse(ctx, m.Config.Digest, &known)); err != nil {
			return d, m, err
		}
	}
	created := e.Created.UTC()
	if known.History = append(known.History, ocispec.History{Created: &created, CreatedBy: "amberfs export"}); len(m.Layers) > 0 && len(known.History) == 1 {
		known.History = nil // it has all layers or none
	}
	known.RootFS = ocispec.RootFS{Type: "layers", DiffIDs: append(known.RootFS.DiffIDs, e.Layer.plain.Digest())}
	for name, v := range map[string]any{"created": created, "history": known.History, "rootfs": known.RootFS} {
		if config[name], err = json.Marshal(v); err != nil {
			return d, m, err
		}
	}
	for i := range m.Layers {
		m.Layers[i].MediaType = ofOCI(m.Layers[i].MediaType)
	}
	m.Versioned, m.MediaType, m.Annotations = specs.Versioned{SchemaVersion: 2}, ocispec.MediaTypeImageManifest, nil
	m.Layers = append(m.Layers, e.last)
	if m.Config, err = e.make(ocispec.MediaTypeImageConfig, config); err == nil {
		d, err = e.make(m.MediaType, m)
	}
	return d, m, err
}

func quoted(s string) json.RawMessage { return json.RawMessage(`"` + s + `"`) }

// ofOCI is the type of a layer as OCI names it: it says nothing else.
func ofOCI(t string) string {
	switch t {
	case dockerLayer:
		return ocispec.MediaTypeImageLayerGzip
	case dockerPlain:
		return ocispec.MediaTypeImageLayer
	}
	return t
}

func (e *Export) parse(ctx context.Context, d digest.Digest, into any) error {
	r, err := e.Blobs.Fetch(ctx, ocispec.Descriptor{Digest: d})
	if err != nil {
		return e.missing(d, err)
	}
	defer r.Close()
	return json.NewDecoder(r).Decode(into)
}

func (e *Export) missing(d digest.Digest, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fail.New(fail.NotFound, "the store has lost %s of the image", d).WithHint("import the image again, into a directory of its own, to have it again")
	}
	return err
}

func (e *Export) make(kind string, v any) (d ocispec.Descriptor, err error) {
	raw, err := json.Marshal(v)
	d = content.NewDescriptorFromBytes(kind, raw)
	e.made[d.Digest] = raw
	return d, err
}

// Fetch is a content.Fetcher.
func (e *Export) Fetch(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	if raw, ok := e.made[d.Digest]; ok {
		return io.NopCloser(bytes.NewReader(raw)), nil
	}
	if d.Digest == e.last.Digest {
		return io.NopCloser(io.NewSectionReader(e.Layer.file, 0, d.Size)), nil
	}
	r, err := e.Blobs.Fetch(ctx, d)
	return r, e.missing(d.Digest, err)
}

// Exists completes a content.ReadOnlyStorage.
func (e *Export) Exists(ctx context.Context, d ocispec.Descriptor) (bool, error) {
	r, err := e.Fetch(ctx, d)
	if err != nil {
		return false, err
	}
	return true, r.Close()
}

// To writes the image to oci:DIR[:TAG] or HOST/NAME[:TAG], and returns the digest of its manifest.
func (e *Export) To(ctx context.Context, ref string) (digest.Digest, error) {
	d, _, err := e.build(ctx)
	if err != nil {
		return "", err
	}
	var to oras.Target
	var tag string
	explain := func(err error) error { return err }
	if rest, ok := strings.CutPrefix(ref, "oci:"); ok {
		dir, name := SplitLayout(rest)
		if err := vacant(dir); err != nil {
			return "", err
		}
		tag = name
		to, err = oci.NewWithContext(ctx, dir)
	} else {
		name, asked, pinned, perr := ParseRef(ref)
		if perr != nil || pinned != "" {
			return "", fail.New(fail.Usage, "%q does not name a place for an image: give a tag and no digest", ref)
		}
		repo, rerr := backend.Repository(name)
		tag, to, err = asked, repo, rerr
		explain = func(err error) error { return backend.Explain(ctx, repo, "image "+ref, err) }
	}
	if err != nil {
		return "", fmt.Errorf("image %s: %w", ref, err)
	}
	if err = oras.CopyGraph(ctx, e, to, d, oras.CopyGraphOptions{}); err == nil && tag != "" {
		err = to.Tag(ctx, d, tag)
	}
	var copying *oras.CopyError
	if errors.As(err, &copying) {
		err = copying.Err
	}
	if err != nil {
		return "", explain(err)
	}
	return d.Digest, nil
}

// vacant refuses a directory that has files and is not an OCI layout: the library would
// overwrite an index.json there.
func vacant(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	layout := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == ocispec.ImageLayoutFile })
	if err == nil && len(entries) > 0 && !layout {
		return fail.New(fail.Exists, "%s has files and is not an OCI layout", dir).WithHint("name a new or empty directory")
	}
	return err
}

// ToArchive writes the image as an archive for `docker load`, which is an OCI layout too. Its
// bytes depend on the image only.
func (e *Export) ToArchive(ctx context.Context, w io.Writer) (digest.Digest, error) {
	d, m, err := e.build(ctx)
	if err != nil {
		return "", err
	}
	t := tar.NewWriter(w)
	put := func(name string, size int64, r io.Reader) error {
		if err := t.WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o644, Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0)}); err != nil {
			return err
		}
		_, err := io.Copy(t, r)
		return err
	}
	text := func(name string, v any) error {
		raw, err := json.Marshal(v)
		return errors.Join(err, put(name, int64(len(raw)), bytes.NewReader(raw)))
	}
	index := ocispec.Index{Versioned: m.Versioned, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{d}}
	name := func(d ocispec.Descriptor) string {
		return "blobs/" + d.Digest.Algorithm().String() + "/" + d.Digest.Encoded()
	}
	s := saved{Config: name(m.Config)}
	for _, d := range m.Layers {
		s.Layers = append(s.Layers, name(d))
	}
	err = errors.Join(text(ocispec.ImageLayoutFile, ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion}), text(ocispec.ImageIndexFile, index), text("manifest.json", []saved{s}))
	written := make(map[digest.Digest]bool)
	for _, d := range append([]ocispec.Descriptor{d, m.Config}, m.Layers...) {
		if err != nil || written[d.Digest] {
			continue
		}
		written[d.Digest] = true
		r, ferr := e.Fetch(ctx, d)
		if ferr != nil {
			return "", ferr
		}
		v := content.NewVerifyReader(r, d)
		err = errors.Join(put(name(d), d.Size, struct{ io.Reader }{v}), v.Verify(), r.Close())
	}
	return d.Digest, errors.Join(err, t.Close())
}
