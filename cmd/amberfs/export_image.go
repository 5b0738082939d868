package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/remote/image"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
)

// exportedImage is what an export wrote.
type exportedImage struct {
	Digest string `json:"digest"`
	service.Layer
}

// exportImage writes, as the user, the layer that the daemon sends and those of the image
// below, which the store has kept.
func (a *app) exportImage(cmd *cobra.Command, from service.ExportLayer, ref string) error {
	ctx := cmd.Context()
	ref, err := a.imageRef(ref)
	if err != nil {
		return err
	}
	p, c, err := a.openHere(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	f, err := os.CreateTemp("", "amberfs-layer-")
	if err != nil {
		return fail.New(fail.KindOf(err), "cannot make a temporary file: %w", err)
	}
	defer f.Close()
	os.Remove(f.Name())
	bar := a.newProgress()
	defer bar.done()
	done := exportedImage{}
	e := image.Export{Layer: f}
	err = e.Compress(func(w io.Writer) error {
		return c.Do(ctx, from, client.Exchange{Out: io.MultiWriter(w, bar.counter("exporting", 0))}, &done.Layer)
	})
	if err != nil {
		return err
	}
	store, err := vfs.OpenBeneath(p.Store)
	if err != nil {
		return fail.New(fail.KindOf(err), "cannot read the store: %w", err)
	}
	defer store.Close()
	e.Blobs, e.Created = image.Blobs{FS: store, Dir: filepath.Join(p.Store, service.ImageBlobs)}, done.Created
	if done.Image != nil {
		e.Base = digest.Digest(done.Image.Digest)
	}
	var d digest.Digest
	if file, ok := strings.CutPrefix(ref, "docker-archive:"); ok {
		err = writeFile(file, func(w io.Writer) (err error) {
			d, err = e.ToArchive(ctx, w)
			return err
		})
	} else {
		d, err = e.To(ctx, ref)
	}
	bar.done()
	if err != nil {
		return service.Explain(err)
	}
	if n := len(done.Skipped); n > 0 && !a.json {
		a.note("an image cannot represent %s: see --json for the list", plural(n, "path", "paths"))
	}
	done.Digest = d.String()
	return a.print(done, func() { a.printf("%s\n", d) })
}
