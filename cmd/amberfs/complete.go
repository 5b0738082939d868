package main

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// kindsByCommand has, for each command and each flag, the kinds of its arguments. "..." repeats the kind before it.
// Arguments of other commands are files. operationCommand adds the commands that are defined in rows of operations.
var kindsByCommand = map[string]string{
	"--by": "actor", "actor": "actor none", "apply": "file snapshot none", "run --as": "actor", "claim --from": "snapshot", "bisect": "snapshot snapshot none", "diff": "snapshot snapshot file ...",
	"diff --fork": "fork", "export": "snapshot none", "fork": "snapshot none", "fork --delete": "fork none", "fork --discard": "fork none",
	"pull": "remote none", "remote add": "file ...", "remote remove": "remote none", "remote rm": "remote none",
	"rename": "snapshot none", "restore": "snapshot file ...", "run --fork": "fork",
	"apply --run": "run", "refresh --run": "run", "runs diff": "run none", "runs rm": "run ...", "runs restore": "run none",
	"snapshot": "none", "worktree list": "none", "worktree remove": "fork none",
}

// completionNames returns all names of a kind, such as the names of all snapshots.
func completionNames(ctx context.Context, a *app, kind string) (out []string) {
	switch kind {
	case "snapshot":
		var l service.Snapshots
		if a.callHere(ctx, service.List{}, &l) != nil {
			return nil
		}
		for _, i := range l.Snapshots {
			out = append(out, i.Name+"\t"+service.OneLine(i.Message))
		}

		out = append(out, "latest", "undo", "base")

	case "fork":
		p, err := a.location()
		if err != nil {
			return nil
		}

		if root, ok := p.Root(); ok {
			entries, _ := os.ReadDir(filepath.Join(root, naming.ForksDir)) // after an error, there are no names
			for _, e := range entries {
				out = append(out, e.Name())
			}
		}

	case "actor":
		var l service.ActorList
		_ = a.callHere(ctx, service.Actors{}, &l) // after an error, there are no names
		for _, s := range l.Actors {
			out = append(out, s.Name)
		}

	case "run":
		rows, _ := runFinder(a).ListAll(ctx) // after an error, there are no names
		for _, r := range rows {
			out = append(out, r.Name+"\t"+r.Dir)
		}

	case "remote":
		var l service.RemoteList
		_ = a.callHere(ctx, service.Remotes{}, &l) // after an error, there are no names
		for _, r := range l.Remotes {
			out = append(out, r.Name+"\t"+r.URL)
		}
	}
	return out
}

// addCompletions gives a command and its subcommands the completion of their arguments. Outside of
// a mount, names in a workspace are not completed.
func addCompletions(a *app, cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		addCompletions(a, c)
	}

	name := strings.TrimPrefix(cmd.CommandPath(), "amberfs ")
	complete := func(kinds string, n int) ([]string, cobra.ShellCompDirective) {
		words := strings.Fields(kinds)
		kind := words[min(n, len(words)-1)]
		if kind == "..." {
			kind = words[len(words)-2]
		}
		if kind == "file" {
			return nil, cobra.ShellCompDirectiveDefault
		}

		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()

		return completionNames(ctx, a, kind), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}

	if kinds := kindsByCommand[name]; kinds != "" {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, argv []string, _ string) ([]string, cobra.ShellCompDirective) {
			kinds := kinds
			for _, flag := range []string{"delete", "discard"} {
				if f := cmd.Flags().Lookup(flag); f != nil && f.Changed {
					kinds = cmp.Or(kindsByCommand[name+" --"+flag], kinds)
				}
			}

			return complete(kinds, len(argv))
		}
	}

	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		kind := cmp.Or(kindsByCommand[name+" --"+f.Name], kindsByCommand["--"+f.Name])
		if kind != "" && f.Value.Type() == "string" {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) { return complete(kind, 0) })
		}
	})
}
