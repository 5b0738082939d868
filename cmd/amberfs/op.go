package main

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// opCommands adds the commands of the operations that have one in their row.
func opCommands(a *app, root *cobra.Command, add func(group string, cmd *cobra.Command)) {
	for _, o := range service.Ops() {
		for i := range o.Commands {
			c := &o.Commands[i]
			cmd := opCommand(a, o, c)
			if c.Under == "" {
				add(c.Group, cmd)
				continue
			}

			cmd.DisableFlagsInUseLine = true
			root.Commands()[slices.IndexFunc(root.Commands(), func(up *cobra.Command) bool { return up.Name() == c.Under })].AddCommand(cmd)
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

	words = cmp.Or(c.Takes, words)
	cmd := &cobra.Command{
		Use: c.Use, Aliases: c.Aliases, Short: c.Short, Long: c.Long, Example: c.Example,
		Args: args(least, most, words),
		RunE: func(cmd *cobra.Command, argv []string) error {
			p, err := a.place()
			if o.Args == reflect.TypeFor[service.GetStatus]() && errors.Is(err, locate.ErrNotMounted) {
				return a.statusOutside(cmd.Context())
			}
			if err != nil {
				return err
			}

			given := reflect.New(o.Args).Elem()
			given.Set(reflect.ValueOf(o.With(req.Elem().Interface(), c.Args, argv)))
			if err := relative(p, given); err != nil {
				return err
			}

			return a.showOpAt(cmd.Context(), p, given.Interface(), c)
		},
	}

	for _, f := range c.Flags {
		flag, of, value := f.Parts()
		at := service.FieldNamed(req.Elem(), of)
		if value != "" {
			cmd.Flags().VarPF(&presetFlag{at, value, false}, flag, f.Short, f.About).NoOptDefVal = "true"
			continue
		}

		switch field := at.Addr().Interface().(type) {
		case *bool:
			cmd.Flags().BoolVarP(field, flag, f.Short, *field, f.About)
		case *string:
			cmd.Flags().StringVarP(field, flag, f.Short, *field, f.About)
		case *[]string:
			cmd.Flags().StringArrayVarP(field, flag, f.Short, nil, f.About)
		case *map[string]string:
			labelFlag(cmd, field, f.About)
		case *[]naming.BytePath:
			cmd.Flags().VarP((*pathList)(field), flag, f.Short, f.About)
		default:
			panic(fmt.Sprintf("the flag --%s of %s is a %T", flag, name, field))
		}
	}

	if m, ok := req.Interface().(*snapshot.MergeOptions); ok {
		addPrefer(cmd, &m.Ours, &m.Theirs, []string{sideWorkspace}, []string{sideFork})
	}

	full := strings.TrimSpace(c.Under + " " + name)
	completions[full] = cmp.Or(completions[full], completionOf(c.Args))

	return cmd
}

// presetFlag is a flag without a value of its own: it sets a field of the arguments to value.
type presetFlag struct {
	field reflect.Value
	value string
	given bool
}

func (f *presetFlag) String() string { return strconv.FormatBool(f.given) }
func (f *presetFlag) Type() string   { return "bool" }
func (f *presetFlag) Set(text string) (err error) {
	if f.given, err = strconv.ParseBool(text); !f.given {
		return err
	}

	if f.field.Kind() == reflect.Bool {
		f.field.SetBool(f.value == "true")
	} else {
		f.field.SetString(f.value)
	}

	return nil
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
