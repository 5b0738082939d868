package image

import (
	"archive/tar"
	"bufio"
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
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/amberfs/amberfs/internal/decompress"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/fail"
)

// archived is an archive of `docker save`, which may be compressed. Its files are found by
// reading it from the beginning, which in one that is not compressed jumps from header to header.
type archived struct {
	disk  fs.FS
	name  string
	most  int64 // bytes
	files map[digest.Digest]string
	texts map[digest.Digest][]byte // made of what the archive says
}

// saved is an entry of manifest.json.
type saved struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// archive reads all of an archive once, for the digests of what is in it.
func (im *Image) archive(ctx context.Context, file string, most int64) ([]ocispec.Descriptor, error) {
	const beside = 1 << 30 // bytes of headers and of other files
	a := &archived{disk: os.DirFS(path.Dir(file)), name: path.Base(file), most: cmp.Or(most, 1<<40) + beside, files: make(map[digest.Digest]string), texts: make(map[digest.Digest][]byte)}
	var images []saved
	found, links := make(map[string]ocispec.Descriptor), make(map[string]string)
	err := a.walk(func(h *tar.Header, r io.Reader) error {
		name := path.Clean(h.Name)
		if err := ctx.Err(); err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeSymlink:
			links[name] = path.Join(path.Dir(name), h.Linkname)
		case tar.TypeLink:
			links[name] = path.Clean(h.Linkname)
		case tar.TypeReg:
			if name == "manifest.json" {
				return json.NewDecoder(io.LimitReader(r, MaxText)).Decode(&images)
			}
			in := bufio.NewReaderSize(r, 256<<10)
			head, _ := in.Peek(4)
			kind, sum := layerType(head), digest.Canonical.Digester()
			if _, err := io.Copy(sum.Hash(), in); err != nil {
				return err
			}
			found[name] = ocispec.Descriptor{MediaType: kind, Digest: sum.Digest(), Size: h.Size}
			a.files[sum.Digest()] = name
		}
		return nil
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fail.New(fail.NotFound, "no image %s: there is no such file", im.Ref)
	case errors.Is(err, tar.ErrHeader):
		return nil, fail.New(fail.Usage, "%s is not an archive of `docker save`", file)
	case err != nil:
		return nil, im.explain(err)
	case len(images) != 1:
		return nil, fail.New(fail.Usage, "%s has %d images in its manifest.json, not one as `docker save NAME` writes", file, len(images))
	}
	at := func(name string) ocispec.Descriptor {
		name = path.Clean(name)
		if to, ok := links[name]; ok {
			name = to
		}
		return found[name]
	}
	m := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: at(images[0].Config), Layers: []ocispec.Descriptor{}}
	m.Config.MediaType = ocispec.MediaTypeImageConfig
	for _, name := range images[0].Layers {
		m.Layers = append(m.Layers, at(name))
	}
	for _, d := range append([]ocispec.Descriptor{m.Config}, m.Layers...) {
		if d.Digest == "" {
			return nil, fail.New(fail.Failed, "image %s: a file that manifest.json names is missing", im.Ref)
		}
	}
	raw, err := json.Marshal(m)
	d := ocispec.Descriptor{MediaType: m.MediaType, Digest: digest.FromBytes(raw), Size: int64(len(raw))}
	a.texts[d.Digest] = raw
	im.from = a
	return []ocispec.Descriptor{d}, err
}

func layerType(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return ocispec.MediaTypeImageLayerGzip
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return ocispec.MediaTypeImageLayerZstd
	}
	return ocispec.MediaTypeImageLayer
}

// walk calls fn for each entry, until its end or an error.
func (a *archived) walk(fn func(*tar.Header, io.Reader) error) error {
	f, err := a.disk.Open(a.name)
	if err != nil {
		return err
	}
	defer f.Close()
	var in io.Reader = f
	seek, ok := f.(io.Seeker)
	head := make([]byte, 6)
	n, _ := io.ReadFull(f, head)
	if ok {
		_, err = seek.Seek(0, io.SeekStart)
	}
	if !ok || err != nil {
		return fmt.Errorf("%s is not a regular file", a.name)
	}
	if layerType(head[:n]) != ocispec.MediaTypeImageLayer || strings.HasPrefix(string(head[:n]), "BZh") {
		plain, err := decompress.Reader(f)
		if err != nil {
			return err
		}
		defer plain.Close()
		in = &limited{plain, a.most}
	}
	for t := tar.NewReader(in); ; {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = fn(h, t)
		}
		if err != nil {
			return err
		}
	}
}

// limited fails when more is read.
type limited struct {
	r    io.Reader
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, errs.New(errs.TooBig, "too big: the archive is larger than --max-bytes allows")
	}
	return n, err
}

var errFound = errors.New("found")

// Fetch is a content.Fetcher.
func (a *archived) Fetch(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	if raw, ok := a.texts[d.Digest]; ok {
		return io.NopCloser(bytes.NewReader(raw)), nil
	}
	name, ok := a.files[d.Digest]
	if !ok {
		return nil, fs.ErrNotExist
	}
	r, w := io.Pipe()
	go func() {
		err := a.walk(func(h *tar.Header, from io.Reader) error {
			if h.Typeflag != tar.TypeReg || path.Clean(h.Name) != name {
				return nil
			}
			_, err := io.Copy(w, from)
			return cmp.Or(err, errFound)
		})
		if errors.Is(err, errFound) {
			err = nil
		}
		w.CloseWithError(err)
	}()
	return r, nil
}
