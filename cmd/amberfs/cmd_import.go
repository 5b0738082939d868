package main

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/snapshot"
)

func importCommand(a *app) *cobra.Command {
	var repo, tarFile string
	cmd := &cobra.Command{
		Use:   "import (--git REPO REV | --tar FILE | DIR) [PATH]",
		Short: "Bring a tree in, all at once",
		Long: `Brings a tree into the workspace, at its root or at PATH: a revision of a git
repository, a tar archive ("-" is the standard input; gzip and zstd are
recognised), or a directory. It does not go through the mount file by file, and
all of it becomes visible at one instant. What the store holds already is not
written again.`,
		Example: `  amberfs import --git ~/src/linux v6.12 linux
  curl -L https://example.org/x.tar.gz | amberfs import --tar - vendor/x
  amberfs import ~/project`,
		Args: func(cmd *cobra.Command, argv []string) error {
			switch {
			case repo != "" && tarFile != "":
				return fail.New(fail.Usage, "--git and --tar exclude each other")
			case repo != "":
				return args(1, 2, "with --git a REV and perhaps a PATH")(cmd, argv)
			case tarFile != "":
				return args(0, 1, "with --tar at most a PATH")(cmd, argv)
			}
			return args(1, 2, "a DIR and perhaps a PATH")(cmd, argv)
		},
		RunE: func(cmd *cobra.Command, argv []string) error {
			p, err := a.place()
			if err != nil {
				return err
			}
			req := api.Import{Umask: uint32(umask())}
			var read func(context.Context, gitbridge.Sink, gitbridge.ImportOptions) error
			switch {
			case repo != "":
				req.From = api.FromGit
				read, err = a.readGit(repo, argv[0])
				argv = argv[1:]
			case tarFile != "":
				req.From = api.FromTar
				in, oerr := a.openInput(tarFile)
				if oerr != nil {
					return oerr
				}
				defer in.Close()
				read = func(ctx context.Context, sink gitbridge.Sink, o gitbridge.ImportOptions) error {
					return gitbridge.ReadTar(ctx, in, sink, o)
				}
			default:
				req.From = api.FromDir
				read, err = a.readDir(argv[0], p)
				argv = argv[1:]
			}
			if err != nil {
				return err
			}
			to, err := destination(p, argv)
			if err != nil {
				return err
			}
			req.Path = snapshot.BytePath(to)
			bar := a.newProgress()
			var skipped []api.Skipped
			o := a.importOptions(bar, req.Umask, &skipped)
			done, err := a.bringIn(cmd.Context(), p, req, func(ctx context.Context, sink gitbridge.Sink) error {
				return read(ctx, mayMake{sink, o.Skip}, o)
			})
			bar.done()
			if err != nil {
				return err
			}
			done.Skipped = skipped
			return a.printImported(done)
		},
	}
	cmd.Flags().StringVar(&repo, "git", "", "bring in a revision of the repository `REPO`")
	cmd.Flags().StringVar(&tarFile, "tar", "", "bring in the archive `FILE`, - for the standard input")
	return cmd
}

// destination is the path in the workspace that a tree goes to: what argv names,
// or the root.
func destination(p locate.Place, argv []string) (string, error) {
	if p.Snapshot != "" {
		return "", fail.New(fail.Failed, "the snapshot %s cannot be changed", p.Snapshot).WithHint("go to the workspace")
	}
	if len(argv) == 0 {
		return ".", nil
	}
	return relPath(p, argv[0])
}

func (a *app) printImported(done api.Imported) error {
	if len(done.Skipped) > 0 && !a.json {
		for i, s := range done.Skipped {
			if i == 10 {
				a.note("and %d more: see --json", len(done.Skipped)-i)
				break
			}
			a.note("left out %s: %s", quote(s.Path), s.Reason)
		}
	}
	return a.print(done, func() {
		to := ""
		if done.Path != "" && done.Path != "." {
			to = " to " + quote(done.Path)
		}
		a.printf("imported %s, %s%s\n", plural(int(done.Files), "file", "files"), bytesText(done.Bytes), to)
	})
}

// openInput opens an archive.
func (a *app) openInput(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(a.stdin), nil
	}
	path, err := a.abs(name)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fail.New(fail.KindOf(err), "cannot read %s: %w", name, err)
	}
	return f, nil
}

// readGit returns what reads a revision of a repository.
func (a *app) readGit(repo, rev string) (func(context.Context, gitbridge.Sink, gitbridge.ImportOptions) error, error) {
	dir, err := a.abs(repo)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, sink gitbridge.Sink, o gitbridge.ImportOptions) error {
		_, err := gitbridge.ReadGit(ctx, gitbridge.GitSource{Repo: dir, Rev: rev}, sink, o)
		return err
	}, nil
}

// readDir returns what reads a directory. It never goes into a mount of the
// workspace that it is brought into: that would have no end.
func (a *app) readDir(dir string, p locate.Place) (func(context.Context, gitbridge.Sink, gitbridge.ImportOptions) error, error) {
	dir, err := a.abs(dir)
	if err != nil {
		return nil, err
	}
	if err := outsideMounts(dir); err != nil {
		return nil, err
	}
	return func(ctx context.Context, sink gitbridge.Sink, o gitbridge.ImportOptions) error {
		return gitbridge.ReadDir(ctx, dir, sink, gitbridge.DirOptions{
			ImportOptions: o, Exclude: []string{p.Store, p.Mount.Point},
		})
	}, nil
}

// outsideMounts refuses a directory that is in an amberfs mount.
func outsideMounts(dir string) error {
	mounts, err := locate.Mounts()
	if err != nil {
		return err
	}
	if p, err := locate.Find(mounts, dir); err == nil {
		return fail.New(fail.Usage, "%s lies inside the amberfs mount at %s", dir, p.Mount.Point).
			WithHint("copy it with `cp -a`, which shares its data")
	}
	return nil
}
