package service

import (
	"context"

	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// exportSource is a snapshot with what an export of it may build upon.
type exportSource struct {
	sealed
	parents []string // commits of snapshots before, the nearest first
	bases   []sealed // exported snapshots, the nearest first
}

const (
	maxParents = 1000
	maxBases   = 16
)

func exportable(ctx context.Context, ws *snapshot.Workspace, name string) (*exportSource, error) {
	one, err := waitSealed(ctx, ws, name)
	if err != nil {
		return nil, err
	}
	e, info := &exportSource{sealed: one}, one.info
	// Nothing is closer to a snapshot than itself.
	if len(e.info.GitCommits) > 0 {
		e.bases = append(e.bases, e.sealed)
	}
	for ; ws != nil; ws, info = forkPoint(ws) {
		for _, before := range ancestors(ws, info) {
			e.add(ws, before)
		}
	}
	return e, nil
}

// add takes a snapshot for a parent and a base, if it was exported.
func (e *exportSource) add(ws *snapshot.Workspace, before snapshot.Info) {
	for i := len(before.GitCommits) - 1; i >= 0 && len(e.parents) < maxParents; i-- {
		e.parents = append(e.parents, before.GitCommits[i])
	}
	if !before.Sealed || len(before.GitCommits) == 0 || len(e.bases) > maxBases {
		return
	}
	if s, err := sealedOf(ws, before); err == nil { // else it was deleted meanwhile
		e.bases = append(e.bases, s)
	}
}

// hold keeps all that the export reads until release is called.
func (e *exportSource) hold(s *snapshot.Store) (release func()) {
	releases := []func(){s.Hold(e.state)}
	for _, b := range e.bases {
		releases = append(releases, s.Hold(b.state))
	}
	return func() {
		for _, release := range releases {
			release()
		}
	}
}

func (e *exportSource) gitBases() []gitbridge.Base {
	var out []gitbridge.Base
	for _, b := range e.bases {
		for _, commit := range b.info.GitCommits {
			out = append(out, gitbridge.Base{Commit: commit, State: func() (*tree.State, error) { return b.state, nil }})
		}
	}
	return out
}

// forkPoint is where a workspace was forked from: the snapshots before its own
// are those of its parent, up to one that is given as if it came right after.
func forkPoint(ws *snapshot.Workspace) (*snapshot.Workspace, snapshot.Info) {
	up := ws.Parent()
	if up == nil {
		return nil, snapshot.Info{}
	}
	base, err := ws.Find(snapshotBase)
	if err != nil {
		return nil, base
	}
	for i := range up.Snapshots().Newest() {
		if i.Name == base.Parent || base.Parent == "" && !i.Created.After(base.Created) {
			return up, snapshot.Info{Seq: i.Seq + 1, Parent: i.Name}
		}
	}
	return nil, base
}

// ancestors lists the snapshots before one: as long as it is known the one that
// it was made on top of, which after a restore is not the one before in time,
// then all that are older.
func ancestors(ws *snapshot.Workspace, info snapshot.Info) []snapshot.Info {
	list := ws.List() // newest first
	byName := make(map[string]snapshot.Info, len(list))
	for _, i := range list {
		byName[i.Name] = i
	}
	var out []snapshot.Info
	seen := map[uint64]bool{info.Seq: true}
	add := func(i snapshot.Info) {
		if !seen[i.Seq] && i.Seq < info.Seq {
			seen[i.Seq] = true
			out = append(out, i)
		}
	}
	for at := info; ; {
		up, ok := byName[at.Parent]
		if !ok || up.Seq >= at.Seq {
			break
		}
		add(up)
		at = up
	}
	for _, i := range list {
		add(i)
	}
	return out
}
