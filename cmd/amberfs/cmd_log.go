package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot"
)

func logCommand(a *app) *cobra.Command {
	var req service.Log
	var last int
	var reverse bool
	cmd := &cobra.Command{
		Use:   "log [-f] [-n N] [--since T] [--action A] [--command C] [--reverse] [PATH]",
		Short: "Show events",
		Long: `Shows the events of the workspace, oldest first: time, action, path, and the command
and process that caused it. With PATH, only events at or below it.`,
		Example: `  amberfs log -n 20 --reverse
  amberfs log --since 2h --action deleted src/`,
		Args: args(0, 1, "at most one PATH"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			p, err := a.place()
			if err != nil {
				return err
			}
			if req.Follow && reverse {
				return fail.New(fail.Usage, "-f and --reverse exclude each other")
			}
			if cmd.Flags().Changed("lines") && last < 1 {
				return fail.New(fail.Usage, "-n takes a number from 1 on, not %d", last)
			}
			if req.Since, err = sinceText(req.Since); err != nil {
				return err
			}
			if len(argv) == 1 {
				rel, err := relPath(p, argv[0])
				if err != nil {
					return err
				}
				req.Path = snapshot.BytePath(rel)
			}
			if !req.Follow {
				a.usePager()
			}
			out := &eventPrinter{a: a, last: last, reverse: reverse}
			if req.Follow && last > 0 {
				if req.After, err = a.lastEvents(cmd.Context(), p, req, out); err != nil {
					return err
				}
				out = &eventPrinter{a: a}
			}
			err = a.exchange(cmd.Context(), p, req, client.Exchange{Item: out.add}, nil)
			if req.Follow && cmd.Context().Err() != nil {
				return nil
			}
			return errors.Join(err, out.end())
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&req.Follow, "follow", "f", false, "continue as events happen")
	f.IntVarP(&last, "lines", "n", 0, "only the last `N`")
	f.StringVar(&req.Since, "since", "", "only since this `TIME`: 2h, 7d, or a date")
	f.StringVar(&req.Action, "action", "", "only this `ACTION`: created, modified, deleted, renamed, restored, captured, ...")
	f.StringVar(&req.Command, "command", "", "only commands that begin with `COMMAND`")
	f.BoolVar(&reverse, "reverse", false, "newest first")
	return cmd
}

// lastEvents prints what out keeps of the events so far, and returns the number of the
// last one.
func (a *app) lastEvents(ctx context.Context, p locate.Place, req service.Log, out *eventPrinter) (uint64, error) {
	req.Follow = false
	if err := a.exchange(ctx, p, req, client.Exchange{Item: out.add}, nil); err != nil {
		return 0, err
	}
	var e event
	if n := len(out.held); n > 0 {
		if err := json.Unmarshal(out.held[n-1], &e); err != nil {
			return 0, fmt.Errorf("reading an event: %w", err)
		}
	}
	return e.Seq, out.end()
}

// eventPrinter prints events as they come or, when only the last are wanted or
// the newest first, at the end.
type eventPrinter struct {
	a       *app
	last    int
	reverse bool
	held    []json.RawMessage
}

func (p *eventPrinter) add(line json.RawMessage) error {
	if p.last == 0 && !p.reverse {
		return p.a.printEvent(line)
	}
	p.held = append(p.held, bytes.Clone(line))
	if p.last > 0 && len(p.held) > p.last {
		p.held = p.held[1:]
	}
	return nil
}

func (p *eventPrinter) end() error {
	if p.reverse {
		slices.Reverse(p.held)
	}
	for _, line := range p.held {
		if err := p.a.printEvent(line); err != nil {
			return err
		}
	}
	return nil
}

// event is what is printed of an event; --json prints all of it.
type event struct {
	Seq     uint64    `json:"seq"`
	Time    time.Time `json:"time"`
	Action  string    `json:"action"`
	Path    string    `json:"path"`
	From    string    `json:"from"` // of a rename; of a restore the snapshot
	Detail  string    `json:"detail"`
	PID     uint32    `json:"pid"`
	Command string    `json:"command"`
}

func (a *app) printEvent(line json.RawMessage) error {
	if a.json {
		_, err := fmt.Fprintf(a.stdout, "%s\n", gitquote.JSON(line))
		return err
	}
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("reading an event: %w", err)
	}
	_, err := fmt.Fprintln(a.stdout, e.text(a.color()))
	return err
}

// text is an event in one line.
func (e event) text(color bool) string {
	path := quote(e.Path)
	switch {
	case e.Action == "captured":
		path = e.From
	case e.From != "":
		path += " (from " + quote(e.From) + ")"
	}
	if e.Detail != "" {
		path += ", " + service.OneLine(e.Detail)
	}
	action := fmt.Sprintf("%-8s", e.Action)
	if color {
		action = actionColor(e.Action) + action + colorReset
	}
	who := ""
	if e.PID != 0 || e.Command != "" {
		who = fmt.Sprintf("  %s[%d]", quote(e.Command), e.PID)
	}
	return e.Time.Local().Format("2006-01-02 15:04:05") + "  " + action + "  " + path + who
}

func actionColor(action string) string {
	switch action {
	case "created":
		return colorGreen
	case "deleted":
		return colorRed
	case "restored", "captured":
		return colorBold
	}
	return colorCyan
}
