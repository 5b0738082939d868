package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot"
)

type (
	forkArgs struct {
		Name     string `json:"name" jsonschema:"what to call the fork"`
		Snapshot string `json:"snapshot,omitempty" jsonschema:"the snapshot to start from; the present state if empty"`
	}
	promoteArgs struct {
		Fork   string `json:"fork" jsonschema:"the fork whose changes to merge"`
		Ours   bool   `json:"ours,omitempty" jsonschema:"where both sides changed a path, keep the workspace's"`
		Theirs bool   `json:"theirs,omitempty" jsonschema:"where both sides changed a path, take the fork's"`
	}
	endArgs struct {
		Name string `json:"name" jsonschema:"the fork"`
	}
	claimArgs struct {
		Label string `json:"label" jsonschema:"whose fork it is, and what it is called"`
		From  string `json:"from,omitempty" jsonschema:"the snapshot that a fresh one starts from; the present state if empty"`
		TTL   string `json:"ttl,omitempty" jsonschema:"end it by itself after this time without a claim, such as 1h"`
	}
	logArgs struct {
		Path string `json:"path,omitempty" jsonschema:"only what happened at or below it"`
		paging
	}
)

func (m *mcpServer) forkTools() {
	add(m, tool{"fork_create", "Create a fork", "Make an isolated writable copy of a snapshot or of the present state. Costs nothing; the answer has its path.", adds}, m.fork)
	add(m, tool{"fork_list", "List forks", "List the forks: name, snapshot that it began from, time, snapshots, with tabs between.", reads},
		func(ctx context.Context, p locate.Place, in paging) (string, page, error) {
			l, err := ask[service.ForkList](ctx, m, p, service.Forks{})
			if err != nil {
				return "", page{}, err
			}
			return in.of(joinRows(forkRows(l.Forks)))
		})
	add(m, tool{"workspace_claim", "Claim a workspace", "Get the path of the one fork that belongs to a label: the running one, else its last state, else a fresh one.", adds}, m.claim)
	add(m, tool{"fork_promote", "Promote a fork", "Merge what a fork changed into the workspace. Refused, with the list, if both changed a path.", replaces}, m.promote)
	add(m, tool{"fork_end", "End a fork", "End a fork. Its last state becomes a snapshot of the workspace.", replaces},
		func(ctx context.Context, p locate.Place, in endArgs) (string, service.Ended, error) {
			done, err := ask[service.Ended](ctx, m, p, service.EndFork{Name: in.Name})
			return fmt.Sprintf("fork %s ended; its last state is the snapshot %s", done.Name, done.Snapshot), done, err
		})
}

func (m *mcpServer) claim(ctx context.Context, p locate.Place, in claimArgs) (string, service.Claimed, error) {
	got, err := ask[service.Claimed](ctx, m, p, service.Claim{Label: in.Label, From: in.From, TTL: in.TTL})
	got.Path = inside(p, got.Path)
	return fmt.Sprintf("%s: %s", got.Tier, got.Path), got, err
}

func (m *mcpServer) fork(ctx context.Context, p locate.Place, in forkArgs) (string, service.Forked, error) {
	made, err := ask[service.Forked](ctx, m, p, service.Fork{Name: in.Name, Snapshot: in.Snapshot})
	made.Path = inside(p, made.Path)
	return fmt.Sprintf("fork %s created: %s", made.Name, made.Path), made, err
}

func (m *mcpServer) promote(ctx context.Context, p locate.Place, in promoteArgs) (string, service.Promoted, error) {
	var done service.Promoted
	err := m.a.ask(ctx, p, service.Promote{Fork: in.Fork, Ours: in.Ours, Theirs: in.Theirs}, &done)
	if err != nil && len(done.Conflicts) > 0 {
		return "", done, fmt.Errorf("%d path(s) changed in the fork and in the workspace; nothing is touched; decide with ours or theirs:\n%s",
			len(done.Conflicts), strings.Join(shorten(done.Conflicts), "\n"))
	}
	done.Paths = shorten(done.Paths)
	return strings.TrimSuffix(promotedLines(done), "\n"), done, err
}

// workspaceTools tell about the workspace as a whole.
func (m *mcpServer) workspaceTools() {
	add(m, tool{"workspace_status", "Show the status", "Show how the workspace and its store are.", reads},
		func(ctx context.Context, p locate.Place, _ noArgs) (string, service.Status, error) {
			st, err := ask[service.Status](ctx, m, p, service.GetStatus{})
			return rowsText(statusFields(st, time.Now())), st, err
		})
	add(m, tool{"workspace_log", "Show the events", "Show what happened in the workspace, oldest first: time, action, path, and the program that did it.", reads}, m.log)
}

func (m *mcpServer) log(ctx context.Context, p locate.Place, in logArgs) (string, page, error) {
	req := service.Log{}
	if in.Path != "" {
		rel, err := relPath(p, in.Path)
		if err != nil {
			return "", page{}, err
		}
		req.Path = snapshot.BytePath(rel)
	}
	var out strings.Builder
	err := m.a.exchange(ctx, p, req, client.Exchange{Item: func(line json.RawMessage) error {
		var e event
		err := json.Unmarshal(line, &e)
		out.WriteString(e.text(false) + "\n")
		return err
	}}, nil)
	if err != nil {
		return "", page{}, err
	}
	return in.of(out.String())
}

type (
	formatArgs struct {
		Format string `json:"format,omitempty" jsonschema:"text or json"`
		paging
	}
	changesArgs struct {
		diffArgs
		Format string `json:"format,omitempty" jsonschema:"text or json"`
	}
	historyArgs struct {
		pathArgs
		Format string `json:"format,omitempty" jsonschema:"text or json"`
	}
)

// snapshotsSet is the set of tools "snapshots".
func (m *mcpServer) snapshotsSet() {
	add(m, tool{"snapshots_create", "Create a snapshot", "Capture the workspace as it is now.", adds}, m.create)
	add(m, tool{"snapshots_list", "List snapshots", "List the snapshots, newest first.", reads},
		func(ctx context.Context, p locate.Place, in formatArgs) (string, page, error) {
			text, infos, err := m.list(ctx, p)
			return inPages(in.paging, in.Format, text, infos, err)
		})
	add(m, tool{"snapshots_changes", "List changed files", "List the files that changed from one snapshot to another, or to now.", reads},
		func(ctx context.Context, p locate.Place, in changesArgs) (string, page, error) {
			text, err := m.diff(ctx, p, in.diffArgs, "name-status")
			return inPages(in.paging, in.Format, text, strings.Split(text, "\n"), err)
		})
	add(m, tool{"snapshots_history", "Show the history of a file", "List the snapshots in which a path was created, modified or deleted.", reads},
		func(ctx context.Context, p locate.Place, in historyArgs) (string, page, error) {
			text, h, err := m.history(ctx, p, in.Path)
			return inPages(in.paging, in.Format, text, h, err)
		})
	add(m, tool{"snapshots_compact", "Compact snapshots", "Make one snapshot of all files that some have, of each path the newest; the others are deleted.", destroys}, m.compact)
	add(m, tool{"snapshots_revert", "Revert a file", "Bring one file or directory back.", replaces}, m.revert)
	add(m, tool{"snapshots_delete", "Delete a snapshot", "Delete a snapshot.", destroys}, m.remove)
}

func inPages(p paging, format, text string, v any, err error) (string, page, error) {
	if err == nil {
		text, err = inFormat(format, text, v)
	}
	if err != nil {
		return "", page{}, err
	}
	return p.of(text)
}

type (
	// ref names a snapshot or a workspace.
	ref struct {
		Ref string `json:"ref" jsonschema:"a snapshot, or a workspace that these tools made"`
	}
	newRef struct {
		Ref  string `json:"ref"`
		Path string `json:"path,omitempty" jsonschema:"where the new workspace is"`
	}
)

// workspaceSet is the set of tools "workspace:NAME". Nothing of it touches the
// workspace: restore and branch make new ones.
func (m *mcpServer) workspaceSet(name string) {
	prefix := "workspace__" + name + "__"
	add(m, tool{prefix + "snapshot", "Snapshot " + name, "Capture the workspace; the answer names the state.", adds},
		func(ctx context.Context, p locate.Place, _ noArgs) (string, newRef, error) {
			info, err := ask[snapshot.Info](ctx, m, p, service.Snapshot{Wait: true})
			return info.Name, newRef{Ref: info.Name}, err
		})
	branch := func(ctx context.Context, p locate.Place, in ref) (string, newRef, error) {
		for n := 1; ; n++ {
			to := fmt.Sprintf("%s-%d", name, n)
			made, err := ask[service.Forked](ctx, m, p, service.Fork{Name: to, Snapshot: in.Ref})
			if isTaken(err) {
				continue
			}
			made.Path = inside(p, made.Path)
			return to, newRef{Ref: to, Path: made.Path}, err
		}
	}
	add(m, tool{prefix + "restore", "Restore " + name, "Make a new workspace that is equal to a state; the present one stays as it is.", adds}, branch)
	add(m, tool{prefix + "branch", "Branch " + name, "Make a new workspace that begins with a state.", adds}, branch)
}
