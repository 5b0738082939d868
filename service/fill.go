package service

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"io"
	"os"

	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/service/internal/importer"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

type FillOptions struct {
	Exclude []string // directories
	Show    func(Progress)
	// Skip is called for each path that cannot be read. It is left out.
	Skip func(path string, reason error)
}

func (o FillOptions) dir(later *gitbridge.Later) gitbridge.DirOptions {
	return gitbridge.DirOptions{
		ImportOptions: gitbridge.ImportOptions{Skip: o.Skip, Progress: func(p gitbridge.Progress) {
			o.Show(Progress{What: "importing", Done: p.Files, Unit: "files", Bytes: p.Bytes})
		}},
		Exclude: o.Exclude, Later: later,
	}
}

// Fill fills the workspace of a new store from a directory, without the excluded ones.
func Fill(ctx context.Context, s *snapshot.Store, dir string, o FillOptions) error {
	finished := s.Importing()
	defer finished()
	at := importer.At{Made: gitbridge.Meta{Mode: 0o755}, Top: true}
	st, err := build(ctx, s, at, func(b *importer.Builder) error {
		return gitbridge.ReadDir(ctx, dir, b.Add, o.dir(nil))
	})
	if err != nil {
		return err
	}
	return s.Main().Begin(st, caller())
}

func caller() live.Caller { return live.Caller{UID: uint32(os.Getuid()), PID: uint32(os.Getpid())} }

// FillLater is Fill without the contents of files, which are read when they are needed,
// at the latest by the first checkpoint. Until then, a listing in the journal has what
// Refill needs to make the same tree again.
func FillLater(ctx context.Context, s *snapshot.Store, dir string, o FillOptions) error {
	defer s.Importing()()
	later, err := gitbridge.NewLater(dir)
	if err != nil {
		return err
	}
	begin := func(w io.Writer) (snapshot.Outside, error) {
		buf := bufio.NewWriterSize(w, 1<<20)
		listing := gob.NewEncoder(buf)
		return outside(ctx, s.CAS(), later, func(sink gitbridge.Sink) error {
			err := listing.Encode(dir)
			if err != nil {
				return err
			}
			err = gitbridge.ReadDir(ctx, dir, func(e gitbridge.Entry) error {
				if err := sink(e); err != nil {
					return err
				}
				e.Data = nil // it has none
				return listing.Encode(e)
			}, o.dir(later))
			return errors.Join(err, buf.Flush())
		})
	}
	return s.Main().BeginOutside(begin, caller())
}

// Refill makes the tree of a listing again, for snapshot.Options.
func Refill(objects content.ObjectStore, r io.Reader) (snapshot.Outside, error) {
	listing := gob.NewDecoder(bufio.NewReader(r))
	var dir string
	if err := listing.Decode(&dir); err != nil {
		return snapshot.Outside{}, err
	}
	later, _ := gitbridge.NewLater(dir) // if it is gone, so are its files
	return outside(context.Background(), objects, later, func(sink gitbridge.Sink) error {
		for {
			var e gitbridge.Entry
			if err := listing.Decode(&e); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			if e.Later != nil {
				later.Again(e)
			}
			if err := sink(e); err != nil {
				return err
			}
		}
	})
}

// outside makes a tree of what read imports. The source of the contents is later.
func outside(ctx context.Context, objects content.ObjectStore, later *gitbridge.Later, read func(gitbridge.Sink) error) (snapshot.Outside, error) {
	at := importer.At{Made: gitbridge.Meta{Mode: 0o755}, Top: true, Later: true}
	b := importer.New(ctx, tree.NewSource(objects, later, 1<<20), objects, at)
	if err := read(b.Add); err != nil {
		return snapshot.Outside{}, err
	}
	st, next, epoch := b.Unsealed()
	return snapshot.Outside{State: st, NextIno: next, Epoch: epoch, Log: later}, nil
}

// BringIn returns when all that is outside of the store is in it.
func BringIn(ctx context.Context, s *snapshot.Store) error {
	if _, err := s.Main().Snapshots().WaitSealed(ctx, snapshotBase); err != nil {
		return err
	}
	return s.Checkpoint(ctx)
}
