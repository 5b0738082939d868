package main

import (
	"context"
	"errors"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/here"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/runs"
	"github.com/amberfs/amberfs/service"
)

// showStatus prints the state of the workspace or, outside of a mount, of the directory.
func showStatus(ctx context.Context, a *app) error {
	p, err := a.location()
	if errors.Is(err, locate.ErrNotMounted) {
		return showDirectoryStatus(ctx, a)
	}
	if err != nil {
		return err
	}

	return showOp(ctx, a, p, service.GetStatus{}, &service.Command{}, &service.ParsedLine{})
}

// showDirectoryStatus prints the runs, mounts and stores of a directory outside of a mount, and useful next commands.
func showDirectoryStatus(ctx context.Context, a *app) error {
	dir, err := a.commandDir()
	if err != nil {
		return err
	}

	d, err := here.Examine(ctx, dir, runFinder(a))
	if err != nil {
		return err
	}

	d.Next = nextSteps(d)
	return a.print(d, func() { printTable(a.stdout, directoryRows(d)) })
}

// nextSteps returns the next commands that are useful in a directory, the most useful first.
func nextSteps(d *here.Directory) (steps []here.Step) {
	add := func(command, does string) { steps = append(steps, here.Step{Command: command, Description: does}) }

	for _, m := range d.Mounts {
		if m.State != here.Mounted {
			add("amberfs mount "+shellWord(m.Path)+" "+shellWord(m.Mountpoint), "mounts it again; nothing acknowledged is lost")
		}
	}

	for _, r := range d.Runs {
		if r.State == service.RunRunning {
			add("amberfs runs diff "+r.Name, "shows what the program in it has changed until now")
		}
	}

	if r, err := runs.ChooseRun(d.Runs, "", d.Dir); err == nil {
		dirArg := ""
		if r.Dir != d.Dir {
			dirArg = shellWord(r.Dir) + " "
		}
		add("amberfs runs diff "+r.Name, "shows what the newest run changed")
		add("amberfs apply "+dirArg+"--run "+r.Name, "writes its changes to the directory")
		add("amberfs run --resume "+r.Name+" -- COMMAND", "goes on with it")
		return steps
	}

	for _, m := range d.Mounts {
		if m.State == here.Mounted {
			add("cd "+shellWord(m.Mountpoint), "enters the workspace")
		}
	}
	for _, s := range d.Stores {
		add("amberfs mount "+shellWord(s.Path)+" MOUNTPOINT", "mounts the workspace of the store")
	}
	if len(steps) > 0 {
		return steps
	}

	add("amberfs run --from . -- COMMAND", "runs a program in a copy of this directory")
	add("amberfs mount --from . STORE MOUNTPOINT", "makes a workspace with snapshots and forks of it")
	add("amberfs demo", "shows it with a toy project")

	return steps
}

// directoryRows returns the rows that showDirectoryStatus prints.
func directoryRows(d *here.Directory) [][]string {
	rows := [][]string{{"directory", quote(d.Dir) + ", outside of a mount"}}
	add := func(name, text string) { rows = append(rows, []string{name, text}) }

	for _, r := range runRows(d.Runs, d.Copies) {
		if len(r) == 1 {
			add("runs", "none")
			continue
		}
		if r[0] == "-" {
			add("copy", r[1]+", shared by "+r[4]+", "+r[5])
			continue
		}
		add("run", r[0]+", "+r[3]+", "+r[4]+", "+r[5]+", "+r[2])
	}

	for _, m := range d.Mounts {
		add("mount", quote(m.Mountpoint)+", "+m.State+", "+storeText(m.Store))
	}
	for _, s := range d.Stores {
		add("store", "not mounted, "+storeText(s))
	}

	if n := d.Others.Runs; n > 0 {
		add("elsewhere", plural(n, "run", "runs")+" of other directories: amberfs runs")
	}
	if n := d.Others.Mounts; n > 0 {
		add("elsewhere", plural(n, "mount", "mounts")+" of other directories: findmnt -t "+locate.FSType)
	}
	for _, s := range d.Next {
		rows = append(rows, []string{"next", s.Command, s.Description})
	}

	return rows
}

func storeText(s here.Store) string {
	text := "store " + quote(s.Path)
	if s.From != "" {
		text += " from " + quote(s.From)
	}
	return text + ", " + service.BytesText(s.Bytes)
}
