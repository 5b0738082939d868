package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/remote/image"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/stream"
)

type importOptions struct {
	git                  gitbridge.GitSource
	tar, image, platform string
	req                  service.Import
}

func importCommand(a *app) *cobra.Command {
	o := &importOptions{}
	cmd := &cobra.Command{
		Use:   "import (--git REPO REV | --tar FILE | --image REF | DIR) [PATH]",
		Short: "Bring a tree in",
		Long: `Copies a tree into the workspace, to its root or to PATH: a revision of a git
repository, a tar archive (also gzip, zstd or bzip2), a container image, or a directory.
The tree appears all at once. Files are replaced, nothing is deleted.

REF is HOST/NAME:TAG, oci:DIR:TAG or docker-archive:FILE.`,
		Example: `  amberfs import --git ~/src/linux v6.12 linux
  curl -L https://example.org/x.tar.gz | amberfs import --tar - vendor/x
  amberfs import --image debian:12
  amberfs import ~/project`,
		Args: func(cmd *cobra.Command, argv []string) error {
			switch {
			case o.git.Repo != "" && o.tar != "" || o.image != "" && o.git.Repo+o.tar != "":
				return errs.Fail(errs.Invalid, "--git, --tar and --image cannot be used together")
			case o.git.Repo != "":
				return argumentCountCheck(1, 2, "with --git a REV and perhaps a PATH")(cmd, argv)
			case o.tar+o.image != "":
				return argumentCountCheck(0, 1, "with --tar or --image at most a PATH")(cmd, argv)
			}
			return argumentCountCheck(1, 2, "a DIR and perhaps a PATH")(cmd, argv)
		},
		RunE: func(cmd *cobra.Command, argv []string) error { return importTree(cmd.Context(), a, *o, argv) },
	}

	cmd.Flags().StringVar(&o.git.Repo, "git", "", "import a revision of the repository `REPO`")
	cmd.Flags().BoolVar(&o.git.TrustConfig, "trust-config", false, "allow a linked worktree")
	cmd.Flags().Int64Var(&o.req.MaxFiles, "max-files", 0, "refuse more than `N` files. Default: 20 million")
	cmd.Flags().Int64Var(&o.req.MaxBytes, "max-bytes", 0, "refuse more than `N` bytes. Default: 1 TiB")
	cmd.Flags().StringVar(&o.tar, "tar", "", "import the archive `FILE`; - is standard input")
	cmd.Flags().StringVar(&o.image, "image", "", "import the container image `REF`")
	cmd.Flags().StringVar(&o.platform, "platform", "", "the `PLATFORM` of the image, such as linux/arm/v7. Default: this machine's")

	return cmd
}

// importTree imports the tree that the options or the first word name. The next word, if there is one, is the path in
// the workspace.
func importTree(ctx context.Context, a *app, o importOptions, words []string) error {
	p, err := a.location()
	if err != nil {
		return err
	}

	umask := syscall.Umask(0) // the umask can only be read by setting it
	syscall.Umask(umask)
	o.req.Umask = uint32(umask)
	i := &importer{a: a, location: p, bar: a.newProgress(), req: o.req}

	switch {
	case o.git.Repo != "":
		o.git.Rev = words[0]
		words = words[1:]
		err = i.setGitSource(o.git)
	case o.tar != "":
		err = i.setTarSource(o.tar)
	case o.image != "":
		err = i.setImageSource(ctx, o.image, o.platform)
	default:
		err = i.setDirSource(words[0])
		words = words[1:]
	}
	if err != nil {
		return err
	}

	return i.importTo(ctx, words)
}

// An importer sends a tree to the daemon, as a tar archive or as a stream of entries.
type importer struct {
	a        *app
	location locate.Location
	req      service.Import
	bar      *progress
	skipped  []stream.Omission
	send     func(ctx context.Context, w io.Writer) error
	// sendFile sends an open file to the daemon, see client.Client.SendFile.
	sendFile func(fd int) bool
}

// importTo imports the tree to the path in argv, or to the root of the workspace.
func (i *importer) importTo(ctx context.Context, argv []string) error {
	if i.location.Snapshot != "" {
		return errs.Fail(errs.Failed, "the snapshot %s cannot be changed", i.location.Snapshot).WithHint("go to the workspace")
	}
	i.req.Path = "."
	if len(argv) > 0 {
		var err error
		if i.req.Path, err = workspacePath(i.location, argv[0]); err != nil {
			return err
		}
	}
	defer i.bar.done()

	done, err := i.sendAll(ctx)
	i.bar.done()
	if err != nil {
		return err
	}

	done.Skipped = append(done.Skipped, i.skipped...)
	return printImported(i.a, done)
}

// errDaemonStopped is the error of writes after the daemon has stopped reading.
var errDaemonStopped = errors.New("the daemon accepts no more")

// A treeBody is the body of a request that sends a tree. net/http calls WriteTo, so that the tree is written to the
// connection without a pipe.
type treeBody struct {
	ctx        context.Context
	send       func(w io.Writer) error
	sendResult chan error // receives the error of send when it returns
}

// WriteTo implements io.WriterTo. When the context ends, send may be blocked in a read of its input. Then WriteTo
// returns, so that the request ends, and send gets an error from its next write.
func (b *treeBody) WriteTo(w io.Writer) (int64, error) {
	to := &stoppingWriter{conn: w}
	go func() { b.sendResult <- b.send(to) }()

	select {
	case err := <-b.sendResult:
		b.sendResult <- err
		return 0, err
	case <-b.ctx.Done():
		to.stop()
		return 0, b.ctx.Err()
	}
}

// Read implements io.Reader. It is not called, because net/http calls WriteTo.
func (b *treeBody) Read([]byte) (int, error) { return 0, errors.ErrUnsupported }

// A stoppingWriter writes to a connection. Write returns errDaemonStopped after stop, and when the connection fails.
type stoppingWriter struct {
	mu      sync.Mutex
	conn    io.Writer
	stopped bool
}

func (w *stoppingWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	if w.stopped {
		return 0, errDaemonStopped
	}
	n, err := w.conn.Write(p)
	if err != nil {
		err = fmt.Errorf("%w: %w", errDaemonStopped, err)
	}

	return n, err
}

func (w *stoppingWriter) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
}

// sendAll calls the operation, and sends the tree to it. If both fail, it returns the first error, because the
// second one is a consequence of the first.
func (i *importer) sendAll(ctx context.Context) (imported service.Imported, err error) {
	sending, stop := context.WithCancel(ctx)
	defer stop()

	c, err := i.a.openClient(ctx, i.location)
	if err != nil {
		return imported, err
	}
	defer c.Close()

	i.sendFile = c.SendFile
	body := &treeBody{sending, func(w io.Writer) error { return i.send(sending, w) }, make(chan error, 1)}
	err = c.Do(ctx, i.req, client.Streams{In: body}, &imported)
	stop()

	var serr error // the error of send, if send has returned
	if err == nil {
		serr = <-body.sendResult
	} else {
		select {
		case serr = <-body.sendResult:
		default: // send is still blocked in a read of its input, and has no error
		}
	}

	if serr == nil || errors.Is(serr, errDaemonStopped) || errors.Is(serr, context.Canceled) {
		return imported, err
	}

	return imported, service.WithKind(serr)
}

func (i *importer) setGitSource(source gitbridge.GitSource) (err error) {
	i.req.From = service.FromGit
	source.Repo, err = i.a.absPath(source.Repo)
	i.send = i.entrySender(func(ctx context.Context, sink stream.Sink) error {
		_, err := gitbridge.ReadGit(ctx, source, sink, i.streamOptions())
		return err
	})

	return err
}

// setDirSource sets the source of the import to a directory. The import leaves out the mount and the store of the
// workspace.
func (i *importer) setDirSource(name string) error {
	i.req.From = service.FromDir
	dir, err := i.a.absPath(name)
	if err != nil {
		return err
	}

	debug.SetGCPercent(400) // saves a quarter of the processor time, and uses 10 MB more memory
	i.send = i.entrySender(func(ctx context.Context, sink stream.Sink) error {
		return hostdir.Read(ctx, dir, sink, hostdir.ReadOptions{
			Options: i.streamOptions(), Exclude: []string{i.location.Store, i.location.Mount.Mountpoint},
		})
	})
	if err = checkOutsideMounts(dir); err == nil {
		i.bar.expectFilesOf(dir)
	}

	return err
}

func (i *importer) setTarSource(name string) error {
	i.req.From = service.FromTar
	in, err := i.a.openInput(name)
	total := int64(0) // stays 0 for a pipe, whose size is unknown
	if f, ok := in.(*os.File); ok {
		if st, err := f.Stat(); err == nil && st.Mode().IsRegular() {
			total = st.Size()
		}
	}

	i.send = func(_ context.Context, w io.Writer) error {
		defer in.Close()
		_, err := io.Copy(w, io.TeeReader(bufio.NewReaderSize(in, 256<<10), i.bar.byteCounter("importing", total)))
		return err
	}

	return err
}

func (i *importer) setImageSource(ctx context.Context, ref, platform string) error {
	i.req.From, i.req.Image = service.FromImage, ref
	ref, err := absImageRef(i.a, ref)
	if err != nil {
		return err
	}

	im, err := image.Open(ctx, ref, platform)
	i.send = func(ctx context.Context, w io.Writer) error {
		return im.Send(ctx, w, i.bar.byteCounter("importing", im.Size()))
	}

	return service.WithKind(err)
}

// absImageRef makes the path in a reference absolute.
func absImageRef(a *app, ref string) (string, error) {
	for _, kind := range []string{"oci:", "docker-archive:"} {
		if file, ok := strings.CutPrefix(ref, kind); ok {
			file, err := a.absPath(file)
			return kind + file, err
		}
	}
	return ref, nil
}

func (i *importer) entrySender(read func(context.Context, stream.Sink) error) func(context.Context, io.Writer) error {
	return func(ctx context.Context, w io.Writer) error {
		sink := stream.NewWriter(w)
		sink.SendFile = i.sendFile
		if err := read(ctx, sink.Add); err != nil {
			return err
		}

		return sink.Close()
	}
}

func (i *importer) streamOptions() stream.Options {
	return stream.Options{
		Umask:    i.req.Umask,
		Limits:   stream.Limits{Entries: i.req.MaxFiles, Bytes: i.req.MaxBytes},
		Progress: service.FilesProgress(i.bar.show, "importing", 0),
		Skip: func(path string, reason error) {
			i.skipped = append(i.skipped, stream.Omission{Path: path, Reason: reason.Error()})
		},
	}
}

func printImported(a *app, imported service.Imported) error {
	if len(imported.Skipped) > 0 && !a.json {
		for i, s := range imported.Skipped {
			if i == 10 {
				a.note("and %d more: see --json", len(imported.Skipped)-i)
				break
			}

			a.note("left out %s: %s", quote(s.Path), s.Reason)
		}
	}
	return a.print(imported, func() {
		target := ""
		if imported.Path != "" && imported.Path != "." {
			target = " to " + quote(imported.Path)
		}
		if imported.Snapshot != "" {
			target += ": snapshot " + imported.Snapshot
		}

		a.printf("imported %s, %s%s\n", plural(int(imported.Files), "file", "files"), service.BytesText(imported.Bytes), target)
	})
}

// openInput opens a file that the user named. The name "-" means the standard input.
func (a *app) openInput(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(a.stdin), nil
	}
	path, err := a.absPath(name)
	if err != nil {
		return nil, err
	}

	f, err := os.Open(path)
	if err != nil {
		return nil, errs.Fail(errs.ScriptKind(err), "cannot read %s: %w", name, err)
	}

	return f, nil
}

// readInput reads a file that the user named. The name "-" means the standard input.
func (a *app) readInput(name string) ([]byte, error) {
	in, err := a.openInput(name)
	if err != nil {
		return nil, err
	}
	defer in.Close()

	text, err := io.ReadAll(in)
	if err != nil {
		return nil, errs.Fail(errs.ScriptKind(err), "cannot read %s: %w", name, err)
	}

	return text, nil
}

func checkOutsideMounts(dir string) error {
	mounts, err := locate.Mounts()
	if err != nil {
		return err
	}

	if p, err := locate.Find(mounts, dir); err == nil {
		return errs.Fail(errs.Invalid, "%s is inside the amberfs mount at %s", dir, p.Mount.Mountpoint).
			WithHint("copy it with `cp -a`, which shares its data")
	}

	return nil
}
