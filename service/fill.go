package service

import (
	"context"
	"os"

	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/service/internal/importer"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/stream"
)

// FillOptions are the options of Fill.
type FillOptions struct {
	Exclude []string // directories
	Hidden  hostdir.Hidden
	Show    func(Progress)
	// Skip is called for each path that cannot be read and is left out of the copy.
	Skip func(path string, reason error)
	// Found, if set, is called once with a description of the absolute paths in the copy that lead
	// back into the directory, if there are any. Relink makes symbolic links with such paths relative.
	Found  func(text string)
	Relink bool
	// Stubs copies entries that cannot be read without their contents, instead of skipping them.
	Stubs bool
}

func (o FillOptions) dirOptions() hostdir.ReadOptions {
	return hostdir.ReadOptions{
		Options: stream.Options{Skip: o.Skip, Progress: func(p stream.Progress) {
			o.Show(Progress{What: "importing", Done: p.Files, Unit: "files", Bytes: p.Bytes})
		}},
		Exclude: o.Exclude, Hidden: o.Hidden, Git: gitbridge.HostGit{}, Whole: true, Stubs: o.Stubs,
	}
}

// Fill copies a directory into the empty workspace of a new store.
func Fill(ctx context.Context, s *snapshot.Store, dir string, o FillOptions) error {
	defer s.Importing()()

	at := importer.At{Made: stream.Meta{Mode: 0o755}, Top: true}
	st, err := build(ctx, s, at, func(b *importer.Builder) error {
		if o.Found == nil {
			return hostdir.Read(ctx, dir, b.Add, o.dirOptions())
		}
		scan := &pathScan{dir: dir, relink: o.Relink}
		if err := hostdir.Read(ctx, dir, scan.sink(b.Add), o.dirOptions()); err != nil {
			return err
		}
		if text := scan.report(); text != "" {
			o.Found(text)
		}

		return nil
	})
	if err != nil {
		return err
	}

	return s.Main().Begin(st, actors.Caller{UID: uint32(os.Getuid()), PID: uint32(os.Getpid())})
}
