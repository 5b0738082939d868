package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
)

func showCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show a snapshot",
		Long: `Shows name, id, time, message, labels, size, what changed since the snapshot before,
and which program took it. NAME can also be cp-N, the first 8 or more digits of an
id, latest, undo or base.`,
		Example:           `  amberfs show latest`,
		Args:              args(1, 1, "one NAME"),
		ValidArgsFunction: a.completeSnapshots(1),
		RunE: func(cmd *cobra.Command, argv []string) error {
			return show(a, cmd, service.Show{Name: argv[0]}, func(info snapshot.Info) { printFields(a, infoFields(info, time.Now())) })
		},
	}
}

// infoFields is a snapshot for a person, as rows of name and value.
func infoFields(i snapshot.Info, now time.Time) [][]string {
	id := i.ID
	if id == "" {
		id = "- (not sealed yet)"
	}
	rows := [][]string{
		{"name", i.Name},
		{"number", fmt.Sprintf("cp-%d", i.Seq)},
		{"id", id},
		{"created", i.Created.Format(time.RFC3339) + " (" + humanize.RelTime(i.Created, now, "ago", "from now") + ")"},
		{"kind", i.Kind},
	}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	add("parent", i.Parent)
	add("message", service.OneLine(i.Message))
	add("labels", labelText(i.Labels))
	if i.Expires != nil {
		add("expires", i.Expires.Format(time.RFC3339)+" ("+humanize.RelTime(*i.Expires, now, "ago", "from now")+")")
	}
	if i.Pinned {
		add("pinned", "yes")
	}
	add("files", humanize.Comma(i.Files))
	size := bytesText(i.Bytes)
	if i.Sealed {
		size += ", of which " + bytesText(i.UniqueBytes) + " were new"
	}
	add("size", size)
	add("changes", fmt.Sprintf("%d created, %d modified, %d deleted, %d restored",
		i.Counts.Created, i.Counts.Modified, i.Counts.Deleted, i.Counts.Restored))
	by := fmt.Sprintf("user %d, process %d", i.UID, i.PID)
	if i.Command != "" {
		by += ", " + service.OneLine(i.Command)
	}
	add("made by", by)
	add("git commit", i.GitCommit)
	return rows
}

func labelText(labels map[string]string) string {
	var out []string
	for k, v := range labels {
		out = append(out, service.OneLine(k+"="+v))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// bytesText is a number of bytes for a person.
func bytesText(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

// rowsText is rows of name and value, a line each.
func rowsText(rows [][]string) string {
	var b strings.Builder
	for _, r := range rows {
		b.WriteString(r[0] + ": " + r[1] + "\n")
	}
	return b.String()
}

// printFields prints rows of name and value.
func printFields(a *app, rows [][]string) {
	for i := range rows {
		rows[i] = []string{rows[i][0] + ":", rows[i][1]}
	}
	printTable(a.stdout, rows)
}
