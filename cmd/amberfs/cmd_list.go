package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/snapshot"
)

func listCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the snapshots, newest first",
		Long: `Lists the snapshots of the workspace, newest first: name, the first 12 digits
of the id ("-" until it is sealed), time and message, with tabs between.`,
		Args: args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var l api.List
			if err := a.askHere(cmd.Context(), request{op: "list"}, &l); err != nil {
				return err
			}
			if a.json {
				if l.Snapshots == nil {
					l.Snapshots = []snapshot.Info{}
				}
				return a.printJSON(l.Snapshots)
			}
			a.usePager()
			if isTerminal(a.stdout) || a.pager != nil {
				printTable(a.stdout, listRows(l.Snapshots))
				return nil
			}
			for _, r := range listRows(l.Snapshots) {
				a.printf("%s\n", strings.Join(r, "\t"))
			}
			return nil
		},
	}
}

// listRows is the listing, a row a snapshot.
func listRows(infos []snapshot.Info) [][]string {
	if len(infos) == 0 {
		return [][]string{{"no snapshots"}}
	}
	rows := make([][]string, 0, len(infos))
	for _, i := range infos {
		rows = append(rows, []string{i.Name, shortID(i.ID), i.Created.Format(time.RFC3339), oneLine(i.Message)})
	}
	return rows
}

// shortID is what people see of an id.
func shortID(id string) string {
	if id == "" {
		return "-"
	}
	return id[:min(12, len(id))]
}

// oneLine keeps a message in its column.
func oneLine(s string) string { return lineBreaks.Replace(s) }

var lineBreaks = strings.NewReplacer("\n", " ", "\t", " ", "\r", " ")

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
