package image

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/amberfs/amberfs/internal/errs"
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

// decode reads JSON of at most MaxText bytes.
func decode(r io.Reader, into any) error {
	return json.NewDecoder(io.LimitReader(r, MaxText)).Decode(into)
}

// An Image is one that was found, for one platform.
type Image struct {
	Digest digest.Digest // of the manifest
	ocispec.Manifest

	at               place
	want             ocispec.Platform
	manifest, config []byte
	from             content.Fetcher
}

// A place is where an image is read or written.
type place struct {
	ref  string
	repo *remote.Repository // nil for files
}

// explain puts an error into words: one of the blob d, or of the whole image without it.
func (p place) explain(ctx context.Context, d digest.Digest, err error) error {
	var explained *errs.Error
	switch {
	case err == nil || errors.As(err, &explained):
		return err
	case d != "" && (errors.Is(err, errdef.ErrNotFound) || errors.Is(err, fs.ErrNotExist)):
		return errs.Fail(errs.NotExist, "image %s: %s is missing there", p.ref, d).WithHint("the image is incomplete: push or copy it again")
	case d != "" && (errors.Is(err, content.ErrMismatchedDigest) || errors.Is(err, content.ErrTrailingData) || errors.Is(err, io.ErrUnexpectedEOF)):
		return errs.Fail(errs.Failed, "image %s: %s: %w", p.ref, d, ErrDigest)
	case p.repo != nil:
		err = backend.Explain(ctx, p.repo, "image "+p.ref, err)
		return errs.Fail(errs.ScriptKind(err), "%w", err)
	}
	return errs.Fail(errs.ScriptKind(err), "image %s: %w", p.ref, err)
}

// Open finds an image: oci:DIR[:TAG], docker-archive:FILE, or HOST/NAME[:TAG][@DIGEST]. The
// platform is OS/ARCH[/VARIANT], "" for that of this machine.
func Open(ctx context.Context, ref, platform string) (*Image, error) {
	im := &Image{at: place{ref: ref}, want: ocispec.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH}}
	if platform != "" {
		system, rest, _ := strings.Cut(platform, "/")
		arch, variant, _ := strings.Cut(rest, "/")
		if im.want = (ocispec.Platform{OS: system, Architecture: arch, Variant: variant}); system == "" || arch == "" || strings.Contains(variant, "/") {
			return nil, errs.Fail(errs.Invalid, "a platform is OS/ARCH or OS/ARCH/VARIANT, such as linux/arm64, not %q", platform)
		}
	}
	var all []ocispec.Descriptor
	var pinned digest.Digest
	var err error
	switch kind, rest, _ := strings.Cut(ref, ":"); kind {
	case "oci":
		all, err = im.layout(rest)
	case "docker-archive":
		all, err = im.archive(rest)
	default:
		all, pinned, err = im.registry(ctx)
	}
	if err == nil {
		err = im.choose(ctx, all, pinned)
	}
	return im, im.at.explain(ctx, "", err)
}

func PlatformName(p ocispec.Platform) string { return path.Join(p.OS, p.Architecture, p.Variant) }

func splitLayout(rest string) (dir, tag string) {
	if i := strings.LastIndexByte(rest, ':'); i > 0 && !strings.Contains(rest[i:], "/") {
		return rest[:i], rest[i+1:]
	}
	return rest, ""
}

func (im *Image) layout(rest string) (found []ocispec.Descriptor, err error) {
	dir, tag := splitLayout(rest)
	f, err := os.Open(filepath.Join(dir, ocispec.ImageIndexFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errs.Fail(errs.NotExist, "no image %s: %s is not a directory with an OCI layout", im.at.ref, dir)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var index ocispec.Index
	if err := decode(f, &index); err != nil {
		return nil, fmt.Errorf("reading %s: %w", ocispec.ImageIndexFile, err)
	}
	tags := make(map[string]bool)
	var names []string
	for _, d := range index.Manifests {
		name := d.Annotations[ocispec.AnnotationRefName]
		if tag == "" || name == tag || d.Digest.String() == tag {
			found = append(found, d)
		}
		if name != "" && !tags[name] {
			tags[name], names = true, append(names, name)
		}
	}
	switch {
	case len(found) == 0:
		return nil, errs.Fail(errs.NotExist, "no image %s: %s has %s", im.at.ref, dir, some(names, "no tags"))
	case tag == "" && len(names) > 1:
		return nil, errs.Fail(errs.Invalid, "%s has several images: name one as oci:%s:TAG, of %s", dir, dir, some(names, ""))
	}
	im.from = oci.NewStorageFromFS(os.DirFS(dir))
	return found, nil
}

func some(names []string, none string) string {
	return cmp.Or(strings.Join(names[:min(len(names), 20)], ", "), none)
}

// parseRef splits HOST/NAME[:TAG][@DIGEST]. A name without a host is one of docker.io, as docker has it.
func parseRef(ref string) (name, tag string, d digest.Digest, err error) {
	name, pinned, isPinned := strings.Cut(ref, "@")
	if d = digest.Digest(pinned); !isPinned {
		tag = "latest"
	} else if d.Validate() != nil {
		err = errdef.ErrInvalidReference
	}
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
	return host + "/" + rest, tag, d, err
}

// registry finds the repository that a reference names.
func (p *place) registry() (tag string, pinned digest.Digest, err error) {
	name, tag, pinned, err := parseRef(p.ref)
	if err == nil {
		p.repo, err = backend.Repository(name)
	}
	if errors.Is(err, errdef.ErrInvalidReference) {
		err = errs.Fail(errs.Invalid, "%q does not name an image, such as HOST/NAME:TAG, oci:DIR:TAG or docker-archive:FILE", p.ref)
	}
	return tag, pinned, err
}

func (im *Image) registry(ctx context.Context) (found []ocispec.Descriptor, pinned digest.Digest, err error) {
	tag, pinned, err := im.at.registry()
	if err != nil {
		return nil, "", err
	}
	im.from = im.at.repo
	d, err := im.at.repo.Resolve(ctx, cmp.Or(tag, pinned.String()))
	if errors.Is(err, errdef.ErrNotFound) {
		err = errs.Fail(errs.NotExist, "no image %s in %s", im.at.ref, im.at.repo.Reference.Host()).WithHint("check the name and the tag")
	}
	return []ocispec.Descriptor{d}, pinned, err
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
		if im.manifest, err = im.read(ctx, d); err != nil {
			return err
		}
		if d.MediaType != ocispec.MediaTypeImageIndex && d.MediaType != dockerIndex {
			if !met {
				return errs.Fail(errs.Conflict, "image %s: the tag moved: it names %s now", im.at.ref, first).
					WithHint("leave the tag out to import what has the digest, or the digest to import what has the tag")
			}
			im.Digest = d.Digest
			return im.check(ctx, d.MediaType)
		}
		var index ocispec.Index
		if err := json.Unmarshal(im.manifest, &index); err != nil {
			return err
		}
		all = index.Manifests
	}
	return errors.New("its indexes are nested too deep")
}

// fits reports whether a platform is the one that is wanted, as far as both say.
func (im *Image) fits(p ocispec.Platform) bool {
	same := func(a, b string) bool { return a == b || a == "" || b == "" }
	return same(p.OS, im.want.OS) && same(p.Architecture, im.want.Architecture) && same(p.Variant, im.want.Variant)
}

func (im *Image) pick(all []ocispec.Descriptor) (d ocispec.Descriptor, err error) {
	if len(all) == 1 && all[0].Platform == nil {
		return all[0], nil
	}
	var others []string
	for _, d := range all {
		if d.Platform != nil && im.fits(*d.Platform) {
			return d, nil
		}
		if d.Platform != nil {
			others = append(others, PlatformName(*d.Platform))
		}
	}
	return d, im.noPlatform(some(others, "images without a platform"))
}

func (im *Image) noPlatform(has string) error {
	return errs.Fail(errs.NotExist, "image %s is not for %s: it has %s", im.at.ref, PlatformName(im.want), has).
		WithHint("choose one with --platform")
}

// check reads the configuration of what should be an image.
func (im *Image) check(ctx context.Context, kind string) (err error) {
	if err := json.Unmarshal(im.manifest, &im.Manifest); err != nil {
		return err
	}
	of := im.Manifest.Config
	if kind != ocispec.MediaTypeImageManifest && kind != dockerManifest || of.MediaType != ocispec.MediaTypeImageConfig && of.MediaType != dockerConfig {
		return errs.Fail(errs.Invalid, "%s is not a container image, but of the type %s", im.at.ref, strings.TrimSpace(kind+" "+of.MediaType))
	}
	if im.config, err = im.read(ctx, of); err != nil {
		return err
	}
	var config ocispec.Image
	if err := json.Unmarshal(im.config, &config); err != nil {
		return err
	}
	if !im.fits(config.Platform) {
		return im.noPlatform(PlatformName(config.Platform))
	}
	return nil
}

func (im *Image) read(ctx context.Context, d ocispec.Descriptor) ([]byte, error) {
	if d.Size > MaxText {
		return nil, fmt.Errorf("its %s has %d bytes, more than the %d allowed", d.MediaType, d.Size, MaxText)
	}
	raw, err := content.FetchAll(ctx, im.from, d)
	return raw, im.at.explain(ctx, d.Digest, err)
}

// Size is how many bytes of layers Send sends.
func (im *Image) Size() (n int64) {
	for _, d := range im.Layers {
		n += d.Size
	}
	return n
}

// Send writes a tar archive of the manifest, the configuration and the layers in their
// order, each named by its digest. It writes the layers to moved, too.
func (im *Image) Send(ctx context.Context, w io.Writer, moved io.Writer) error {
	a := archiver{Writer: tar.NewWriter(w)}
	err := cmp.Or(a.put(im.Digest.String(), int64(len(im.manifest)), bytes.NewReader(im.manifest)),
		a.put(im.Manifest.Config.Digest.String(), int64(len(im.config)), bytes.NewReader(im.config)))
	for _, d := range im.Layers {
		if err == nil {
			err = im.sendLayer(ctx, a, moved, d)
		}
	}
	return cmp.Or(err, a.Close())
}

func (im *Image) sendLayer(ctx context.Context, a archiver, moved io.Writer, d ocispec.Descriptor) error {
	r, err := im.from.Fetch(ctx, d)
	if err != nil {
		return im.at.explain(ctx, d.Digest, err)
	}
	defer r.Close()
	v := content.NewVerifyReader(r, d)
	err = cmp.Or(a.put(d.Digest.String(), d.Size, io.TeeReader(v, moved)), v.Verify())
	return im.at.explain(ctx, d.Digest, err)
}
