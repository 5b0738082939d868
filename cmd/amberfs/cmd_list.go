package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
)

func listCommand(a *app) *cobra.Command {
	var req service.List
	var labels []string
	var long, all bool
	cmd := &cobra.Command{
		Use:     "list [-n N] [--all] [--since T] [--kind K] [--label KEY=VALUE]... [--long]",
		Aliases: []string{"ls"},
		Short:   "List snapshots, newest first",
		Long: `Lists the snapshots of the workspace, newest first: name, the first 12 digits of the
id ("-" until it is stored), time and message, separated by tabs. Snapshots that
restores took first (kind pre-restore) are left out unless --all.`,
		Args: args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if req.Labels, err = parseLabels(labels); err != nil {
				return err
			}
			if req.Since, err = sinceText(req.Since); err != nil {
				return err
			}
			if cmd.Flags().Changed("limit") && req.Limit < 1 {
				return fail.New(fail.Usage, "-n takes a number from 1 on, not %d", req.Limit)
			}
			if !all && req.Kind == "" {
				req.Without = snapshot.KindPreRestore
			}
			var l service.Snapshots
			if err := a.askHere(cmd.Context(), req, &l); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(l.Snapshots)
			}
			a.usePager()
			rows := listRows(l.Snapshots)
			if long {
				rows = longRows(l.Snapshots)
			} else if (isTerminal(a.stdout) || a.pager != nil) && len(l.Snapshots) > 0 {
				rows = terminalRows(l.Snapshots)
			}
			a.printRows(rows)
			return nil
		},
	}
	f := cmd.Flags()
	f.IntVarP(&req.Limit, "limit", "n", 0, "only the newest `N`")
	f.BoolVar(&all, "all", false, "also snapshots that restores took first")
	f.StringVar(&req.Since, "since", "", "only since this `TIME`: 2h, 7d, or a date such as 2026-01-31")
	f.StringVar(&req.Kind, "kind", "", "only this `KIND`: manual, turn, auto, pre-restore, fork, import, pull")
	f.StringArrayVar(&labels, "label", nil, "only with the label `KEY=VALUE`; repeatable")
	f.BoolVar(&long, "long", false, "also show kind, counts of changes (+/~/-) and labels")
	return cmd
}

// sinceText makes a time of what the user wrote, in the user's time zone.
func sinceText(text string) (string, error) {
	t, err := service.ParseSince(text)
	if err != nil || t.IsZero() {
		return "", err
	}
	return t.Format(time.RFC3339Nano), nil
}

// longRows is the listing with all that fits into a line.
func longRows(infos []snapshot.Info) [][]string {
	rows := listRows(infos)
	for n, i := range infos {
		rows[n] = append(rows[n], i.Kind, countsText(i.Counts), labelText(i.Labels))
	}
	return rows
}

// terminalRows is the listing for a person.
func terminalRows(infos []snapshot.Info) [][]string {
	rows := [][]string{{"NAME", "ID", "TIME", "CHANGES", "MESSAGE"}}
	for n, r := range listRows(infos) {
		rows = append(rows, []string{r[0], r[1], r[2], countsText(infos[n].Counts), r[3]})
	}
	return rows
}

// countsText is what happened since the snapshot before.
func countsText(c snapshot.Counts) string {
	text := fmt.Sprintf("+%d ~%d -%d", c.Created, c.Modified, c.Deleted)
	if c.Restored > 0 {
		text += fmt.Sprintf(" (%d restored)", c.Restored)
	}
	return text
}

// listRows is the listing, a row a snapshot.
func listRows(infos []snapshot.Info) [][]string {
	if len(infos) == 0 {
		return [][]string{{"no snapshots"}}
	}
	rows := make([][]string, 0, len(infos))
	for _, i := range infos {
		rows = append(rows, service.Row(i))
	}
	return rows
}

// printRows prints rows in columns on a terminal, else with tabs between them.
func (a *app) printRows(rows [][]string) {
	if isTerminal(a.stdout) || a.pager != nil {
		printTable(a.stdout, rows)
		return
	}
	a.printf("%s", joinRows(rows))
}

// joinRows is a line a row, with tabs between the columns.
func joinRows(rows [][]string) string {
	var b strings.Builder
	for _, r := range rows {
		b.WriteString(strings.Join(r, "\t") + "\n")
	}
	return b.String()
}

// printTable prints rows in columns as wide as they need to be.
func printTable(w io.Writer, rows [][]string) {
	var width []int
	for _, r := range rows {
		for i, c := range r {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], len([]rune(c)))
		}
	}
	for _, r := range rows {
		var b strings.Builder
		for i, c := range r {
			b.WriteString(c)
			if i < len(r)-1 {
				b.WriteString(strings.Repeat(" ", width[i]-len([]rune(c))+2))
			}
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}
