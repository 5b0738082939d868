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

// ErrDigest: the bytes of a blob do not have its digest.
var ErrDigest = errors.New("it does not have this digest, so it was damaged or replaced")

// Media types of docker. Each is equivalent to one of OCI.
const (
	dockerManifest   = "application/vnd.docker.distribution.manifest.v2+json"
	dockerIndex      = "application/vnd.docker.distribution.manifest.list.v2+json"
	dockerConfig     = "application/vnd.docker.container.image.v1+json"
	dockerLayer      = "application/vnd.docker.image.rootfs.diff.tar.gzip"
	dockerPlainLayer = "application/vnd.docker.image.rootfs.diff.tar"
)

// MaxJSONSize is the largest size, in bytes, of a manifest, an index or a configuration.
const MaxJSONSize = 4 << 20

// decodeJSON reads JSON of at most MaxJSONSize bytes.
func decodeJSON(r io.Reader, into any) error {
	return json.NewDecoder(io.LimitReader(r, MaxJSONSize)).Decode(into)
}

// An Image is an image for one platform, whose manifest and configuration were read.
type Image struct {
	Digest digest.Digest // digest of the manifest
	ocispec.Manifest

	location         location
	platform         ocispec.Platform
	manifest, config []byte          // the bytes that were read
	source           content.Fetcher // reads the blobs
}

// A location is the registry, OCI layout or archive that an image is read from or written to.
type location struct {
	ref  string
	repo *remote.Repository // nil for files
}

// explain returns err with a text for the user. d is the blob that err is about, "" if err is about the whole image.
func (p location) explain(ctx context.Context, d digest.Digest, err error) error {
	var explained *errs.Error
	switch {
	case err == nil || errors.As(err, &explained):
		return err
	case d != "" && (errors.Is(err, errdef.ErrNotFound) || errors.Is(err, fs.ErrNotExist)):
		return errs.Fail(errs.NotExist, "image %s: %s is missing there", p.ref, d).WithHint("the image is incomplete: push or copy it again")
	case d != "" && (errors.Is(err, content.ErrMismatchedDigest) || errors.Is(err, content.ErrTrailingData) || errors.Is(err, io.ErrUnexpectedEOF)):
		return errs.Fail(errs.Failed, "image %s: %s: %w", p.ref, d, ErrDigest)
	case p.repo != nil:
		err = backend.WrapRegistryError(ctx, p.repo, "image "+p.ref, err)
		return errs.Fail(errs.ScriptKind(err), "%w", err)
	}

	return errs.Fail(errs.ScriptKind(err), "image %s: %w", p.ref, err)
}

// Open reads the manifest and the configuration of an image. ref is oci:DIR[:TAG], docker-archive:FILE, or
// HOST/NAME[:TAG][@DIGEST]. platform is OS/ARCH[/VARIANT], or "" for the platform of this machine.
func Open(ctx context.Context, ref, platform string) (*Image, error) {
	im := &Image{location: location{ref: ref}, platform: ocispec.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH}}
	if platform != "" {
		system, rest, _ := strings.Cut(platform, "/")
		arch, variant, _ := strings.Cut(rest, "/")
		if im.platform = (ocispec.Platform{OS: system, Architecture: arch, Variant: variant}); system == "" || arch == "" || strings.Contains(variant, "/") {
			return nil, errs.Fail(errs.Invalid, "a platform is OS/ARCH or OS/ARCH/VARIANT, such as linux/arm64, not %q", platform)
		}
	}

	var all []ocispec.Descriptor
	var pinned digest.Digest
	var err error
	switch kind, rest, _ := strings.Cut(ref, ":"); kind {
	case "oci":
		all, err = im.readLayout(rest)
	case "docker-archive":
		all, err = im.readArchive(rest)
	default:
		all, pinned, err = im.resolveTag(ctx)
	}

	if err != nil {
		return im, im.location.explain(ctx, "", err)
	}

	return im, im.location.explain(ctx, "", im.chooseManifest(ctx, all, pinned))
}

// PlatformName returns a platform as OS/ARCH[/VARIANT].
func PlatformName(p ocispec.Platform) string { return path.Join(p.OS, p.Architecture, p.Variant) }

// splitLayout splits DIR[:TAG].
func splitLayout(rest string) (dir, tag string) {
	if i := strings.LastIndexByte(rest, ':'); i > 0 && !strings.Contains(rest[i:], "/") {
		return rest[:i], rest[i+1:]
	}
	return rest, ""
}

// readLayout returns descriptors in an OCI layout. rest is DIR or DIR:TAG. If it has a tag, readLayout returns only
// the descriptors with that tag.
func (im *Image) readLayout(rest string) (found []ocispec.Descriptor, err error) {
	dir, tag := splitLayout(rest)
	f, err := os.Open(filepath.Join(dir, ocispec.ImageIndexFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errs.Fail(errs.NotExist, "no image %s: %s is not a directory with an OCI layout", im.location.ref, dir)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()

	var index ocispec.Index
	if err := decodeJSON(f, &index); err != nil {
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
		return nil, errs.Fail(errs.NotExist, "no image %s: %s has %s", im.location.ref, dir, joinNames(names, "no tags"))
	case tag == "" && len(names) > 1:
		return nil, errs.Fail(errs.Invalid, "%s has several images: name one as oci:%s:TAG, of %s", dir, dir, joinNames(names, ""))
	}

	im.source = oci.NewStorageFromFS(os.DirFS(dir))

	return found, nil
}

// joinNames joins at most 20 names for the text of an error. It returns ifEmpty if there are no names.
func joinNames(names []string, ifEmpty string) string {
	return cmp.Or(strings.Join(names[:min(len(names), 20)], ", "), ifEmpty)
}

// parseRef splits HOST/NAME[:TAG][@DIGEST]. As in docker, a name without a host is in docker.io, and a
// reference without tag and digest has the tag latest.
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

// openRepository sets repo to the repository of ref. pinned is the digest in ref, "" without one.
func (p *location) openRepository() (tag string, pinned digest.Digest, err error) {
	name, tag, pinned, err := parseRef(p.ref)
	if err == nil {
		p.repo, err = backend.Repository(name)
	}
	if errors.Is(err, errdef.ErrInvalidReference) {
		err = errs.Fail(errs.Invalid, "%q does not name an image, such as HOST/NAME:TAG, oci:DIR:TAG or docker-archive:FILE", p.ref)
	}

	return tag, pinned, err
}

// resolveTag returns the descriptor that a registry has for the tag in the reference or, without a tag, for the
// digest in it. pinned is the digest in the reference, "" without one.
func (im *Image) resolveTag(ctx context.Context) (found []ocispec.Descriptor, pinned digest.Digest, err error) {
	tag, pinned, err := im.location.openRepository()
	if err != nil {
		return nil, "", err
	}

	im.source = im.location.repo
	d, err := im.location.repo.Resolve(ctx, cmp.Or(tag, pinned.String()))
	if errors.Is(err, errdef.ErrNotFound) {
		err = errs.Fail(errs.NotExist, "no image %s in %s", im.location.ref, im.location.repo.Reference.Host()).WithHint("check the name and the tag")
	}

	return []ocispec.Descriptor{d}, pinned, err
}

// chooseManifest finds the manifest for the platform, through indexes, and reads it and the configuration. If
// pinned is not "", the manifest or one of these indexes must have that digest.
func (im *Image) chooseManifest(ctx context.Context, all []ocispec.Descriptor, pinned digest.Digest) (err error) {
	const maxNested = 4
	firstDigest, hasPinned := all[0].Digest, pinned == "" // hasPinned: a descriptor had the pinned digest

	for range maxNested {
		d, err := im.pickPlatform(all)
		if err != nil {
			return err
		}

		hasPinned = hasPinned || d.Digest == pinned
		if im.manifest, err = im.readBlob(ctx, d); err != nil {
			return err
		}

		if d.MediaType != ocispec.MediaTypeImageIndex && d.MediaType != dockerIndex {
			if !hasPinned {
				return errs.Fail(errs.Conflict, "image %s: the tag moved: it names %s now", im.location.ref, firstDigest).
					WithHint("leave the tag out to import what has the digest, or the digest to import what has the tag")
			}

			im.Digest = d.Digest
			return im.readConfig(ctx, d.MediaType)
		}

		// d is an index: the next round looks among its manifests.
		var index ocispec.Index
		if err := json.Unmarshal(im.manifest, &index); err != nil {
			return err
		}

		all = index.Manifests
	}

	return errors.New("its indexes are nested too deep")
}

// fitsPlatform reports whether p fits Image.platform: each field is equal in both, or is empty in one of them.
func (im *Image) fitsPlatform(p ocispec.Platform) bool {
	same := func(a, b string) bool { return a == b || a == "" || b == "" }
	return same(p.OS, im.platform.OS) && same(p.Architecture, im.platform.Architecture) && same(p.Variant, im.platform.Variant)
}

// pickPlatform returns the first descriptor for the platform. If the only descriptor names no platform, pickPlatform
// returns it.
func (im *Image) pickPlatform(all []ocispec.Descriptor) (d ocispec.Descriptor, err error) {
	if len(all) == 1 && all[0].Platform == nil {
		return all[0], nil
	}
	var others []string
	for _, d := range all {
		if d.Platform != nil && im.fitsPlatform(*d.Platform) {
			return d, nil
		}
		if d.Platform != nil {
			others = append(others, PlatformName(*d.Platform))
		}
	}

	return d, im.errNoPlatform(joinNames(others, "images without a platform"))
}

// errNoPlatform returns the error for an image that is not for Image.platform. offered lists the platforms that the
// image is for.
func (im *Image) errNoPlatform(offered string) error {
	return errs.Fail(errs.NotExist, "image %s is not for %s: it has %s", im.location.ref, PlatformName(im.platform), offered).
		WithHint("choose one with --platform")
}

// readConfig decodes the manifest and reads the configuration. It fails if they are not of a container image for the
// platform. mediaType is the media type of the manifest.
func (im *Image) readConfig(ctx context.Context, mediaType string) (err error) {
	if err := json.Unmarshal(im.manifest, &im.Manifest); err != nil {
		return err
	}

	blob := im.Manifest.Config
	if mediaType != ocispec.MediaTypeImageManifest && mediaType != dockerManifest || blob.MediaType != ocispec.MediaTypeImageConfig && blob.MediaType != dockerConfig {
		return errs.Fail(errs.Invalid, "%s is not a container image, but of the type %s", im.location.ref, strings.TrimSpace(mediaType+" "+blob.MediaType))
	}
	if im.config, err = im.readBlob(ctx, blob); err != nil {
		return err
	}

	var config ocispec.Image
	if err := json.Unmarshal(im.config, &config); err != nil {
		return err
	}
	if !im.fitsPlatform(config.Platform) {
		return im.errNoPlatform(PlatformName(config.Platform))
	}

	return nil
}

// readBlob reads a blob of at most MaxJSONSize bytes, and checks its digest.
func (im *Image) readBlob(ctx context.Context, d ocispec.Descriptor) ([]byte, error) {
	if d.Size > MaxJSONSize {
		return nil, fmt.Errorf("its %s has %d bytes, more than the %d allowed", d.MediaType, d.Size, MaxJSONSize)
	}
	raw, err := content.FetchAll(ctx, im.source, d)
	return raw, im.location.explain(ctx, d.Digest, err)
}

// Size returns the number of bytes of all layers.
func (im *Image) Size() (n int64) {
	for _, d := range im.Layers {
		n += d.Size
	}
	return n
}

// Send writes a tar archive with the manifest, the configuration and the layers, in this order. The name of each is
// its digest. Send also writes the bytes of the layers to layerCopy, so that the caller can report progress.
func (im *Image) Send(ctx context.Context, w io.Writer, layerCopy io.Writer) error {
	a := archiver{Writer: tar.NewWriter(w)}
	err := cmp.Or(a.writeFile(im.Digest.String(), int64(len(im.manifest)), bytes.NewReader(im.manifest)),
		a.writeFile(im.Manifest.Config.Digest.String(), int64(len(im.config)), bytes.NewReader(im.config)))
	for _, d := range im.Layers {
		if err == nil {
			err = im.sendLayer(ctx, a, layerCopy, d)
		}
	}

	return cmp.Or(err, a.Close())
}

func (im *Image) sendLayer(ctx context.Context, a archiver, layerCopy io.Writer, d ocispec.Descriptor) error {
	r, err := im.source.Fetch(ctx, d)
	if err != nil {
		return im.location.explain(ctx, d.Digest, err)
	}
	defer r.Close()

	v := content.NewVerifyReader(r, d)
	err = cmp.Or(a.writeFile(d.Digest.String(), d.Size, io.TeeReader(v, layerCopy)), v.Verify())
	return im.location.explain(ctx, d.Digest, err)
}
