package main

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/tests/must"
)

// connect starts a server outside of a mount, and a client.
func connect(t *testing.T, set string) *mcp.ClientSession {
	t.Helper()
	ctx := context.Background()
	a := newApp(nil, &bytes.Buffer{}, &bytes.Buffer{})
	a.dir = t.TempDir()
	s, err := newMCPServer(a, set)
	must.OK(t, err)
	here, there := mcp.NewInMemoryTransports()
	server, err := s.Connect(ctx, there, nil)
	must.OK(t, err)
	client, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(ctx, here, nil)
	must.OK(t, err)
	t.Cleanup(func() {
		client.Close()
		server.Close()
	})
	return client
}

func TestMCPTools(t *testing.T) {
	for set, names := range map[string]string{
		"all": "fork_create fork_delete fork_list fork_merge run_apply run_list run_remove snapshot_bisect snapshot_blame snapshot_changes snapshot_compact snapshot_create snapshot_delete snapshot_diff " +
			"snapshot_forget snapshot_history snapshot_list snapshot_push snapshot_restore snapshot_revert snapshot_show snapshot_size snapshot_undo workspace_changed workspace_claim workspace_explore workspace_handoff workspace_handoff_back workspace_log workspace_status workspace_undo",
		"standard": "fork_create fork_delete fork_list fork_merge run_apply run_list run_remove snapshot_blame snapshot_changes snapshot_compact snapshot_create snapshot_delete snapshot_diff " +
			"snapshot_history snapshot_list snapshot_push snapshot_restore snapshot_revert snapshot_show snapshot_size snapshot_undo workspace_changed workspace_claim workspace_log workspace_status workspace_undo",
		"snapshots":      "snapshots_changes snapshots_compact snapshots_create snapshots_delete snapshots_history snapshots_list snapshots_revert",
		"workspace:mine": "workspace__mine__branch workspace__mine__restore workspace__mine__snapshot",
	} {
		list, err := connect(t, set).ListTools(context.Background(), nil)
		must.OK(t, err)
		var got []string
		for _, tool := range list.Tools {
			got = append(got, tool.Name)
			checkTool(t, tool)
		}
		if strings.Join(got, " ") != names {
			t.Errorf("%s: %v", set, got)
		}

		// A model reads the list of the default set in each session, so the list must be short.
		text, err := json.Marshal(list)
		must.OK(t, err)
		if set == "standard" && len(text) > 21_000 {
			t.Errorf("the list of tools has %d bytes", len(text))
		}
	}
	if _, err := newMCPServer(newApp(nil, nil, nil), "no"); err == nil {
		t.Error("a set that there is not was made")
	}
}

// checkTool checks that a tool has all that clients show or check.
func checkTool(t *testing.T, tool *mcp.Tool) {
	t.Helper()
	if tool.Title == "" || tool.Description == "" || tool.Annotations == nil ||
		tool.Annotations.DestructiveHint == nil || tool.Annotations.OpenWorldHint == nil || tool.OutputSchema == nil {
		t.Errorf("%s lacks something: %+v", tool.Name, tool)
	}
	b, err := json.Marshal(tool)
	if err != nil || strings.Contains(string(b), `"type":[`) || strings.Contains(string(b), "--") {
		t.Errorf("%s: %s, %v", tool.Name, b, err)
	}
}

// TestMCPAnnotations: the annotations, by which clients decide whether to ask the user, are right for tools that
// delete, run programs or send data. Only the set "all" has tools that run programs.
func TestMCPAnnotations(t *testing.T) {
	want := map[string][3]bool{ // ReadOnlyHint, DestructiveHint, OpenWorldHint
		"snapshot_list": {true, false, false}, "snapshot_size": {true, false, false}, "snapshot_create": {}, "fork_create": {}, "snapshot_restore": {false, true, false},
		"snapshot_delete": {false, true, false}, "fork_merge": {false, true, false}, "snapshot_push": {false, false, true},
		"run_list": {true, false, false}, "run_apply": {false, true, false}, "run_remove": {false, true, false},
		"snapshot_bisect": {false, true, true}, "workspace_explore": {false, true, true}, "snapshot_forget": {false, true, false},
		"workspace_handoff": {false, false, true}, "workspace_handoff_back": {false, true, false},
	}
	for _, tool := range tools() {
		if tool.run != nil && !tool.needsNoWorkspace && tool.effect != service.Executes {
			t.Errorf("%s runs programs, and has the effect %s", tool.Names[service.ToolsAll], tool.effect)
		}
	}
	for set, n := range map[string]int{"standard": len(want) - 5, "all": len(want)} {
		list, err := connect(t, set).ListTools(context.Background(), nil)
		must.OK(t, err)
		found := 0
		for _, tool := range list.Tools {
			a := tool.Annotations
			got := [3]bool{a.ReadOnlyHint, *a.DestructiveHint, *a.OpenWorldHint}
			if w, ok := want[tool.Name]; ok {
				found++
				if got != w {
					t.Errorf("%s: %v, want %v", tool.Name, got, w)
				}
			}
		}
		if found != n {
			t.Errorf("%s has %d of the tools, want %d", set, found, n)
		}
	}
}

// TestMCPWithoutMount: outside of a mount, the call of a tool fails with the same sentence as a command.
func TestMCPWithoutMount(t *testing.T) {
	r, err := connect(t, "all").CallTool(context.Background(), &mcp.CallToolParams{Name: "snapshot_list"})
	must.OK(t, err)
	text, ok := r.Content[0].(*mcp.TextContent)
	if !ok || !r.IsError || !strings.Contains(text.Text, "not inside an amberfs mount") {
		t.Errorf("answer: %+v", r.Content[0])
	}
}

func TestPages(t *testing.T) {
	text := strings.Repeat("a line\n", 10_000)
	var whole strings.Builder
	n := 0
	for in := (pageRange{}); ; n++ {
		_, p, err := in.cutPage(text)
		if err != nil || len(p.Text) > maxPageBytes || p.TotalLength != len(text) {
			t.Fatalf("%+v: %d bytes, %v", in, len(p.Text), err)
		}
		whole.WriteString(p.Text)
		if in.StartIndex = p.NextIndex; p.NextIndex == 0 {
			break
		}
	}
	if whole.String() != text || n != 1 {
		t.Errorf("%d bytes in %d pages", whole.Len(), n+1)
	}
	if _, _, err := (pageRange{StartIndex: 10}).cutPage("short"); err == nil {
		t.Error("a page behind the end")
	}
	if _, p, _ := (pageRange{MaxLength: 3}).cutPage("ää"); p.Text != "ä" {
		t.Errorf("cut inside of a character: %q", p.Text)
	}
}

// TestRelativeArguments: the paths in all arguments are relative to the directory of the server.
func TestRelativeArguments(t *testing.T) {
	mounts := []locate.Mount{{Mountpoint: "/", FSType: "ext4"}, {Mountpoint: "/no/ws", FSType: locate.FSType, Root: "/", Source: "/s", VFSOptions: "rw,user_id=0"}}
	p, err := locate.Find(mounts, "/no/ws/sub")
	must.OK(t, err)
	for _, c := range []struct{ args, want any }{
		{service.Blame{Path: "f"}, service.Blame{Path: "sub/f"}},
		{
			snapshot.UndoByOptions{Paths: []naming.BytePath{"a", "../b"}, Keep: []naming.BytePath{"c"}},
			snapshot.UndoByOptions{Paths: []naming.BytePath{"sub/a", "b"}, Keep: []naming.BytePath{"sub/c"}},
		},
	} {
		got, err := withRelativePaths(p, c.args)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v (%v), not %+v", got, err, c.want)
		}
	}
	if _, err := withRelativePaths(p, snapshot.UndoByOptions{Paths: []naming.BytePath{"../../x", "a"}}); err == nil {
		t.Error("a path outside of the workspace is accepted")
	}
}
