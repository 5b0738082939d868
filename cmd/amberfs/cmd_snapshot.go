package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
	"github.com/amberfs/amberfs/snapshot"
)

func snapshotCommand(a *app) *cobra.Command {
	var (
		message, expires string
		labels           []string
		noWait, pin      bool
	)
	cmd := &cobra.Command{
		Use:   "snapshot NAME [-m MESSAGE] [--expires 24h] [--label KEY=VALUE]...",
		Short: "Capture the workspace as it is now",
		Long: `Captures the workspace as it is now and calls the snapshot NAME.

The capture itself takes no time, whatever the size of the workspace. The
command then waits until the snapshot is sealed (its contents hashed and stored)
and prints its id; --no-wait does not wait, and prints its number, cp-N, instead.`,
		Example: `  amberfs snapshot before-refactor -m "all tests pass"
  amberfs snapshot try-1 --expires 24h --label agent=left`,
		Args: args(1, 1, "one NAME"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			req := api.Snapshot{Name: argv[0], Message: message, Wait: !noWait, Pin: pin}
			for _, l := range labels {
				k, v, ok := strings.Cut(l, "=")
				if !ok || k == "" {
					return fail.New(fail.Usage, "--label takes KEY=VALUE, not %q", l)
				}
				if req.Labels == nil {
					req.Labels = map[string]string{}
				}
				req.Labels[k] = v
			}
			if expires != "" {
				t, err := parseExpiry(expires, time.Now())
				if err != nil {
					return err
				}
				req.Expires = &t
			}
			var info snapshot.Info
			if err := a.askHere(cmd.Context(), request{op: "snapshot", args: req}, &info); err != nil {
				return err
			}
			return a.print(info, func() {
				if noWait {
					a.printf("cp-%d\n", info.Seq)
				} else {
					a.printf("snapshot %s created: %s\n", info.Name, info.ID)
				}
			})
		},
	}
	cmd.Flags().StringVarP(&message, "message", "m", "", "what this state is")
	cmd.Flags().StringVar(&expires, "expires", "", "delete it after this `TIME`: 30m, 24h, 7d, 2w, or a date in RFC 3339")
	cmd.Flags().StringArrayVar(&labels, "label", nil, "attach `KEY=VALUE`; may be repeated")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "do not wait for the id")
	cmd.Flags().BoolVar(&pin, "pin", false, "protect it from deletion")
	return cmd
}

// parseExpiry reads a span from now (with d and w besides Go's units) or a date.
func parseExpiry(s string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		if !t.After(now) {
			return t, fail.New(fail.Usage, "the expiry %s is in the past", s)
		}
		return t, nil
	}
	d, err := parseSpan(s)
	if err != nil || d <= 0 {
		return now, fail.New(fail.Usage, "--expires takes a span such as 30m, 24h, 7d or 2w, or a date in RFC 3339, not %q", s)
	}
	return now.Add(d), nil
}

// parseSpan is time.ParseDuration with days and weeks.
func parseSpan(s string) (time.Duration, error) {
	for unit, d := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if num, ok := strings.CutSuffix(s, unit); ok {
			n, err := strconv.ParseFloat(num, 64)
			if err != nil {
				return 0, err
			}
			return time.Duration(n * float64(d)), nil
		}
	}
	return time.ParseDuration(s)
}
