package service

import (
	"context"
	"math"

	"github.com/amberfs/amberfs/snapshot"
)

// found is a snapshot that came of an image, nil for none, with its workspace.
type found struct {
	ws   *snapshot.Workspace
	info *snapshot.Info
}

// imageOf finds the image that a snapshot, or the present state without a name, was made
// on top of: in its workspace and in those that this one was forked from.
func imageOf(ws *snapshot.Workspace, name string) (found, error) {
	at := snapshot.Info{Seq: math.MaxUint64, Parent: ws.Snapshots().Head()}
	if name != "" {
		var err error
		if at, err = ws.Find(name); err != nil || at.Image != nil {
			return found{ws, &at}, err
		}
	}
	for ; ws != nil; ws, at = forkPoint(ws) {
		for _, before := range ancestors(ws, at) {
			if before.Image != nil {
				return found{ws, &before}, nil
			}
		}
	}
	return found{}, nil
}

func (s *Service) image(_ context.Context, r *Request, a GetImage) (FoundImage, error) {
	f, err := imageOf(r.Workspace, a.Name)
	if err != nil || f.info == nil {
		return FoundImage{}, err
	}
	return FoundImage{Snapshot: f.info.Name, Image: f.info.Image}, nil
}
