package service

import (
	"archive/tar"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/archive"
	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/decompress"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/remote/image"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// ImageBlobs is the folder of a store with the layers of imported images.
const ImageBlobs = "images"

// imports has the operations that read files of a client into the store: a tree, an image, or the directory that the
// workspace was filled from. It also has the blobs of the images that were imported.
type imports struct {
	store   importStore
	objects objectStore
	blobs   image.Blobs
	log     *slog.Logger
	// blobsLock protects blobs that no snapshot refers to yet: an import locks it for reading while it stores
	// blobs, and sweepImages locks it for writing.
	blobsLock sync.RWMutex
}

// An importStore protects imported objects from gc, and knows which images its snapshots need.
type importStore interface {
	BeginImport() (done func())
	Hold(st *tree.State) (release func())
	CollectSoon()
	GC(ctx context.Context, progress func(done, total int64)) (cas.GCResult, error)
	Images() []*info.Image
	Sync() error
}

// readImage reads an archive that image.Image.Send wrote. It stores the image's manifest, configuration and
// layers as blobs, and adds the files of the layers to the tree that layers builds.
func (imp *imports) readImage(ctx context.Context, in io.Reader, layers archive.Layers, a Import) (*info.Image, error) {
	im := &info.Image{
		Ref: a.Image, Path: strings.Trim(path.Clean("/"+string(a.Path)), "/"), Layers: []string{}, Owner: (*info.Owner)(layers.Owner),
	}
	t, blobs, storeDir := tar.NewReader(in), imp.blobs, filepath.Dir(imp.blobs.Dir)
	// nextBlob stores the next blob of the archive. If want is not empty, the blob must have this digest. If text
	// is not nil, the blob is JSON, and nextBlob decodes it into text.
	nextBlob := func(want digest.Digest, text any) (digest.Digest, error) {
		h, err := t.Next()
		if err != nil {
			return "", cmp.Or(ctx.Err(), fmt.Errorf("reading the image: %w", err))
		}

		d, maxSize := digest.Digest(h.Name), int64(math.MaxInt64)
		if text != nil {
			maxSize = image.MaxJSONSize
		}
		if want != "" && d != want || h.Size > maxSize {
			return "", fmt.Errorf("reading the image: %.80q of %d bytes comes where %s belongs", h.Name, h.Size, want)
		}
		if free, err := blobs.FS.Free(storeDir); err == nil && free < h.Size+cas.Headroom {
			return "", fmt.Errorf("%s has %d bytes: %w", d, h.Size, cas.ErrNoSpace)
		}
		if err := blobs.Put(d, t); err != nil || text == nil {
			return d, err
		}

		return d, blobs.Decode(d, text)
	}

	// The manifest and the configuration are the first two files of the archive.
	var m ocispec.Manifest
	var c ocispec.Image
	manifest, err := nextBlob("", &m)
	if err != nil {
		return nil, err
	}
	if _, err := nextBlob(m.Config.Digest, &c); err != nil {
		return nil, err
	}
	if len(m.Layers) != len(c.RootFS.DiffIDs) {
		return nil, fmt.Errorf("the image has %d layers, and its configuration has %d", len(m.Layers), len(c.RootFS.DiffIDs))
	}

	im.Digest, im.Config, im.Platform = manifest.String(), m.Config.Digest.String(), image.PlatformName(c.Platform)
	im.Entrypoint, im.Cmd, im.Env, im.User, im.WorkingDir = c.Config.Entrypoint, c.Config.Cmd, c.Config.Env, c.Config.User, c.Config.WorkingDir

	// Each layer is read twice, first its whiteouts and then its files. So its whiteouts delete only files of the
	// layers below, and no files of the layer itself.
	for i, d := range m.Layers {
		im.Layers = append(im.Layers, d.Digest.String())
		if _, err := nextBlob(d.Digest, nil); err != nil {
			return nil, err
		}

		for _, whiteouts := range []bool{true, false} {
			if whiteouts && i == 0 {
				continue // no layer is below the first one, so its whiteouts delete nothing
			}
			if err := readLayer(ctx, blobs, d.Digest, c.RootFS.DiffIDs[i], layers, whiteouts); err != nil {
				return nil, fmt.Errorf("layer %s: %w", d.Digest, err)
			}
		}
	}

	// The limit is low because a list of snapshots contains the configuration of each snapshot's image.
	const maxConfigBytes = 64 << 10
	if raw, err := json.Marshal(im); err != nil || len(raw) > maxConfigBytes {
		return nil, errs.Fail(errs.Invalid, "the configuration of the image has over %d bytes", maxConfigBytes)
	}
	// The archive must end here. If it has no end marker, it was cut off.
	if _, err := t.Next(); err != io.EOF {
		return nil, fmt.Errorf("reading the image: %w", cmp.Or(err, errors.New("more comes than its layers")))
	}

	_, err = io.Copy(io.Discard, in)
	return im, cmp.Or(err, blobs.FS.SyncDir(blobs.Dir), blobs.FS.SyncDir(storeDir))
}

// readLayer reads the stored blob of a layer. If whiteoutsOnly is set, it reads only the whiteouts of the layer, else
// only the files. diffID is the digest of the uncompressed layer.
func readLayer(ctx context.Context, blobs image.Blobs, blob, diffID digest.Digest, layers archive.Layers, whiteoutsOnly bool) error {
	f, err := blobs.Open(blob)
	if err != nil {
		return err
	}
	defer f.Close()

	plain, err := decompress.NewReader(f)
	if err != nil {
		return err
	}
	defer plain.Close()

	sum := digest.Canonical.Digester()
	if err := layers.Read(ctx, io.TeeReader(plain, sum.Hash()), whiteoutsOnly); err != nil {
		return err
	}
	if sum.Digest() != diffID {
		return fmt.Errorf("its contents have the digest %s, and the configuration says %s: %w", sum.Digest(), diffID, image.ErrDigest)
	}

	return nil
}

// sweepImages deletes the blobs of images that no snapshot needs.
func (imp *imports) sweepImages() {
	if !imp.blobsLock.TryLock() {
		return // an import runs, and calls sweepImages at its end
	}
	defer imp.blobsLock.Unlock()

	if _, err := imp.blobs.FS.Stat(imp.blobs.Dir); errors.Is(err, fs.ErrNotExist) {
		return // no image was imported
	}

	needed := make(map[digest.Digest]bool)
	for _, i := range imp.store.Images() {
		for _, d := range append([]string{i.Digest, i.Config}, i.Layers...) {
			needed[digest.Digest(d)] = true
		}
	}

	// The deletions of snapshots must be on disk before their blobs are deleted. Otherwise a power cut could bring
	// back a snapshot whose blobs are missing.
	err := imp.store.Sync()
	if err != nil {
		imp.log.Warn("removing layers of images", "err", err)
		return
	}

	if err := imp.blobs.RemoveExcept(needed); err != nil {
		imp.log.Warn("removing layers of images", "err", err)
	}
}

// lastImageImport finds the last import of an image before a snapshot, or before the present state if name is "". It
// searches the workspace, then its parent and the workspaces above. It returns the workspace and the snapshot of the
// import, or a nil workspace if there is no import.
func lastImageImport(ws *snapshot.Workspace, name string) (*snapshot.Workspace, info.Info, error) {
	start := info.Info{Seq: math.MaxUint64, Parent: ws.Snapshots().Head()}
	if name != "" {
		var err error
		if start, err = ws.Find(name); err != nil || start.Image != nil {
			return ws, start, err
		}
	}

	for ; ws != nil; ws, start = forkPoint(ws) {
		for _, before := range ancestors(ws, start) {
			if before.Image != nil {
				return ws, before, nil
			}
		}
	}

	return nil, info.Info{}, nil
}

func (*imports) findImage(_ context.Context, r *Request, a GetImage) (FoundImage, error) {
	_, i, err := lastImageImport(r.Workspace, a.Name)
	return FoundImage{Snapshot: i.Name, Image: i.Image}, err
}

// findImport finds a snapshot by its name in a workspace or in the workspaces above. It fails if the snapshot was not
// taken by an import of an image.
func findImport(ws *snapshot.Workspace, name string) (*snapshot.Workspace, info.Info, error) {
	i, err := ws.Find(name)
	for up := ws.Parent(); errors.Is(err, catalogue.ErrNotFound) && up != nil; up = up.Parent() {
		if found, uerr := up.Find(name); uerr == nil {
			ws, i, err = up, found, nil
		}
	}
	if err != nil {
		return ws, i, err
	}
	if i.Image == nil {
		return ws, i, errs.Fail(errs.Invalid, "%s is not a snapshot that `amberfs import --image` took", name)
	}

	return ws, i, nil
}

// writeLayer writes the changes of a snapshot since the import of its image as a layer. If no image
// was imported, the layer has all files of the snapshot.
func (*imports) writeLayer(ctx context.Context, r *Request, a ExportLayer) (out Layer, err error) {
	now, err := r.Workspace.Find(a.Name)
	if err != nil {
		return out, err
	}

	o := archive.LayerOptions{Source: r.source, Base: tree.New(1, &tree.Inode{Ino: tree.RootIno, Mode: unix.S_IFDIR, Nlink: 2})}
	var release func()
	if o.Target, release, err = r.Workspace.Remotes().HoldToSend(ctx, now.Name); err != nil {
		return out, err
	}
	defer release()

	find, name := lastImageImport, a.Name
	if a.Base != "" {
		find, name = findImport, a.Base
	}

	ws, base, err := find(r.Workspace, name)
	if err != nil {
		return out, err
	}

	out.Created = now.Created

	if im := base.Image; im != nil {
		if im.Merged {
			return out, errs.Fail(errs.Failed, "%s has files that were there before the image was imported, so its layers are not what %s has", base.Name, im.Ref).
				WithHint("import the image into an empty directory, or name another --base")
		}

		out.FoundImage, o.Dir, o.Owner = FoundImage{base.Name, im}, im.Path, (*stream.Owner)(im.Owner)
		if o.Base, release, err = ws.Remotes().HoldToSend(ctx, base.Name); err != nil {
			return out, err
		}
		defer release()
	}

	written, err := archive.WriteLayer(ctx, r.Out, o)
	if err != nil {
		return out, err
	}

	out.Files, out.Bytes, out.Skipped = written.Files, written.Bytes, written.Skipped[:min(len(written.Skipped), maxSkipped)]
	return out, nil
}
