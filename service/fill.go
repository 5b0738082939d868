package service

import (
	"context"
	"os"

	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/service/internal/importer"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
)

type FillOptions struct {
	Exclude []string // directories
	Show    func(Progress)
	// Skip is called for each path that cannot be read. It is left out.
	Skip func(path string, reason error)
	// Found, if set, is called with a description of each absolute path in the copy that leads
	// back into the directory. Relink makes symbolic links with such paths relative.
	Found  func(text string)
	Relink bool
	// Stubs copies entries that cannot be read without their contents, instead of skipping them.
	Stubs bool
}

func (o FillOptions) dir() gitbridge.DirOptions {
	return gitbridge.DirOptions{
		ImportOptions: gitbridge.ImportOptions{Skip: o.Skip, Progress: func(p gitbridge.Progress) {
			o.Show(Progress{What: "importing", Done: p.Files, Unit: "files", Bytes: p.Bytes})
		}},
		Exclude: o.Exclude, Whole: true, Stubs: o.Stubs,
	}
}

// Fill fills the workspace of a new store from a directory, without the excluded ones.
func Fill(ctx context.Context, s *snapshot.Store, dir string, o FillOptions) error {
	finished := s.Importing()
	defer finished()
	at := importer.At{Made: gitbridge.Meta{Mode: 0o755}, Top: true}
	st, err := build(ctx, s, at, func(b *importer.Builder) error {
		if o.Found == nil {
			return gitbridge.ReadDir(ctx, dir, b.Add, o.dir())
		}
		l := &look{dir: dir, relink: o.Relink}
		err := gitbridge.ReadDir(ctx, dir, l.sink(b.Add), o.dir())
		if text := l.found(); err == nil && text != "" {
			o.Found(text)
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.Main().Begin(st, caller())
}

func caller() actors.Caller { return actors.Caller{UID: uint32(os.Getuid()), PID: uint32(os.Getpid())} }
