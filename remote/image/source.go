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

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/errdef"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/remote/backend"
)

// ErrDigest: a blob is not the one that was asked for.
var ErrDigest = errors.New("it does not have this digest, so it was damaged or replaced")

// Types of docker that OCI has too.
const (
	dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	dockerIndex    = "application/vnd.docker.distribution.manifest.list.v2+json"
	dockerConfig   = "application/vnd.docker.container.image.v1+json"
	dockerLayer    = "application/vnd.docker.image.rootfs.diff.tar.gzip"
	dockerPlain    = "application/vnd.docker.image.rootfs.diff.tar"
)

// MaxText is the size in bytes of a manifest, an index or a configuration.
const MaxText = 4 << 20

// An Image is one that was found, for one platform.
type Image struct {
	Ref      string
	Digest   digest.Digest // of the manifest
	Platform ocispec.Platform
	ocispec.Manifest

	manifest, config []byte
	from             content.Fetcher
	explain          func(error) error
}

// Options say which image of a reference is wanted. MaxBytes bounds what is read of an
// archive that is compressed.
type Options struct {
	Platform string // OS/ARCH[/VARIANT], "" for that of this machine
	MaxBytes int64
}

// Open finds an image: oci:DIR[:TAG], docker-archive:FILE, or HOST/NAME[:TAG][@DIGEST].
func Open(ctx context.Context, ref string, o Options) (*Image, error) {
	im := &Image{Ref: ref, explain: func(err error) error { return fmt.Errorf("image %s: %w", ref, err) }}
	var err error
	if im.Platform, err = parsePlatform(o.Platform); err != nil {
		return nil, err
	}
	kind, rest, _ := strings.Cut(ref, ":")
	var all []ocispec.Descriptor
	var pinned digest.Digest
	switch kind {
	case "oci":
		all, err = im.layout(rest)
	case "docker-archive":
		all, err = im.archive(ctx, rest, o.MaxBytes)
	default:
		all, pinned, err = im.registry(ctx, ref)
	}
	if err != nil {
		return nil, err
	}
	return im, im.choose(ctx, all, pinned)
}

func parsePlatform(text string) (p ocispec.Platform, err error) {
	if text == "" {
		return ocispec.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH}, nil
	}
	parts := append(strings.Split(text, "/"), "")
	if len(parts) < 3 || len(parts) > 4 || slices.Contains(parts[:len(parts)-1], "") {
		return p, fail.New(fail.Usage, "a platform is OS/ARCH or OS/ARCH/VARIANT, such as linux/arm64, not %q", text)
	}
	return ocispec.Platform{OS: parts[0], Architecture: parts[1], Variant: parts[2]}, nil
}

// PlatformName is the reverse.
func PlatformName(p ocispec.Platform) string {
	return strings.Trim(p.OS+"/"+p.Architecture+"/"+p.Variant, "/")
}

// SplitLayout splits DIR[:TAG].
func SplitLayout(rest string) (dir, tag string) {
	if i := strings.LastIndexByte(rest, ':'); i > 0 && !strings.Contains(rest[i:], "/") {
		return rest[:i], rest[i+1:]
	}
	return rest, ""
}

func (im *Image) layout(rest string) (found []ocispec.Descriptor, err error) {
	dir, tag := SplitLayout(rest)
	disk := os.DirFS(dir)
	raw, err := fs.ReadFile(disk, ocispec.ImageIndexFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fail.New(fail.NotFound, "no image %s: %s is not a directory with an OCI layout", im.Ref, dir)
	}
	var index ocispec.Index
	if err == nil {
		err = json.Unmarshal(raw, &index)
	}
	if err != nil {
		return nil, im.explain(err)
	}
	var tags []string
	for _, d := range index.Manifests {
		name := d.Annotations[ocispec.AnnotationRefName]
		if tag == "" || name == tag || d.Digest.String() == tag {
			found = append(found, d)
		}
		if name != "" && !slices.Contains(tags, name) {
			tags = append(tags, name)
		}
	}
	switch {
	case len(found) == 0:
		return nil, fail.New(fail.NotFound, "no image %s: %s has %s", im.Ref, dir, list(tags, "no tags"))
	case tag == "" && len(tags) > 1:
		return nil, fail.New(fail.Usage, "%s has several images: name one as oci:%s:TAG, of %s", dir, dir, list(tags, ""))
	}
	im.from = oci.NewStorageFromFS(disk)
	return found, nil
}

func list(of []string, none string) string {
	if len(of) == 0 {
		return none
	}
	return strings.Join(of[:min(len(of), 20)], ", ")
}

// ParseRef splits HOST/NAME[:TAG][@DIGEST]. A name without a host is one of docker.io, as docker has it.
func ParseRef(ref string) (name, tag string, d digest.Digest, err error) {
	name, pinned, _ := strings.Cut(ref, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name, tag = name[:i], name[i+1:]
	}
	host, rest, ok := strings.Cut(name, "/")
	if !ok || !strings.ContainsAny(host, ".:") && host != "localhost" {
		host, rest = "docker.io", name
	}
	if host == "docker.io" && !strings.Contains(rest, "/") {
		rest = "library/" + rest
	}
	if d = digest.Digest(pinned); pinned != "" {
		err = d.Validate()
	}
	if tag == "" && pinned == "" {
		tag = "latest"
	}
	return host + "/" + rest, tag, d, err
}

func (im *Image) registry(ctx context.Context, ref string) (found []ocispec.Descriptor, pinned digest.Digest, err error) {
	name, tag, pinned, err := ParseRef(ref)
	if err != nil {
		return nil, "", fail.New(fail.Usage, "%q does not name an image: %w", ref, err)
	}
	repo, err := backend.Repository(name)
	if errors.Is(err, errdef.ErrInvalidReference) {
		return nil, "", fail.New(fail.Usage, "%q does not name an image, such as HOST/NAME:TAG, oci:DIR:TAG or docker-archive:FILE", ref)
	}
	if err != nil {
		return nil, "", err
	}
	im.from = repo
	im.explain = func(err error) error { return backend.Explain(ctx, repo, "image "+ref, err) }
	want := tag
	if want == "" {
		want = pinned.String()
	}
	d, err := repo.Resolve(ctx, want)
	if errors.Is(err, errdef.ErrNotFound) {
		return nil, "", fail.New(fail.NotFound, "no image %s in %s", ref, repo.Reference.Host()).WithHint("check the name and the tag")
	}
	if err != nil {
		return nil, "", im.explain(err)
	}
	return []ocispec.Descriptor{d}, pinned, nil
}

// choose finds the manifest for the platform, and reads it and the configuration. A digest that the
// user gave has to be on the way.
func (im *Image) choose(ctx context.Context, all []ocispec.Descriptor, pinned digest.Digest) (err error) {
	const maxNested = 4
	first, met := all[0].Digest, pinned == ""
	for range maxNested {
		d, err := im.pick(all)
		if err != nil {
			return err
		}
		met = met || d.Digest == pinned
		raw, err := im.read(ctx, d)
		if err != nil {
			return err
		}
		if d.MediaType == ocispec.MediaTypeImageIndex || d.MediaType == dockerIndex {
			var index ocispec.Index
			if err := json.Unmarshal(raw, &index); err != nil {
				return im.explain(err)
			}
			all = index.Manifests
			continue
		}
		if !met {
			return fail.New(fail.Conflict, "image %s: the tag moved: it names %s now", im.Ref, first).
				WithHint("leave the tag out to import what has the digest, or the digest to import what has the tag")
		}
		im.manifest, im.Digest = raw, d.Digest
		if err := json.Unmarshal(raw, &im.Manifest); err != nil {
			return im.explain(err)
		}
		return im.check(ctx, d.MediaType)
	}
	return im.explain(errors.New("its indexes are nested too deep"))
}

func (im *Image) pick(all []ocispec.Descriptor) (d ocispec.Descriptor, err error) {
	if len(all) == 1 && all[0].Platform == nil {
		return all[0], nil
	}
	var others []string
	for _, d := range all {
		if p := d.Platform; p != nil {
			if p.OS == im.Platform.OS && p.Architecture == im.Platform.Architecture && (im.Platform.Variant == "" || im.Platform.Variant == p.Variant) {
				return d, nil
			}
			others = append(others, PlatformName(*p))
		}
	}
	return d, im.noPlatform(list(others, "images without a platform"))
}

func (im *Image) noPlatform(has string) error {
	return fail.New(fail.NotFound, "image %s is not for %s: it has %s", im.Ref, PlatformName(im.Platform), has).
		WithHint("choose one with --platform")
}

// check reads the configuration of what should be an image.
func (im *Image) check(ctx context.Context, kind string) (err error) {
	if kind != ocispec.MediaTypeImageManifest && kind != dockerManifest ||
		im.Manifest.Config.MediaType != ocispec.MediaTypeImageConfig && im.Manifest.Config.MediaType != dockerConfig {
		return fail.New(fail.Usage, "%s is not a container image, but of the type %s", im.Ref, strings.TrimSpace(kind+" "+im.Manifest.Config.MediaType))
	}
	if im.config, err = im.read(ctx, im.Manifest.Config); err != nil {
		return err
	}
	var config ocispec.Image
	if err := json.Unmarshal(im.config, &config); err != nil {
		return im.explain(err)
	}
	p := config.Platform
	if p.OS != "" && p.OS != im.Platform.OS || p.Architecture != "" && p.Architecture != im.Platform.Architecture ||
		p.Variant != "" && im.Platform.Variant != "" && p.Variant != im.Platform.Variant {
		return im.noPlatform(PlatformName(p))
	}
	im.Platform = p
	return nil
}

// read returns a small blob.
func (im *Image) read(ctx context.Context, d ocispec.Descriptor) ([]byte, error) {
	if d.Size > MaxText {
		return nil, im.explain(fmt.Errorf("its %s has %d bytes, more than the %d allowed", d.MediaType, d.Size, MaxText))
	}
	raw, err := content.FetchAll(ctx, im.from, d)
	return raw, im.explained(d, err)
}

func (im *Image) explained(d ocispec.Descriptor, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errdef.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return fail.New(fail.NotFound, "image %s: %s is missing there", im.Ref, d.Digest).WithHint("the image is incomplete: push or copy it again")
	case errors.Is(err, content.ErrMismatchedDigest), errors.Is(err, content.ErrTrailingData), errors.Is(err, io.ErrUnexpectedEOF):
		return fail.New(fail.Failed, "image %s: %s: %w", im.Ref, d.Digest, ErrDigest)
	}
	return im.explain(err)
}

// Size is how many bytes Send sends.
func (im *Image) Size() (n int64) {
	for _, d := range im.Layers {
		n += d.Size
	}
	return n
}

// Send writes a tar archive of the manifest, the configuration and the layers in their
// order, each named by its digest. moved is told of bytes of layers.
func (im *Image) Send(ctx context.Context, w io.Writer, moved io.Writer) error {
	t := tar.NewWriter(w)
	text := func(d digest.Digest, b []byte) error {
		return errors.Join(t.WriteHeader(&tar.Header{Name: d.String(), Size: int64(len(b))}), func() error { _, err := io.Copy(t, bytes.NewReader(b)); return err }())
	}
	if err := errors.Join(text(im.Digest, im.manifest), text(im.Manifest.Config.Digest, im.config)); err != nil {
		return err
	}
	for _, d := range im.Layers {
		if err := t.WriteHeader(&tar.Header{Name: d.Digest.String(), Size: d.Size}); err != nil {
			return err
		}
		if err := im.layer(ctx, io.MultiWriter(t, moved), d); err != nil {
			return err
		}
	}
	return t.Close()
}

// layer sends one. What the receiver says is its own.
func (im *Image) layer(ctx context.Context, w io.Writer, d ocispec.Descriptor) error {
	r, err := im.from.Fetch(ctx, d)
	if err != nil {
		return im.explained(d, err)
	}
	defer r.Close()
	v := content.NewVerifyReader(r, d)
	if _, err := io.CopyBuffer(w, struct{ io.Reader }{v}, make([]byte, 256<<10)); err != nil {
		return im.explained(d, err)
	}
	return im.explained(d, v.Verify())
}
