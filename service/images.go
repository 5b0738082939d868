package service

import (
	"archive/tar"
	"context"
	"crypto/sha256"
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

	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/internal/decompress"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/remote/image"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// ImageBlobs is the folder of a store with the layers of imported images.
const ImageBlobs = "images"

func (s *Service) blobs() image.Blobs {
	return image.Blobs{FS: s.Store.FS(), Dir: filepath.Join(s.Store.Dir(), ImageBlobs)}
}

// readImage keeps the blobs of an image, and feeds its layers to the sink of layers.
func (s *Service) readImage(ctx context.Context, in io.Reader, layers gitbridge.Layers, a Import) (*snapshot.Image, error) {
	r := &imageReader{ctx: ctx, tar: tar.NewReader(in), blobs: s.blobs()}
	im := &snapshot.Image{Ref: a.Image, Path: strings.Trim(path.Clean("/"+string(a.Path)), "/"), Layers: []string{}}
	if owner := layers.Owner; owner != nil {
		im.Owner = &snapshot.ImageOwner{UID: owner.UID, GID: owner.GID}
	}
	var m ocispec.Manifest
	var c ocispec.Image
	var err error
	if im.Digest, err = r.text("", &m); err == nil {
		im.Config, err = r.text(m.Config.Digest, &c)
	}
	if err == nil && len(m.Layers) != len(c.RootFS.DiffIDs) {
		err = fmt.Errorf("it has %d layers, and its configuration has %d", len(m.Layers), len(c.RootFS.DiffIDs))
	}
	if err != nil {
		return nil, fmt.Errorf("reading the image: %w", err)
	}
	im.Platform = image.PlatformName(c.Platform)
	im.Entrypoint, im.Cmd, im.Env, im.User, im.WorkingDir = c.Config.Entrypoint, c.Config.Cmd, c.Config.Env, c.Config.User, c.Config.WorkingDir
	for i, d := range m.Layers {
		im.Layers = append(im.Layers, d.Digest.String())
		if err := r.layer(d, c.RootFS.DiffIDs[i], layers, i > 0); err != nil {
			return nil, fmt.Errorf("layer %s: %w", d.Digest, err)
		}
	}
	const most = 64 << 10 // what each list of snapshots has
	if raw, err := json.Marshal(im); err != nil || len(raw) > most {
		return nil, fail.New(fail.Usage, "the configuration of the image has over %d bytes", most)
	}
	// The end of the archive says that all was sent.
	if _, err := r.tar.Next(); err != io.EOF {
		return nil, fmt.Errorf("reading the image: %w", errors.Join(err, errors.New("more comes than its layers")))
	}
	_, err = io.Copy(io.Discard, in)
	return im, errors.Join(err, r.blobs.FS.SyncDir(r.blobs.Dir), r.blobs.FS.SyncDir(s.Store.Dir()))
}

// imageReader reads what image.Image.Send wrote.
type imageReader struct {
	ctx   context.Context
	tar   *tar.Reader
	blobs image.Blobs
}

// next keeps the next blob, which has a digest if one is given, and returns its own.
func (r *imageReader) next(want digest.Digest, most int64) (digest.Digest, error) {
	h, err := r.tar.Next()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return "", err
	}
	d := digest.Digest(h.Name)
	if want != "" && d != want || most > 0 && h.Size > most {
		return "", fmt.Errorf("%.80q of %d bytes comes where %s belongs", h.Name, h.Size, want)
	}
	return d, r.blobs.Put(d, r.tar)
}

// text reads a blob that is JSON.
func (r *imageReader) text(want digest.Digest, into any) (string, error) {
	d, err := r.next(want, image.MaxText)
	if err != nil {
		return "", err
	}
	f, err := r.blobs.Fetch(r.ctx, ocispec.Descriptor{Digest: d})
	if err != nil {
		return "", err
	}
	defer f.Close()
	return d.String(), json.NewDecoder(f).Decode(into)
}

// layer keeps the next layer and reads it. In the lowest there is nothing to whiteout.
func (r *imageReader) layer(d ocispec.Descriptor, diff digest.Digest, layers gitbridge.Layers, whiteouts bool) error {
	if _, err := r.next(d.Digest, 0); err != nil {
		return err
	}
	if whiteouts {
		if err := r.pass(d, diff, layers, true); err != nil {
			return err
		}
	}
	return r.pass(d, diff, layers, false)
}

func (r *imageReader) pass(d ocispec.Descriptor, diff digest.Digest, layers gitbridge.Layers, whiteouts bool) error {
	f, err := r.blobs.Fetch(r.ctx, d)
	if err != nil {
		return err
	}
	defer f.Close()
	plain, err := decompress.Reader(f)
	if err != nil {
		return err
	}
	defer plain.Close()
	sum := sha256.New()
	if err := layers.Read(r.ctx, io.TeeReader(plain, sum), whiteouts); err != nil {
		return err
	}
	if got := digest.NewDigest(digest.SHA256, sum); got != diff {
		return fmt.Errorf("its contents have the digest %s, and the configuration says %s: %w", got, diff, image.ErrDigest)
	}
	return nil
}

// sweepImages removes the blobs that no snapshot needs.
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
	err := s.Store.Sync() // what was removed stays so
	if err == nil {
		err = s.blobs().Keep(keep)
	}
	if err != nil {
		s.Log.Warn("removing layers of images", "err", err)
	}
}

// found is a snapshot that came of an image, nil for none, with its workspace.
type found struct {
	ws   *snapshot.Workspace
	info *snapshot.Info
}

// imageOf finds the image that a snapshot, or the present state without a name, was made
// on top of: in its workspace and in those that this one was forked from.
func imageOf(ws *snapshot.Workspace, name string) (found, error) {
	at := snapshot.Info{Seq: math.MaxUint64, Parent: ws.Snapshots().Head()}
	if name != "" {
		var err error
		if at, err = ws.Find(name); err != nil || at.Image != nil {
			return found{ws, &at}, err
		}
	}
	for ; ws != nil; ws, at = forkPoint(ws) {
		for _, before := range ancestors(ws, at) {
			if before.Image != nil {
				return found{ws, &before}, nil
			}
		}
	}
	return found{}, nil
}

func (s *Service) image(_ context.Context, r *Request, a GetImage) (FoundImage, error) {
	f, err := imageOf(r.Workspace, a.Name)
	if err != nil || f.info == nil {
		return FoundImage{}, err
	}
	return FoundImage{Snapshot: f.info.Name, Image: f.info.Image}, nil
}

// exportLayer writes all of a snapshot if it has no image below.
func (s *Service) exportLayer(ctx context.Context, r *Request, a ExportLayer) (out Layer, err error) {
	now, err := r.Workspace.Find(a.Name)
	if err != nil {
		return out, err
	}
	base, err := imageOf(r.Workspace, a.Name)
	if a.Base != "" {
		base, err = found{}, nil
		for ws := r.Workspace; base.info == nil; ws = ws.Parent() {
			i, ferr := ws.Find(a.Base)
			if ferr != nil && ws.Parent() == nil {
				return out, ferr
			}
			if ferr == nil {
				base = found{ws, &i}
			}
		}
	}
	if err != nil {
		return out, err
	}
	o := gitbridge.LayerOptions{Source: s.Store.Source(), Base: tree.New(1, &tree.Inode{Ino: tree.RootIno, Mode: unix.S_IFDIR, Nlink: 2})}
	if o.Now, err = r.Workspace.StateOf(now.Name); err != nil {
		return out, err
	}
	defer s.Store.Hold(o.Now)()
	out.Created = now.Created
	if base.info != nil {
		im := base.info.Image
		switch {
		case im == nil:
			return out, fail.New(fail.Usage, "%s is not a snapshot that `amberfs import --image` took", a.Base)
		case im.Merged:
			return out, fail.New(fail.Failed, "%s has files that were there before the image was imported, so its layers are not what %s has", base.info.Name, im.Ref).
				WithHint("import the image into an empty directory, or name another --base")
		}
		out.FoundImage, o.Dir = FoundImage{base.info.Name, im}, im.Path
		if im.Owner != nil {
			o.Owner = &gitbridge.Owner{UID: im.Owner.UID, GID: im.Owner.GID}
		}
		if o.Base, err = base.ws.StateOf(base.info.Name); err != nil {
			return out, err
		}
		defer s.Store.Hold(o.Base)()
	}
	done, err := gitbridge.WriteLayer(ctx, r.Out, o)
	if err != nil {
		return out, err
	}
	out.Files, out.Bytes, out.Skipped = done.Files, done.Bytes, done.Skipped[:min(len(done.Skipped), maxSkipped)]
	return out, nil
}
