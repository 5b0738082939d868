package service

import (
	"context"

	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/tree"
)

func (s *Service) diff(ctx context.Context, r *Request, a Diff) (None, error) {
	tenant := r.tenant()
	list := s.Lists.Of(tenant).Charge()
	defer list.Release()
	return None{}, s.compare(r, a.A, a.B, func(from, to *tree.State) error {
		o := diff.Options{Binary: a.Binary, Width: a.Width, Memory: s.Memory.Of(tenant), List: list, Paths: limitTo(a.Paths...)}
		switch a.Format {
		case "", "patch":
			return diff.Write(ctx, r.Out, s.Store.Source(), from, to, o)
		case "stat":
			return diff.Stat(ctx, r.Out, s.Store.Source(), from, to, o)
		case "name-status":
			return diff.NameStatus(ctx, r.Out, s.Store.Source(), from, to, o)
		}
		return fail.New(fail.Usage, "there is no diff format %q", a.Format)
	})
}

// compare calls fn with both sides.
func (s *Service) compare(r *Request, a, b string, fn func(from, to *tree.State) error) error {
	from, to, err := states(r.Workspace, a, b)
	if err != nil {
		return err
	}
	defer s.Store.Hold(from)()
	defer s.Store.Hold(to)()
	return fn(from, to)
}

// states finds the two sides of a comparison; b == "" is now.
func states(ws *snapshot.Workspace, a, b string) (sa, sb *tree.State, err error) {
	if sa, err = ws.StateOf(a); err != nil {
		return nil, nil, err
	}
	if b == "" {
		sb, err = ws.State()
	} else {
		sb, err = ws.StateOf(b)
	}
	return sa, sb, err
}

func (s *Service) changes(ctx context.Context, r *Request, a Changes) (Diffed, error) {
	d := Diffed{Paths: []DiffedFile{}}
	list := r.charge(s.Lists)
	err := s.compare(r, a.A, a.B, func(from, to *tree.State) error {
		if a.Quick && a.Limit > 0 {
			first, more, err := diff.First(ctx, s.Store.Source(), from, to, diff.Options{Paths: limitTo(a.Paths...)}, a.Limit)
			if err != nil || more {
				d.Files, d.More = len(first), more
				for _, f := range first {
					d.Paths = append(d.Paths, diffedFile(f))
				}
				return err
			}
		}
		files, err := diff.Files(ctx, s.Store.Source(), from, to, diff.Options{List: list, Paths: limitTo(a.Paths...)})
		d.Files = len(files)
		if a.Limit > 0 {
			files = files[:min(a.Limit, len(files))]
		}
		for _, f := range files {
			d.Paths = append(d.Paths, diffedFile(f))
		}
		return err
	})
	return d, err
}

func diffedFile(f diff.File) DiffedFile {
	d := DiffedFile{Status: string(rune(f.Status)), Path: f.Path}
	if f.Status == diff.Renamed {
		d.From, d.Score = f.OldPath, f.Similarity
	}
	return d
}
