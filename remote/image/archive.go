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

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"github.com/amberfs/amberfs/internal/decompress"
	"github.com/amberfs/amberfs/internal/errs"
)

// A dockerArchive has the configuration and the layers of an archive of `docker save`, and a manifest for
// them in the format of registries. It is a content.Fetcher.
type dockerArchive map[digest.Digest]*io.SectionReader

func (a dockerArchive) Fetch(_ context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	if s, ok := a[d.Digest]; ok {
		return io.NopCloser(io.NewSectionReader(s, 0, s.Size())), nil
	}
	return nil, fs.ErrNotExist
}

// A savedImage is an image in manifest.json of an archive of `docker save`. Config and Layers are names of
// files.
type savedImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// layerMediaTypes has the media types of layers, by the result of decompress.FormatOf.
var layerMediaTypes = map[string]string{
	"": ocispec.MediaTypeImageLayer, "gzip": ocispec.MediaTypeImageLayerGzip, "zstd": ocispec.MediaTypeImageLayerZstd,
}

// readArchive reads the list of files of an archive, and makes a manifest from it. It sets Image.source, and
// returns the descriptor of the manifest as the only element.
func (im *Image) readArchive(name string) ([]ocispec.Descriptor, error) {
	f, err := im.openArchive(name)
	if err != nil {
		return nil, err
	}

	files, links := make(map[string]*io.SectionReader), make(map[string]string)

	for t := tar.NewReader(f); ; {
		h, err := t.Next()
		if err == io.EOF {
			break
		}
		if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, errs.Fail(errs.Invalid, "%s is not an archive of `docker save`, or not whole", name)
		}

		offset, serr := f.Seek(0, io.SeekCurrent)
		if err = cmp.Or(err, serr); err != nil {
			return nil, err
		}

		switch offset, name := offset, path.Clean(h.Name); h.Typeflag {
		case tar.TypeSymlink:
			links[name] = path.Join(path.Dir(name), h.Linkname)
		case tar.TypeLink:
			links[name] = path.Clean(h.Linkname)
		case tar.TypeReg:
			files[name] = io.NewSectionReader(f, offset, h.Size)
		}
	}

	var images []savedImage
	if list := files["manifest.json"]; list != nil {
		if err := decodeJSON(list, &images); err != nil {
			return nil, err
		}
	}
	if len(images) != 1 {
		return nil, errs.Fail(errs.Invalid, "%s has %d images in its manifest.json, not one as `docker save NAME` writes", name, len(images))
	}

	a := dockerArchive{}
	m := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Layers: []ocispec.Descriptor{}}

	for _, name := range append(images[0].Layers, images[0].Config) {
		name = path.Clean(name)
		s := files[cmp.Or(links[name], name)]
		if s == nil {
			return nil, errs.Fail(errs.Failed, "image %s: the file %.80q that manifest.json names is missing", im.location.ref, name)
		}

		var head [6]byte
		n, _ := s.ReadAt(head[:], 0)
		d := ocispec.Descriptor{MediaType: layerMediaTypes[decompress.FormatOf(head[:n])], Size: s.Size()}
		if d.Digest, err = digest.FromReader(io.NewSectionReader(s, 0, s.Size())); err != nil {
			return nil, err
		}

		a[d.Digest] = s
		m.Layers = append(m.Layers, d)
	}

	// The configuration is the last one of the descriptors.
	last := len(m.Layers) - 1
	m.Config, m.Layers = m.Layers[last], m.Layers[:last]
	m.Config.MediaType = ocispec.MediaTypeImageConfig
	raw, err := json.Marshal(m)
	d := content.NewDescriptorFromBytes(m.MediaType, raw)
	a[d.Digest] = io.NewSectionReader(bytes.NewReader(raw), 0, d.Size)
	im.source = a

	return []ocispec.Descriptor{d}, err
}

// openArchive opens an archive. It must be a regular file that is not compressed, because its parts are
// read in any order.
func (im *Image) openArchive(name string) (*os.File, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errs.Fail(errs.NotExist, "no image %s: there is no such file", im.location.ref)
	}
	if err != nil {
		return nil, err
	}

	var head [6]byte
	n, err := f.ReadAt(head[:], 0)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("it is not a regular file: %w", err)
	}
	if kind := decompress.FormatOf(head[:n]); kind != "" {
		return nil, errs.Fail(errs.Invalid, "%s is compressed by %s", name, kind).WithHint("decompress it first, for example with `%s -d`", kind)
	}

	return f, nil
}
