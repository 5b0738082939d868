package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/service"
)

type completion = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completionTime bounds how long a shell waits for names.
const completionTime = 2 * time.Second

// completeSnapshots completes the first n arguments (all when n < 0) with the
// names of snapshots. The shell gets nothing when there is nobody to ask.
func (a *app) completeSnapshots(n int) completion {
	return func(_ *cobra.Command, argv []string, _ string) ([]string, cobra.ShellCompDirective) {
		if n >= 0 && len(argv) >= n {
			return nil, cobra.ShellCompDirectiveDefault
		}
		ctx, cancel := context.WithTimeout(context.Background(), completionTime)
		defer cancel()
		var l service.Snapshots
		if err := a.askHere(ctx, service.List{}, &l); err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []string
		for _, i := range l.Snapshots {
			out = append(out, i.Name+"\t"+service.OneLine(i.Message))
		}
		return append(out, "latest", "undo", "base"), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completeForks completes one argument with the names of forks.
func (a *app) completeForks(_ *cobra.Command, argv []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(argv) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	var l service.ForkList
	if err := a.askHere(ctx, service.Forks{}, &l); err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, f := range l.Forks {
		out = append(out, f.Name)
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
