package service

import (
	"archive/tar"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/internal/decompress"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/remote/image"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// ImageBlobs is the folder of a store with the layers of imported images.
const ImageBlobs = "images"

func (s *Service) blobs() image.Blobs {
	return image.Blobs{FS: s.Store.FS(), Dir: filepath.Join(s.Store.Dir(), ImageBlobs)}
}

// readImage stores the blobs that image.Image.Send sends, and writes the layers to the sink of
// layers.
func (s *Service) readImage(ctx context.Context, in io.Reader, layers gitbridge.Layers, a Import) (*info.Image, error) {
	im := &info.Image{
		Ref: a.Image, Path: strings.Trim(path.Clean("/"+string(a.Path)), "/"), Layers: []string{}, Owner: (*info.Owner)(layers.Owner),
	}
	t, blobs := tar.NewReader(in), s.blobs()
	// next keeps the next blob, and decodes it if it is text.
	next := func(want digest.Digest, text any) (digest.Digest, error) {
		h, err := t.Next()
		if err != nil {
			return "", cmp.Or(ctx.Err(), fmt.Errorf("reading the image: %w", err))
		}
		d, most := digest.Digest(h.Name), int64(math.MaxInt64)
		if text != nil {
			most = image.MaxText
		}
		if want != "" && d != want || h.Size > most {
			return "", fmt.Errorf("reading the image: %.80q of %d bytes comes where %s belongs", h.Name, h.Size, want)
		}
		if free, err := blobs.FS.Free(s.Store.Dir()); err == nil && free < h.Size+cas.Headroom {
			return "", fmt.Errorf("%s has %d bytes: %w", d, h.Size, cas.ErrNoSpace)
		}
		if err = blobs.Put(d, t); err == nil && text != nil {
			err = blobs.Decode(d, text)
		}
		return d, err
	}
	var m ocispec.Manifest
	var c ocispec.Image
	of, err := next("", &m)
	if err == nil {
		_, err = next(m.Config.Digest, &c)
	}
	if err == nil && len(m.Layers) != len(c.RootFS.DiffIDs) {
		err = fmt.Errorf("the image has %d layers, and its configuration has %d", len(m.Layers), len(c.RootFS.DiffIDs))
	}
	if err != nil {
		return nil, err
	}
	im.Digest, im.Config, im.Platform = of.String(), m.Config.Digest.String(), image.PlatformName(c.Platform)
	im.Entrypoint, im.Cmd, im.Env, im.User, im.WorkingDir = c.Config.Entrypoint, c.Config.Cmd, c.Config.Env, c.Config.User, c.Config.WorkingDir
	for i, d := range m.Layers {
		im.Layers = append(im.Layers, d.Digest.String())
		if _, err := next(d.Digest, nil); err != nil {
			return nil, err
		}
		for _, whiteouts := range []bool{true, false} {
			if whiteouts && i == 0 {
				continue // there are no layers below
			}
			if err := readLayer(ctx, blobs, d.Digest, c.RootFS.DiffIDs[i], layers, whiteouts); err != nil {
				return nil, fmt.Errorf("layer %s: %w", d.Digest, err)
			}
		}
	}
	const most = 64 << 10 // what each list of snapshots has
	if raw, err := json.Marshal(im); err != nil || len(raw) > most {
		return nil, errs.Fail(errs.Invalid, "the configuration of the image has over %d bytes", most)
	}
	// The end of the archive says that all was sent.
	if _, err := t.Next(); err != io.EOF {
		return nil, fmt.Errorf("reading the image: %w", cmp.Or(err, errors.New("more comes than its layers")))
	}
	_, err = io.Copy(io.Discard, in)
	return im, cmp.Or(err, blobs.FS.SyncDir(blobs.Dir), blobs.FS.SyncDir(s.Store.Dir()))
}

func readLayer(ctx context.Context, blobs image.Blobs, of, diff digest.Digest, layers gitbridge.Layers, whiteouts bool) error {
	f, err := blobs.Open(of)
	if err != nil {
		return err
	}
	defer f.Close()
	plain, err := decompress.Reader(f)
	if err != nil {
		return err
	}
	defer plain.Close()
	sum := digest.Canonical.Digester()
	if err := layers.Read(ctx, io.TeeReader(plain, sum.Hash()), whiteouts); err != nil {
		return err
	}
	if sum.Digest() != diff {
		return fmt.Errorf("its contents have the digest %s, and the configuration says %s: %w", sum.Digest(), diff, image.ErrDigest)
	}
	return nil
}

func (s *Service) sweepImages() {
	if !s.images.TryLock() {
		return // another import will
	}
	defer s.images.Unlock()
	keep := make(map[digest.Digest]bool)
	for _, i := range s.Store.Images() {
		for _, d := range append([]string{i.Digest, i.Config}, i.Layers...) {
			keep[digest.Digest(d)] = true
		}
	}
	err := s.Store.Sync() // so that the removal survives a power cut
	if err == nil {
		err = s.blobs().Keep(keep)
	}
	if err != nil {
		s.Log.Warn("removing layers of images", "err", err)
	}
}

// imageOf finds the image that a snapshot, or the present state without a name, was made
// on top of: in its workspace and in those that this one was forked from.
func imageOf(ws *snapshot.Workspace, name string) (*snapshot.Workspace, info.Info, error) {
	at := info.Info{Seq: math.MaxUint64, Parent: ws.Snapshots().Head()}
	if name != "" {
		var err error
		if at, err = ws.Find(name); err != nil || at.Image != nil {
			return ws, at, err
		}
	}
	for ; ws != nil; ws, at = forkPoint(ws) {
		for _, before := range ancestors(ws, at) {
			if before.Image != nil {
				return ws, before, nil
			}
		}
	}
	return nil, info.Info{}, nil
}

func (s *Service) image(_ context.Context, r *Request, a GetImage) (FoundImage, error) {
	_, i, err := imageOf(r.Workspace, a.Name)
	return FoundImage{Snapshot: i.Name, Image: i.Image}, err
}

// imageAt finds a snapshot that was taken of an image, in a workspace or in those that it was
// forked from.
func imageAt(ws *snapshot.Workspace, name string) (*snapshot.Workspace, info.Info, error) {
	i, err := ws.Find(name)
	for up := ws.Parent(); errors.Is(err, catalogue.ErrNotFound) && up != nil; up = up.Parent() {
		if there, uerr := up.Find(name); uerr == nil {
			ws, i, err = up, there, nil
		}
	}
	if err == nil && i.Image == nil {
		err = errs.Fail(errs.Invalid, "%s is not a snapshot that `amberfs import --image` took", name)
	}
	return ws, i, err
}

// exportLayer writes all of a snapshot if it has no image below.
func (s *Service) exportLayer(ctx context.Context, r *Request, a ExportLayer) (out Layer, err error) {
	now, err := r.Workspace.Find(a.Name)
	if err != nil {
		return out, err
	}
	o := gitbridge.LayerOptions{Source: s.Store.Source(), Base: tree.New(1, &tree.Inode{Ino: tree.RootIno, Mode: unix.S_IFDIR, Nlink: 2})}
	var release func()
	if o.Now, release, err = r.Workspace.Held(now.Name); err != nil {
		return out, err
	}
	defer release()
	of, base, err := imageOf(r.Workspace, a.Name)
	if err == nil && a.Base != "" {
		of, base, err = imageAt(r.Workspace, a.Base)
	}
	if err != nil {
		return out, err
	}
	out.Created = now.Created
	if im := base.Image; im != nil {
		if im.Merged {
			return out, errs.Fail(errs.Failed, "%s has files that were there before the image was imported, so its layers are not what %s has", base.Name, im.Ref).
				WithHint("import the image into an empty directory, or name another --base")
		}
		out.FoundImage, o.Dir, o.Owner = FoundImage{base.Name, im}, im.Path, (*gitbridge.Owner)(im.Owner)
		if o.Base, release, err = of.Held(base.Name); err != nil {
			return out, err
		}
		defer release()
	}
	done, err := gitbridge.WriteLayer(ctx, r.Out, o)
	if err != nil {
		return out, err
	}
	out.Files, out.Bytes, out.Skipped = done.Files, done.Bytes, done.Skipped[:min(len(done.Skipped), maxSkipped)]
	return out, nil
}
