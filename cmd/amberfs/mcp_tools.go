package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/runs"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/search"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/info"
)

// A tool is an operation of the service, with the names and arguments that it has for models, or one of
// nonOperationTools.
type tool struct {
	service.Tool
	op         *service.Op // nil for one of nonOperationTools
	effect     service.Effect
	preset     any // a value of the type of the tool's arguments, with the default values
	textForm   service.Form
	resultType reflect.Type
	// isPaged is set if the tool returns its text in pages. Other tools return the whole text, and the result as
	// structured content.
	isPaged bool
	// needsNoWorkspace is set for the tools for runs, which also work in a directory outside of a mount.
	needsNoWorkspace bool
	// run does the work of a tool that is not an operation. It is nil for an operation.
	run func(ctx context.Context, a *app, p locate.Location, args any, notify notifyFunc) (any, error)
}

// tools returns all tools: those that the rows of operations define, and nonOperationTools.
func tools() []*tool {
	var out []*tool
	for _, o := range service.Ops() {
		for _, row := range o.Tools {
			t := &tool{Tool: row, op: o, effect: o.Effect, preset: row.Preset, textForm: o.Text, resultType: o.Result, isPaged: o.Text.IsLong}
			t.About = cmp.Or(t.About, o.About)
			if t.preset == nil {
				t.preset = reflect.Zero(o.Args).Interface()
			}

			out = append(out, t)
		}
	}

	for i := range nonOperationTools {
		out = append(out, &nonOperationTools[i])
	}

	return out
}

// nonOperationTools are the tools for runs and for searches. This process does their work, whereas the daemon does the
// work of operations.
var nonOperationTools = []tool{
	{Tool: service.Tool{Names: [3]string{"run_list"}, Title: "List runs",
		About: "List the runs of amberfs run, of the directory of this server: name, directory, state, changed files and size."},
		effect: service.Reads, needsNoWorkspace: true, preset: runArgs{}, resultType: reflect.TypeFor[runList](),
		textForm: service.Rows(func(l *runList) [][]string { return runRows(l.Runs, nil) }), run: listRunsTool},
	{Tool: service.Tool{Names: [3]string{"run_apply"}, Title: "Apply a run",
		About: "Write what a run changed to its directory. Conflicts are listed, and then nothing is changed.", Args: "name leave ours theirs merge no_ignore dry_run"},
		effect: service.Destroys, needsNoWorkspace: true, preset: runArgs{}, resultType: reflect.TypeFor[hostdir.ApplyResult](),
		textForm: service.Lines(func(d *hostdir.ApplyResult) string { d.Paths = cutToListed(d.Paths); return appliedLines((&app{}), d) }), run: applyRunTool},
	{Tool: service.Tool{Names: [3]string{"run_remove"}, Title: "Remove a run", About: "Remove a run. For a day, the user can have it back.", Args: "name"},
		effect: service.Destroys, needsNoWorkspace: true, preset: runArgs{}, resultType: reflect.TypeFor[runs.Run](),
		textForm: service.Lines(func(r *runs.Run) string { return "run " + r.Name + " removed" }), run: removeRunTool},
	{Tool: service.Tool{Names: [3]string{"snapshot_bisect"}, Title: "Find what broke",
		About: "Find the first snapshot for which a command fails, by running it in forks of snapshots. The forks are discarded.",
		Args:  "good bad command jobs repeat timeout trust_ends kind labels by"},
		effect: service.Executes, preset: search.BisectArgs{}, resultType: reflect.TypeFor[search.BisectResult](), textForm: service.Lines(search.BisectedText),
		run: func(ctx context.Context, a *app, p locate.Location, args any, notify notifyFunc) (any, error) {
			return search.Bisect(ctx, searchWorkspace(a, p), args.(search.BisectArgs), func(r search.Round) { notify(r.Text(), r.Round, 0) })
		}},
	{Tool: service.Tool{Names: [3]string{"workspace_explore"}, Title: "Try a command in several forks",
		About: "Run a command in several forks of the present state, check each, and merge the first or the best that passes.",
		Args:  "attempts command jobs check score merge timeout"},
		effect: service.Executes, preset: search.ExploreArgs{}, resultType: reflect.TypeFor[search.ExploreResult](), textForm: service.Lines(search.ExploredText),
		run: func(ctx context.Context, a *app, p locate.Location, args any, notify notifyFunc) (any, error) {
			ended := 0
			return search.Explore(ctx, searchWorkspace(a, p), args.(search.ExploreArgs), func(all []*search.Attempt, t *search.Attempt) {
				if t != nil {
					ended++
					notify(fmt.Sprintf("attempt %d %s", t.Attempt, t.State), ended, len(all))
				}
			})
		}},
}

// resultJSON returns the result of an operation as JSON. It converts a text to a list of lines.
func (t *tool) resultJSON(result any) (string, error) {
	if t.op.Output == service.Text {
		result = strings.Split(*result.(*string), "\n")
	} else {
		result = t.op.ShownPart(result)
	}

	b, err := json.Marshal(result)
	return string(b), err
}

const maxListedElements = 100

// cutToListed returns the first elements of a list, at most maxListedElements. The result of a tool has the number of
// all elements in another field.
func cutToListed[T any](list []T) []T { return list[:min(len(list), maxListedElements)] }

// A refArgs is the argument of the three tools in the set "workspace:NAME". It names a snapshot or a workspace. All three
// tools accept these forms:
//
//	SNAPSHOT           a snapshot of the server's workspace
//	FORK, FORK/FORK    a workspace that restore or branch made
//	FORK@SNAPSHOT      a snapshot of such a workspace
type refArgs struct {
	Ref *string `json:"ref" jsonschema:"a state or a workspace, as these tools return it"`
}

type refResult struct {
	Ref  string `json:"ref" jsonschema:"every tool of this set takes it"`
	Path string `json:"path,omitempty" jsonschema:"where the new workspace is"`
}

// splitRef splits a ref into the path of a workspace and the name of a snapshot. Each may be "".
func (m *mcpServer) splitRef(ctx context.Context, ref string) (workspace, name string) {
	workspace, name, isSnapshot := strings.Cut(ref, "@")
	if isSnapshot || ref == "" || strings.Contains(ref, "/") || slices.Contains(completionNames(ctx, m.a, "fork"), ref) {
		return workspace, name
	}
	return "", ref
}

func (m *mcpServer) addRefTool(workspace string, t *tool) {
	in := mustSchema(reflect.TypeFor[refArgs]())
	if !t.MakesWorkspace {
		in.Required = nil // without a ref, the tool uses the server's workspace
	}

	name := "workspace__" + workspace + "__" + t.Names[service.ToolsWorkspace]
	m.addTool(t, name, reflect.TypeFor[refArgs](), in, reflect.TypeFor[refResult](), func(ctx context.Context, args any, _ notifyFunc) (string, any, error) {
		given := ""
		if r := args.(*refArgs); r.Ref != nil {
			if given = *r.Ref; given == "" {
				return "", nil, errs.Fail(errs.Invalid, "the argument ref must be a string that these tools returned, not %q", given)
			}
		}

		workspacePath, state := m.splitRef(ctx, given)
		p, err := m.locationOf(workspacePath)
		if err != nil {
			return "", nil, err
		}

		result, separator := refResult{}, "@"
		if t.MakesWorkspace {
			separator = "/"
			result, err = m.makeForkRef(ctx, p, workspace, state)
		} else {
			result, err = m.makeSnapshotRef(ctx, p, state)
		}

		result.Ref = strings.TrimPrefix(workspacePath+separator+result.Ref, separator)
		return result.Ref, result, err
	})
}

// makeSnapshotRef returns the ref of the snapshot with a name. For "" it first takes a snapshot of the workspace at a
// location.
func (m *mcpServer) makeSnapshotRef(ctx context.Context, p locate.Location, name string) (refResult, error) {
	made := info.Info{Name: name}
	var err error
	if name == "" {
		err = m.a.call(ctx, p, snapshot.CaptureOptions{Wait: true}, &made)
	}
	return refResult{Ref: made.Name}, err
}

// makeForkRef makes a fork of the workspace at a location, and returns its ref. state is a snapshot of the workspace from
// which the fork begins, or "" for the present state.
func (m *mcpServer) makeForkRef(ctx context.Context, p locate.Location, workspace, state string) (refResult, error) {
	for n := 1; ; n++ {
		var made service.Forked
		err := m.a.call(ctx, p, snapshot.ForkOptions{Name: fmt.Sprintf("%s-%d", workspace, n), Snapshot: state}, &made)
		if errs.ScriptKind(err) != errs.Exist { // for Exist, the loop tries the next name
			return refResult{Ref: made.Name, Path: made.Path}, err
		}
	}
}
