package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// The names of the sides of a conflict.
const (
	sideDir       = "dir"
	sideRun       = "run"
	sideFork      = "fork"
	sideWorkspace = "workspace"
)

// preferFlag is the flag --prefer, which selects a side of conflicts by its name.
type preferFlag struct {
	ours, theirs           *bool
	oursNames, theirsNames []string
}

// addPreferFlag adds the flag --prefer to a command with the flags --ours and --theirs. Ours is the side that the command
// changes.
func addPreferFlag(cmd *cobra.Command, ours, theirs *bool, oursNames, theirsNames []string) {
	p := &preferFlag{ours, theirs, oursNames, theirsNames}
	cmd.Flags().Var(p, "prefer", "the same by the name of the `SIDE`: "+strings.Join(oursNames, " or ")+" (ours), "+strings.Join(theirsNames, " or ")+" (theirs)")
	_ = cmd.RegisterFlagCompletionFunc("prefer", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return slices.Concat(oursNames, theirsNames), cobra.ShellCompDirectiveNoFileComp
	}) // fails only if there is no such flag
}

func (p *preferFlag) String() string { return "" }
func (p *preferFlag) Type() string   { return "string" }
func (p *preferFlag) Set(side string) error {
	switch {
	case slices.Contains(p.oursNames, side):
		*p.ours = true
	case slices.Contains(p.theirsNames, side):
		*p.theirs = true
	default:
		return errors.New("it is one of " + strings.Join(slices.Concat(p.oursNames, p.theirsNames), ", "))
	}
	return nil
}
