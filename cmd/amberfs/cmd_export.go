package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/archive"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/remote/image"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
)

func exportCommand(a *app) *cobra.Command {
	var e gitbridge.ExportOptions
	var tarFile, imageRef, base string
	cmd := &cobra.Command{
		Use:   "export NAME (--git REPO [--ref REF] [--gitignore] [-m MESSAGE] [--no-parent] | --tar FILE | --image REF [--base SNAPSHOT])",
		Short: "Write a snapshot as a git commit, a tar archive or a container image",
		Long: `With --git, prints the commit's id. Only the ref changes: refs/sandbox/snapshots/NAME,
or --ref. With --image, prints the digest. The image has the layers of the imported one,
and one of what changed since.

The same snapshot gives the same archive and image.`,
		Example: `  amberfs export v1 --git .
  amberfs export v1 --tar - | docker import -
  amberfs export v1 --image docker-archive:v1.tar`,
		Args: argumentCountCheck(1, 1, "one NAME"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			switch {
			case e.Repo != "" && tarFile != "" || imageRef != "" && e.Repo+tarFile != "":
				return errs.Fail(errs.Invalid, "--git, --tar and --image cannot be used together")
			case imageRef != "":
				return exportImage(a, cmd, service.ExportLayer{Name: argv[0], Base: base}, imageRef)
			case tarFile != "":
				return exportTar(a, cmd, argv[0], tarFile)
			case e.Repo == "":
				return errs.Fail(errs.Invalid, "export needs --git REPO, --tar FILE or --image REF")
			}
			return exportGit(cmd.Context(), a, argv[0], e)
		},
	}

	cmd.Flags().StringVar(&e.Repo, "git", "", "write a commit into the repository `REPO`")
	cmd.Flags().StringVar(&e.Ref, "ref", "", "write this `REF`")
	cmd.Flags().BoolVar(&e.TrustConfig, "trust-config", false, "run the filters that REPO's configuration names, and allow a linked worktree")
	cmd.Flags().BoolVar(&e.Gitignore, "gitignore", false, "leave out what git ignores")
	cmd.Flags().StringVarP(&e.Message, "message", "m", "", "commit `MESSAGE` instead of the snapshot's")
	cmd.Flags().BoolVar(&e.NoParent, "no-parent", false, "create a commit without a parent")
	cmd.Flags().StringVar(&tarFile, "tar", "", "write an archive to `FILE`; - is standard output")
	cmd.Flags().StringVar(&imageRef, "image", "", "write the container image `REF`")
	cmd.Flags().StringVar(&base, "base", "", "what changed since the import that made `SNAPSHOT`. Default: the last")

	return cmd
}

// exportGit writes a commit in this process, with the rights of the user. The daemon sends the objects of the
// snapshot.
func exportGit(ctx context.Context, a *app, name string, e gitbridge.ExportOptions) error {
	p, c, err := a.openClientHere(ctx)
	if err != nil {
		return err
	}
	defer c.Close()

	if e.Repo, err = a.absPath(e.Repo); err != nil {
		return err
	}

	bar := a.newProgress()
	defer bar.done()

	s, err := c.Snapshot(ctx, name)
	if err != nil {
		return err
	}
	defer s.Close()

	e.Source, e.State, e.Prefetch = s.Source, s.Tree, s.Prefetch
	e.Info, e.Bases, e.CacheDir = service.GitInfo(s.Info, s.Parents), s.GitBases(), filepath.Join(p.Store, service.GitCache)
	e.Progress = service.FilesProgress(bar.show, "exporting", s.Info.Files)
	done, err := gitbridge.Export(ctx, e)
	bar.done()
	if err != nil {
		return service.WithKind(err)
	}

	exported := service.Exported{Name: s.Info.Name, Repo: e.Repo, Ref: done.Ref, Commit: done.Commit}
	if err := c.Do(ctx, exported, client.Streams{}, nil); err != nil {
		a.note("the snapshot was exported, but the store could not record it: %v", err)
	}
	if n := len(done.Skipped) + len(done.Reduced); n > 0 && !a.json {
		a.note("git cannot represent %s exactly: see --json for the list", plural(n, "path", "paths"))
	}

	return a.print(done, func() { a.printf("%s\n", done.Commit) })
}

// exportTar writes an archive. It replaces file only when the archive is complete.
func exportTar(a *app, cmd *cobra.Command, name, file string) error {
	var done archive.TarResult
	p, err := a.location()
	if err != nil {
		return err
	}

	download := func(w io.Writer) error {
		buf := bufio.NewWriterSize(w, 1<<20)
		if err := a.callWithStreams(cmd.Context(), p, service.ExportTar{Name: name}, client.Streams{Out: buf}, &done); err != nil {
			return err
		}
		if n := len(done.Skipped); n > 0 {
			a.note("tar cannot represent %s", plural(n, "path", "paths"))
		}

		return buf.Flush()
	}
	if file == "-" {
		if isTerminal(a.out) {
			return errs.Fail(errs.Invalid, "an archive is not written to a terminal").WithHint("send it to a file or a pipe")
		}
		return download(a.out)
	}

	path, err := a.absPath(file)
	if err != nil {
		return err
	}
	if err := writeFile(path, download); err != nil {
		return err
	}

	return a.print(done, func() {})
}

// writeFile writes a file under a temporary name, and renames it when it is complete. It writes to a pipe or a device
// directly.
func writeFile(path string, write func(io.Writer) error) error {
	tempName, flags := path+".part-"+rand.Text()[:8], os.O_WRONLY|os.O_CREATE|os.O_EXCL
	st, err := os.Stat(path)
	if err == nil && !st.Mode().IsRegular() {
		tempName, flags = path, os.O_WRONLY
	}

	f, err := os.OpenFile(tempName, flags, 0o666)
	if err != nil {
		return errs.Fail(errs.ScriptKind(err), "cannot write %s: %w", path, err)
	}
	if tempName != path {
		defer os.Remove(tempName)
	}

	if err := errors.Join(write(f), f.Close()); err != nil || tempName == path {
		return err
	}
	if err := os.Rename(tempName, path); err != nil {
		return errs.Fail(errs.ScriptKind(err), "cannot write %s: %w", path, err)
	}

	return nil
}

// exportedImage is the result of the export of an image.
type exportedImage struct {
	Digest string `json:"digest"`
	service.Layer
}

// exportImage writes an image in this process, with the rights of the user. The daemon sends the new layer. The layers
// of the base image are read from the store.
func exportImage(a *app, cmd *cobra.Command, req service.ExportLayer, ref string) error {
	ctx := cmd.Context()
	ref, err := absImageRef(a, ref)
	if err != nil {
		return err
	}

	p, c, err := a.openClientHere(ctx)
	if err != nil {
		return err
	}
	defer c.Close()

	f, err := os.CreateTemp("", "amberfs-layer-")
	if err != nil {
		return errs.Fail(errs.ScriptKind(err), "cannot make a temporary file: %w", err)
	}
	defer f.Close()

	os.Remove(f.Name())
	bar := a.newProgress()
	defer bar.done()

	done := exportedImage{}
	e := image.Export{Layer: f}
	err = e.Compress(func(w io.Writer) error {
		return c.Do(ctx, req, client.Streams{Out: io.MultiWriter(w, bar.byteCounter("exporting", 0))}, &done.Layer)
	})
	if err != nil {
		return err
	}

	store, err := vfs.OpenRoot(p.Store)
	if err != nil {
		return errs.Fail(errs.ScriptKind(err), "cannot read the store: %w", err)
	}
	defer store.Close()

	e.Blobs, e.Created = image.Blobs{FS: store, Dir: filepath.Join(p.Store, service.ImageBlobs)}, done.Created
	if done.Image != nil {
		e.Base = digest.Digest(done.Image.Digest)
	}

	var d digest.Digest
	if file, ok := strings.CutPrefix(ref, "docker-archive:"); ok {
		err = writeFile(file, func(w io.Writer) (err error) {
			d, err = e.WriteArchive(ctx, w)
			return err
		})
	} else {
		d, err = e.WriteImage(ctx, ref)
	}

	bar.done()
	if err != nil {
		return service.WithKind(err)
	}
	if n := len(done.Skipped); n > 0 && !a.json {
		a.note("an image cannot represent %s: see --json for the list", plural(n, "path", "paths"))
	}

	done.Digest = d.String()
	return a.print(done, func() { a.printf("%s\n", d) })
}
