package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
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
			req := api.Import{Path: ".", Umask: uint32(umask())}
			r := request{progress: true}
			switch {
			case repo != "":
				r.op, req.Rev = "import-git", argv[0]
				argv = argv[1:]
				req.Repo, err = a.abs(repo)
			case tarFile != "":
				r.op = "import-tar"
				var in io.ReadCloser
				if in, err = a.openInput(tarFile); err == nil {
					defer in.Close()
				}
				r.input = in
			default:
				r.op = "import-dir"
				req.Dir, err = a.abs(argv[0])
				argv = argv[1:]
				if err == nil {
					err = outsideMounts(req.Dir)
				}
			}
			if err != nil {
				return err
			}
			if len(argv) == 1 {
				if req.Path, err = relPath(p, argv[0]); err != nil {
					return err
				}
			}
			r.args = req
			var done api.Imported
			if err := a.ask(cmd.Context(), p, r, &done); err != nil {
				return err
			}
			return a.printImported(done)
		},
	}
	cmd.Flags().StringVar(&repo, "git", "", "bring in a revision of the repository `REPO`")
	cmd.Flags().StringVar(&tarFile, "tar", "", "bring in the archive `FILE`, - for the standard input")
	return cmd
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

// outsideMounts refuses a directory that the daemon would have to read through
// its own mount.
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
