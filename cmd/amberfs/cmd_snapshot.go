package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
)

func snapshotCommand(a *app) *cobra.Command {
	var (
		message, expires string
		labels           []string
		noWait, pin      bool
		turn, ifChanged  bool
	)
	cmd := &cobra.Command{
		Use:   "snapshot [NAME] [-m MESSAGE] [--expires 24h] [--label KEY=VALUE]... [--turn] [--if-changed]",
		Short: "Take a snapshot",
		Long: `Takes a snapshot named NAME, or cp-N without a NAME. The cost does not depend on the
size of the workspace.

The command waits until the snapshot is stored, so that it survives a power cut, and
prints its id. With --no-wait it returns at once and prints cp-N.`,
		Example: `  amberfs snapshot before-refactor -m "all tests pass"
  amberfs snapshot try-1 --expires 24h --label agent=left`,
		Args: args(0, 1, "at most one NAME"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			req := service.Snapshot{Name: strings.Join(argv, ""), Message: message, Wait: !noWait, Pinned: pin, Expires: expires, IfChanged: ifChanged}
			if turn {
				req.Kind = snapshot.KindTurn
			}
			var err error
			if req.Labels, err = parseLabels(labels); err != nil {
				return err
			}
			if expires != "" {
				if _, err := service.ParseExpiry(expires, time.Now()); err != nil {
					return err
				}
			}
			return show(a, cmd, req, func(info snapshot.Info) {
				if noWait {
					a.printf("cp-%d\n", info.Seq)
				} else {
					a.printf("snapshot %s created: %s\n", info.Name, info.ID)
				}
			})
		},
	}
	cmd.Flags().StringVarP(&message, "message", "m", "", "`MESSAGE` of the snapshot")
	cmd.Flags().StringVar(&expires, "expires", "", "delete it after this `TIME`: 30m, 24h, 7d, 2w, or an RFC 3339 date")
	cmd.Flags().StringArrayVar(&labels, "label", nil, "add the label `KEY=VALUE`; repeatable")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "do not wait until it is stored")
	cmd.Flags().BoolVar(&turn, "turn", false, "kind turn: an agent's turn, kept as the policy says")
	cmd.Flags().BoolVar(&ifChanged, "if-changed", false, "take none if nothing differs from the newest one")
	cmd.Flags().BoolVar(&pin, "pin", false, "protect it from deletion")
	return cmd
}

// parseLabels reads KEY=VALUEs.
func parseLabels(texts []string) (map[string]string, error) {
	var out map[string]string
	for _, l := range texts {
		k, v, ok := strings.Cut(l, "=")
		if !ok || k == "" {
			return nil, fail.New(fail.Usage, "--label takes KEY=VALUE, not %q", l)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[k] = v
	}
	return out, nil
}
