package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot"
)

// The arguments of the tools.
type (
	noArgs   struct{}
	nameArgs struct {
		Name string `json:"name" jsonschema:"a snapshot's name, cp-NUMBER, latest, undo or origin"`
	}
	createArgs struct {
		Name        string `json:"name,omitempty" jsonschema:"what to call the snapshot: letters, digits, _ . and -; cp-NUMBER if empty"`
		Description string `json:"description,omitempty" jsonschema:"what this state is"`
	}
	restoreArgs struct {
		Name   string   `json:"name" jsonschema:"the snapshot to go back to"`
		Paths  []string `json:"paths,omitempty" jsonschema:"only these files or directories; everything if empty"`
		DryRun bool     `json:"dry_run,omitempty" jsonschema:"only say what would change"`
	}
	compactArgs struct {
		Names       []string `json:"names" jsonschema:"the snapshots, two or more"`
		Name        string   `json:"name" jsonschema:"what to call the new one"`
		Description string   `json:"description,omitempty" jsonschema:"what this state is"`
	}
	pushArgs struct {
		Name   string `json:"name" jsonschema:"the snapshot to send"`
		Remote string `json:"remote,omitempty" jsonschema:"the remote; the one that the policy names, or the only one there is, if empty"`
		As     string `json:"as,omitempty" jsonschema:"what to call it there"`
	}
	diffArgs struct {
		Name  string   `json:"name" jsonschema:"the snapshot to compare from"`
		Other string   `json:"other,omitempty" jsonschema:"the snapshot to compare with; the present state if empty"`
		Paths []string `json:"paths,omitempty" jsonschema:"only these files or directories"`
		paging
	}
	pathArgs struct {
		Path string `json:"path" jsonschema:"a file or directory"`
		paging
	}
	revertArgs struct {
		Path string `json:"path" jsonschema:"the file or directory to bring back"`
		Name string `json:"name,omitempty" jsonschema:"the snapshot to take it from; the newest that differs if empty"`
	}
)

// snapshotTools are those of one workspace's history.
func (m *mcpServer) snapshotTools() {
	add(m, tool{"snapshot_create", "Create a snapshot", "Capture the workspace as it is now. Costs nothing, whatever its size.", adds}, m.create)
	add(m, tool{"snapshot_list", "List snapshots", "List the snapshots, newest first: name, id, time and description, with tabs between.", reads},
		func(ctx context.Context, p locate.Place, in paging) (string, page, error) {
			text, _, err := m.list(ctx, p)
			if err != nil {
				return "", page{}, err
			}
			return in.of(text)
		})
	add(m, tool{"snapshot_show", "Show a snapshot", "Show everything about one snapshot.", reads},
		func(ctx context.Context, p locate.Place, in nameArgs) (string, snapshot.Info, error) {
			info, err := ask[snapshot.Info](ctx, m, p, service.Show{Name: in.Name})
			return rowsText(infoFields(info, time.Now())), info, err
		})
	add(m, tool{"snapshot_delete", "Delete a snapshot", "Delete a snapshot. What only it held is lost.", destroys}, m.remove)
	add(m, tool{"snapshot_compact", "Compact snapshots", "Make one snapshot of all files that some have, of each path the newest. The others are deleted unless they are pinned.", destroys}, m.compact)
	add(m, tool{"snapshot_push", "Push a snapshot", "Send a snapshot to a remote that the owner of the store has set up.", adds}, m.push)
	add(m, tool{"snapshot_restore", "Restore a snapshot", "Make the workspace, or some paths of it, equal to a snapshot. The state before is captured first; snapshot_undo takes it back.", replaces}, m.restore)
	add(m, tool{"snapshot_undo", "Undo the last restore", "Take the last restore, revert or promotion back.", replaces},
		func(ctx context.Context, p locate.Place, _ noArgs) (string, service.Restored, error) {
			return restoredText(ask[service.Restored](ctx, m, p, service.Restore{Name: "undo"}))
		})
	add(m, tool{"snapshot_revert", "Revert a file", "Bring one file or directory back; it is deleted if it did not exist then.", replaces}, m.revert)
	add(m, tool{"snapshot_diff", "Show differences", "Show what changed from one snapshot to another, or to now, as a patch.", reads},
		func(ctx context.Context, p locate.Place, in diffArgs) (string, page, error) {
			text, err := m.diff(ctx, p, in, "patch")
			if err != nil {
				return "", page{}, err
			}
			return in.of(text)
		})
	add(m, tool{"snapshot_changes", "List changed files", "List the files that changed from one snapshot to another, or to now: A, M, D, T or R and the path.", reads},
		func(ctx context.Context, p locate.Place, in diffArgs) (string, page, error) {
			text, err := m.diff(ctx, p, in, "name-status")
			if err != nil {
				return "", page{}, err
			}
			return in.of(text)
		})
	add(m, tool{"snapshot_history", "Show the history of a file", "List the snapshots in which a path was created, modified or deleted.", reads},
		func(ctx context.Context, p locate.Place, in pathArgs) (string, page, error) {
			text, _, err := m.history(ctx, p, in.Path)
			if err != nil {
				return "", page{}, err
			}
			return in.of(text)
		})
}

func (m *mcpServer) create(ctx context.Context, p locate.Place, in createArgs) (string, snapshot.Info, error) {
	info, err := ask[snapshot.Info](ctx, m, p, service.Snapshot{Name: in.Name, Message: in.Description, Wait: true})
	return fmt.Sprintf("snapshot %s created: %s", info.Name, info.ID), info, err
}

func (m *mcpServer) list(ctx context.Context, p locate.Place) (string, []snapshot.Info, error) {
	l, err := ask[service.Snapshots](ctx, m, p, service.List{})
	return joinRows(listRows(l.Snapshots)), l.Snapshots, err
}

func (m *mcpServer) remove(ctx context.Context, p locate.Place, in nameArgs) (string, service.Removed, error) {
	done, err := ask[service.Removed](ctx, m, p, service.Remove{Names: []string{in.Name}})
	return "snapshot " + strings.Join(done.Names, " ") + " deleted", done, err
}

func (m *mcpServer) compact(ctx context.Context, p locate.Place, in compactArgs) (string, service.Compacted, error) {
	done, err := ask[service.Compacted](ctx, m, p, service.Compact{Names: in.Names, Name: in.Name, Message: in.Description})
	return strings.TrimSuffix(compactedLines(done), "\n"), done, err
}

func (m *mcpServer) push(ctx context.Context, p locate.Place, in pushArgs) (string, service.PushedList, error) {
	done, err := ask[service.PushedList](ctx, m, p, service.Push{Remote: in.Remote, Snapshots: []string{in.Name}, As: in.As})
	var text strings.Builder
	for _, d := range done.Pushed {
		text.WriteString(pushedLine(cmp.Or(in.Remote, d.Remote), d))
	}
	return strings.TrimSuffix(text.String(), "\n"), done, err
}

func (m *mcpServer) restore(ctx context.Context, p locate.Place, in restoreArgs) (string, service.Restored, error) {
	paths, err := relPaths(p, in.Paths)
	if err != nil {
		return "", service.Restored{}, err
	}
	return restoredText(ask[service.Restored](ctx, m, p,
		service.Restore{Name: in.Name, Paths: snapshot.BytePaths(paths), DryRun: in.DryRun}))
}

func (m *mcpServer) revert(ctx context.Context, p locate.Place, in revertArgs) (string, service.Restored, error) {
	rel, err := relPath(p, in.Path)
	if err != nil {
		return "", service.Restored{}, err
	}
	return restoredText(ask[service.Restored](ctx, m, p, service.Revert{Path: snapshot.BytePath(rel), Name: in.Name}))
}

// restoredText tells what a restore changed, and bounds the list of it.
func restoredText(r service.Restored, err error) (string, service.Restored, error) {
	r.Paths = shorten(r.Paths)
	text := restoredLines(r)
	if open := openText(r.Open); open != "" {
		text += open + "\n"
	}
	return strings.TrimSuffix(text, "\n"), r, err
}

func (m *mcpServer) diff(ctx context.Context, p locate.Place, in diffArgs, format string) (string, error) {
	paths, err := relPaths(p, in.Paths)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	req := service.Diff{A: in.Name, B: in.Other, Paths: snapshot.BytePaths(paths), Format: format}
	if err := m.a.exchange(ctx, p, req, client.Exchange{Out: &out}, nil); err != nil {
		return "", err
	}
	if out.Len() == 0 {
		return "no differences", nil
	}
	return strings.ToValidUTF8(out.String(), "\uFFFD"), nil
}

func (m *mcpServer) history(ctx context.Context, p locate.Place, path string) (string, service.History, error) {
	rel, err := relPath(p, path)
	if err != nil {
		return "", service.History{}, err
	}
	h, err := ask[service.History](ctx, m, p, service.PathHistory{Path: snapshot.BytePath(rel)})
	return joinRows(historyRows(h)), h, err
}
