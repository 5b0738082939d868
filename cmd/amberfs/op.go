package main

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// opCommands adds the commands of the operations that have one in their row.
func opCommands(a *app, add func(group string, cmd *cobra.Command)) {
	for _, o := range service.Ops() {
		for i := range o.Commands {
			add(o.Commands[i].Group, opCommand(a, o, &o.Commands[i]))
		}
	}
}

func opCommand(a *app, o *service.Op, c *service.Command) *cobra.Command {
	req := reflect.New(o.Args)
	if c.Preset != nil {
		req.Elem().Set(reflect.ValueOf(c.Preset))
	}
	least, most := c.Args.Limits()
	name, words, _ := strings.Cut(c.Use, " ")
	if most == 0 {
		words = "no arguments"
	}
	cmd := &cobra.Command{
		Use: c.Use, Aliases: c.Aliases, Short: c.Short, Long: c.Long, Example: c.Example,
		Args: args(least, most, words),
		RunE: func(cmd *cobra.Command, argv []string) error {
			p, err := a.place()
			if err != nil {
				return err
			}
			given := reflect.New(o.Args).Elem()
			given.Set(reflect.ValueOf(o.With(req.Elem().Interface(), c.Args, argv)))
			if err := relative(p, given); err != nil {
				return err
			}
			return a.showOpAt(cmd.Context(), p, given.Interface(), c.Pager)
		},
	}
	for _, f := range c.Flags {
		field := service.FieldNamed(req.Elem(), strings.ReplaceAll(f.Name, "-", "_")).Addr().Interface()
		switch field := field.(type) {
		case *bool:
			cmd.Flags().BoolVarP(field, f.Name, f.Short, *field, f.About)
		case *string:
			cmd.Flags().StringVarP(field, f.Name, f.Short, *field, f.About)
		case *[]naming.BytePath:
			cmd.Flags().VarP((*pathList)(field), f.Name, f.Short, f.About)
		default:
			panic(fmt.Sprintf("the flag --%s of %s is a %T", f.Name, name, field))
		}
	}
	if m, ok := req.Interface().(*snapshot.MergeOptions); ok {
		addPrefer(cmd, &m.Ours, &m.Theirs, []string{sideWorkspace}, []string{sideFork})
	}
	completions[name] = completionOf(c.Args)
	return cmd
}

// pathList is the value of a flag that is given once for each path.
type pathList []naming.BytePath

func (l *pathList) String() string { return "" }
func (l *pathList) Type() string   { return "stringArray" }
func (l *pathList) Set(path string) error {
	*l = append(*l, naming.BytePath(path))
	return nil
}

// completionOf says what completes the words of a command, see completions.
func completionOf(words service.Positional) (kinds string) {
	for _, w := range words.Words() {
		switch w.Field {
		case "name", "names", "from", "snapshot", "snapshots":
			kinds += "snapshot "
		case "remote":
			kinds += "remote "
		case "fork", "label":
			kinds += "fork "
		default:
			kinds += "file "
		}
		if w.Rest {
			return kinds + "..."
		}
	}
	return kinds + "none"
}
