package service

import (
	"encoding/base64"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/internal/gitquote"
)

// maxAgentReportBytes is the largest length of a report for an agent. Further lines are omitted, but never the lines
// about deletions and overwritten files.
const maxAgentReportBytes = 1200

// changedLines returns a report of changes, "" if there are none. It lists all deletions and overwritten
// files first, then other changes. For an agent, it omits other changes beyond maxAgentReportBytes.
func changedLines(a Changed, d *WhatChanged) string {
	if len(d.Effects)+len(d.Git) == 0 {
		return ""
	}

	var out strings.Builder
	fmt.Fprintf(&out, "changed since %s:\n", d.Since)
	// If more than maxListedIgnored ignored files were overwritten, they are probably the output of a build. Then
	// they share one line of the report.
	const maxListedIgnored = 20
	var lost, rest []PathEffect
	overwrittenIgnored := 0
	for _, e := range d.Effects {
		if e.Ignored && e.Action == string(diff.ActionOverwrite) {
			overwrittenIgnored++
		}
	}

	for _, e := range d.Effects {
		e.Ignored = e.Ignored && (e.Action == string(diff.ActionAdd) || overwrittenIgnored > maxListedIgnored)
		if e.isLoss() {
			lost = append(lost, e)
		} else {
			rest = append(rest, e)
		}
	}

	for _, line := range groupLines(lost) {
		out.WriteString(line + "\n")
	}

	undo := "to undo exactly this: " + d.Undo + "\n"
	lines := append(groupLines(slices.DeleteFunc(slices.Clone(rest), func(e PathEffect) bool { return e.Ignored })), ignoredLines(rest)...)
	for _, g := range d.Git {
		lines = append(lines, "git "+g)
	}

	for i, line := range lines {
		const more = "and %d more lines: amberfs diff --name-status %s\n"
		if a.ForAgent && out.Len()+len(line)+len(undo)+len(more)+len(d.Since) > maxAgentReportBytes {
			fmt.Fprintf(&out, more, len(lines)-i, d.Since)
			break
		}

		out.WriteString(line + "\n")
	}

	out.WriteString(undo)

	return out.String()
}

// isLoss reports whether an effect deleted or overwrote contents. Overwritten files that git ignores do not count.
func (e *PathEffect) isLoss() bool {
	return e.Action == string(diff.ActionDelete) || e.Action == string(diff.ActionOverwrite) && !e.Ignored
}

// rawPath returns the bytes of the path in the tree.
func (e *PathEffect) rawPath() string {
	if e.Raw == "" {
		return e.Path
	}
	raw, err := base64.StdEncoding.DecodeString(e.Raw)
	if err != nil {
		return e.Path
	}

	return string(raw)
}

// maxSingleLines is the largest number of files of one directory that have a line each. More files share a line.
const maxSingleLines = 3

// groupLines returns lines for effects. If more than maxSingleLines files of one directory have the same action and
// note, they share a line. The line has their names or, for added files, only their number.
func groupLines(list []PathEffect) (lines []string) {
	for len(list) > 0 {
		n := 1
		for n < len(list) && sameGroup(&list[0], &list[n]) {
			n++
		}

		lines = append(lines, linesOfGroup(list[:n])...)
		list = list[n:]
	}
	return lines
}

// sameGroup reports whether two effects can share a line.
func sameGroup(a, b *PathEffect) bool {
	return a.Action == b.Action && a.From == "" && b.From == "" && !a.Dir && !b.Dir && a.Note == b.Note && path.Dir(a.rawPath()) == path.Dir(b.rawPath())
}

// linesOfGroup returns the lines for effects that can share a line, see sameGroup.
func linesOfGroup(list []PathEffect) (lines []string) {
	e := &list[0]
	if len(list) <= maxSingleLines {
		for _, e := range list {
			lines = append(lines, e.line())
		}
		return lines
	}

	dir := gitquote.ReadableName(path.Dir(e.rawPath())) + "/"
	if e.Action == string(diff.ActionAdd) {
		return []string{fmt.Sprintf("added %s %s files", dir, humanize.Comma(int64(len(list))))}
	}

	var names []string
	for _, e := range list {
		names = append(names, gitquote.ReadableName(path.Base(e.rawPath())))
	}

	line := fmt.Sprintf("%s %d files in %s: %s", e.Action, len(list), dir, strings.Join(names, " "))
	if e.Note != "" {
		line += " (" + e.Note + ")"
	}

	return []string{line}
}

// line returns the line for one effect.
func (e *PathEffect) line() string {
	name := gitquote.ReadableName(e.rawPath())
	if e.Dir {
		name += "/"
	}

	var notes []string
	switch {
	case e.Dir && e.Action != string(diff.ActionRename) && e.Action != string(diff.ActionSetAttributes):
		notes = append(notes, plural(e.Files, "file", "files"))
	case e.Action == string(diff.ActionDelete) || e.Action == string(diff.ActionAdd):
		notes = append(notes, BytesText(e.OldSize+e.NewSize))
	case e.Action == string(diff.ActionOverwrite) && e.OldSize != e.NewSize:
		notes = append(notes, BytesText(e.OldSize)+" to "+BytesText(e.NewSize))
	}

	if e.Note != "" {
		notes = append(notes, e.Note)
	}
	if !e.Dir && e.Files > 0 { // a directory was replaced by a file
		notes = append(notes, plural(e.Files, "file", "files")+" in it deleted")
	}

	text := e.Action + " " + name
	switch {
	case e.From != "" && e.Action == string(diff.ActionRename):
		text = "renamed " + gitquote.ReadableName(e.From) + " to " + name
	case e.From != "":
		text += " by a rename of " + gitquote.ReadableName(e.From)
	}

	if len(notes) > 0 {
		text += " (" + strings.Join(notes, ", ") + ")"
	}

	return text
}

// ignoredLines returns a summary of the effects on ignored files.
func ignoredLines(list []PathEffect) []string {
	const maxNames = 5
	files := 0
	var names []string

	for _, e := range list {
		if !e.Ignored {
			continue
		}
		name := gitquote.ReadableName(e.rawPath())
		if e.Dir {
			name, files = name+"/", files+e.Files
		} else {
			files++
		}

		names = append(names, name)
	}
	if len(names) == 0 {
		return nil
	}
	if len(names) > maxNames {
		names = append(names[:maxNames], "…")
	}

	return []string{fmt.Sprintf("ignored by git: %s added or overwritten (%s)", plural(files, "file", "files"), strings.Join(names, " "))}
}
