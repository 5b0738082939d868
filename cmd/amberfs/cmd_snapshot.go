package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/info"
)

func snapshotCommand(a *app) *cobra.Command {
	var req snapshot.CaptureOptions
	var noWait, turn bool
	cmd := &cobra.Command{
		Use:   "snapshot [NAME] [-m MESSAGE] [FLAG]...",
		Short: "Take a snapshot",
		Long: `Takes a snapshot named NAME, or cp-N without a NAME. Waits until it is stored, so that
it survives a power cut, and prints its id.`,
		Example: `  amberfs snapshot before-refactor -m "all tests pass"
  amberfs snapshot try-1 --expires 24h --label agent=left`,
		Args: args(0, 1, "at most one NAME"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			req.Name, req.Wait = strings.Join(argv, ""), !noWait
			if turn {
				req.Kind = info.KindTurn
			}
			if noWait {
				return show(a, cmd, req, func(info info.Info) { a.printf("cp-%d\n", info.Seq) })
			}
			return a.showOp(cmd, req)
		},
	}
	cmd.Flags().StringVarP(&req.Message, "message", "m", "", "`MESSAGE` of the snapshot")
	cmd.Flags().StringVar(&req.Expires, "expires", "", "delete it after this `TIME`: 30m, 24h, 7d, 2w, or an RFC 3339 date")
	labelFlag(cmd, &req.Labels, "add the label `KEY=VALUE`; repeatable")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return at once, and print cp-N")
	cmd.Flags().BoolVar(&turn, "turn", false, "kind turn: an agent's turn, kept as the policy says")
	cmd.Flags().BoolVar(&req.IfChanged, "if-changed", false, "take none if nothing differs from the newest one")
	cmd.Flags().BoolVar(&req.Pinned, "pin", false, "protect it from deletion")
	return cmd
}

// labelFlag adds the flag --label.
func labelFlag(cmd *cobra.Command, labels *map[string]string, usage string) {
	cmd.Flags().Func("label", usage, func(text string) error {
		k, v, ok := strings.Cut(text, "=")
		if !ok || k == "" {
			return errors.New("it takes KEY=VALUE")
		}
		if *labels == nil {
			*labels = map[string]string{}
		}
		(*labels)[k] = v
		return nil
	})
}

func renameCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "rename A B",
		Aliases: []string{"mv"},
		Short:   "Rename snapshot A to B",
		Example: `  amberfs rename cp-7 v1`,
		Args:    args(2, 2, "the present name A and the new name B"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			req := service.Rename{From: argv[0], To: argv[1]}
			return show(a, cmd, req, func(info info.Info) { a.printf("snapshot %s renamed to %s\n", req.From, req.To) })
		},
	}
}
