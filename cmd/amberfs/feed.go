package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/control"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/feed"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/gitbridge"
)

// errStopped is what the reader of a tree gets when the daemon takes no more.
var errStopped = errors.New("the daemon takes no more")

// bringIn sends the tree that read finds to the daemon, which makes it visible
// when all of it is there. ctx of read ends when the daemon has refused it.
func (a *app) bringIn(ctx context.Context, p locate.Place, req api.Import, read func(context.Context, gitbridge.Sink) error) (done api.Imported, err error) {
	pr, pw := io.Pipe()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	result := make(chan error, 1)
	go func() {
		w := feed.NewWriter(pw)
		err := read(reading, w)
		if err == nil {
			err = w.Close()
		}
		pw.CloseWithError(err)
		result <- err
	}()
	err = a.ask(ctx, p, request{op: "import", args: req, input: pr}, &done)
	stop()
	pr.CloseWithError(errStopped)
	// Whoever failed first knows why: the other one only sees that it did.
	if rerr := <-result; rerr != nil && !errors.Is(rerr, errStopped) && !errors.Is(rerr, context.Canceled) {
		return done, api.GitError(rerr)
	}
	return done, err
}

// importOptions are those of every source. What is left out is noted in skipped.
func (a *app) importOptions(bar *progress, umask uint32, skipped *[]api.Skipped) gitbridge.ImportOptions {
	return gitbridge.ImportOptions{
		Umask: umask,
		Progress: func(p gitbridge.Progress) {
			bar.show(control.Progress{What: "importing", Done: p.Files, Unit: "files"})
		},
		Skip: func(path string, reason error) {
			*skipped = append(*skipped, api.Skipped{Path: path, Reason: reason.Error()})
		},
	}
}

// mayMake leaves out the devices that mknod(2) refuses to this user.
type mayMake struct {
	gitbridge.Sink
	skip func(path string, reason error)
}

func (m mayMake) Special(path string, meta gitbridge.Meta, rdev uint32) error {
	kind := meta.Mode & unix.S_IFMT
	// The device 0:0 is a whiteout, which anybody may make.
	if device := kind == unix.S_IFCHR || kind == unix.S_IFBLK; device && rdev != 0 && os.Geteuid() != 0 {
		m.skip(path, fmt.Errorf("%q is a device: only root makes these", path))
		return nil
	}
	return m.Sink.Special(path, meta, rdev)
}
