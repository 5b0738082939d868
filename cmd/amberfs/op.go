package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// addOperationCommands adds the commands of the operations that have one in their row. If the command line names one
// of these commands, it adds only this one, because making all takes a millisecond.
func addOperationCommands(a *app, root *cobra.Command, add func(group string, cmd *cobra.Command)) {
	word := firstWord(a.argv)
	named := func(c service.Command) bool {
		name, _, _ := strings.Cut(c.Use, " ")
		return c.Parent == "" && name == word || c.Parent == word || slices.Contains(c.Aliases, word)
	}
	ownCommand, _, err := root.Find([]string{word})
	onlyOne := word != "" && (err == nil && ownCommand != root ||
		slices.ContainsFunc(service.Ops(), func(o *service.Op) bool { return slices.ContainsFunc(o.Commands, named) }))

	for _, o := range service.Ops() {
		for i := range o.Commands {
			c := &o.Commands[i]
			if onlyOne && !named(*c) {
				continue
			}

			cmd := operationCommand(a, o, c)
			if c.Parent == "" {
				add(c.Group, cmd)
				continue
			}

			cmd.DisableFlagsInUseLine = true
			root.Commands()[slices.IndexFunc(root.Commands(), func(up *cobra.Command) bool { return up.Name() == c.Parent })].AddCommand(cmd)
		}
	}
}

func operationCommand(a *app, o *service.Op, c *service.Command) *cobra.Command {
	req := reflect.New(o.Args)
	if c.Preset != nil {
		req.Elem().Set(reflect.ValueOf(c.Preset))
	}

	minArgs, maxArgs := c.Args.WordLimits()
	name, words, _ := strings.Cut(c.Use, " ")
	if maxArgs == 0 {
		words = "no arguments"
	}

	check := argumentCountCheck(minArgs, maxArgs, cmp.Or(c.ArgsText, words))
	cmd := &cobra.Command{
		Use: c.Use, Aliases: c.Aliases, Short: c.Short, Long: c.Long, Example: c.Example,
		Args: func(cmd *cobra.Command, argv []string) error {
			if c.DashField != "" {
				argv, _ = splitDash(cmd, argv)
			}
			return check(cmd, argv)
		},
		RunE: func(cmd *cobra.Command, argv []string) error {
			given, err := parsedLine(a, cmd, argv)
			if err != nil {
				return err
			}

			if c.DashField != "" {
				var after []string
				given.Words, after = splitDash(cmd, argv)
				service.FieldNamed(req.Elem(), c.DashField).Set(reflect.ValueOf(naming.BytePaths(after)))
			}

			args, err := c.Arguments(o, req.Elem().Interface(), given)
			if err != nil {
				return err
			}

			p, err := a.location()
			if c.WorksOutside && errors.Is(err, locate.ErrNotMounted) {
				return showDirectoryStatus(cmd.Context(), a)
			}
			if err != nil {
				return err
			}
			if args, err = withRelativePaths(p, args); err != nil {
				return err
			}
			p = p.InFork(given.Flags["fork"])
			if undo, ok := args.(service.UndoOp); ok {
				return undoOp(cmd.Context(), a, p, undo, given)
			}

			return addPathHint(a, showOp(cmd.Context(), a, p, args, c, given), c, given)
		},
	}

	for _, f := range c.Flags {
		addFlag(a, cmd, req.Elem(), f)
	}

	if c.PreferSides[0] != "" {
		ours, theirs := service.FieldNamed(req.Elem(), "ours"), service.FieldNamed(req.Elem(), "theirs")
		addPreferFlag(cmd, ours.Addr().Interface().(*bool), theirs.Addr().Interface().(*bool), strings.Fields(c.PreferSides[0]), strings.Fields(c.PreferSides[1]))
	}

	fullName := strings.TrimSpace(c.Parent + " " + name)
	kindsByCommand[fullName] = cmp.Or(kindsByCommand[fullName], completionKinds(c.Args))

	return cmd
}

// addFlag adds a flag to a command. The flag sets a field of args. A flag without a field is only used by
// Command.Convert, which reads it from the ParsedLine.
func addFlag(a *app, cmd *cobra.Command, args reflect.Value, f service.Flag) {
	flag, fieldName, value := f.Parts()
	field := service.FieldNamed(args, fieldName)

	switch {
	case fieldName == "" && strings.Contains(f.About, "`"):
		cmd.Flags().StringP(flag, f.Short, "", f.About)
		return
	case fieldName == "":
		cmd.Flags().BoolP(flag, f.Short, false, f.About)
		return
	case value != "":
		cmd.Flags().VarPF(&presetFlag{field, value, false}, flag, f.Short, f.About).NoOptDefVal = "true"
		return
	}

	switch field := field.Addr().Interface().(type) {
	case *bool:
		cmd.Flags().BoolVarP(field, flag, f.Short, *field, f.About)
	case *int:
		cmd.Flags().IntVarP(field, flag, f.Short, *field, f.About)
	case *uint32:
		cmd.Flags().Uint32VarP(field, flag, f.Short, *field, f.About)
	case *string:
		cmd.Flags().StringVarP(field, flag, f.Short, *field, f.About)
	case *[]string:
		cmd.Flags().StringArrayVarP(field, flag, f.Short, nil, f.About)
	case *map[string]string:
		addLabelFlag(cmd, field, f.About)
	case *[]naming.BytePath:
		cmd.Flags().VarP((*pathList)(field), flag, f.Short, f.About)
	default:
		panic(fmt.Sprintf("the flag --%s of %s is a %T", flag, cmd.Name(), field))
	}
}

// parsedLine returns the parsed command line of a command. It fails if the value of a flag for a number is less
// than 1.
func parsedLine(a *app, cmd *cobra.Command, argv []string) (g *service.ParsedLine, err error) {
	g = &service.ParsedLine{Words: argv, WordsBeforeDash: cmd.ArgsLenAtDash(), Flags: map[string]string{}, JSON: a.json, Width: a.terminalWidth(), ReadFile: a.readInput}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		g.Flags[f.Name] = f.Value.String()
		if n, _ := strconv.Atoi(f.Value.String()); f.Value.Type() == "int" && n < 1 {
			err = errs.Fail(errs.Invalid, "-%s must be at least 1, not %d", f.Shorthand, n)
		}
	})

	return g, err
}

// splitDash splits the arguments of a command at --.
func splitDash(cmd *cobra.Command, argv []string) (before, after []string) {
	if n := cmd.ArgsLenAtDash(); n >= 0 {
		return argv[:n:n], argv[n:]
	}
	return argv, nil
}

// addPathHint adds the command's hint for paths to the error about an unknown snapshot, if a word is a path.
func addPathHint(a *app, err error, c *service.Command, g *service.ParsedLine) error {
	wd, werr := a.commandDir()
	if c.PathHint == "" || errs.ScriptKind(err) != errs.NotExist || werr != nil {
		return err
	}

	for _, name := range g.Words {
		if _, serr := os.Lstat(filepath.Join(wd, name)); serr == nil {
			e := *errs.ErrorOf(err)
			return e.WithHint("%s", strings.TrimPrefix(e.Hint+"\n", "\n")+fmt.Sprintf(c.PathHint, shellWord(name)))
		}
	}

	return err
}

// presetFlag is a flag that has no value on the command line. It sets a field of the arguments to a fixed value.
type presetFlag struct {
	field   reflect.Value
	value   string
	isGiven bool
}

func (f *presetFlag) String() string { return strconv.FormatBool(f.isGiven) }
func (f *presetFlag) Type() string   { return "bool" }
func (f *presetFlag) Set(text string) (err error) {
	if f.isGiven, err = strconv.ParseBool(text); !f.isGiven {
		return err
	}

	if f.field.Kind() == reflect.Bool {
		f.field.SetBool(f.value == "true")
	} else {
		f.field.SetString(f.value)
	}

	return nil
}

// addLabelFlag adds the flag --label, which can be repeated.
func addLabelFlag(cmd *cobra.Command, labels *map[string]string, usage string) {
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

// completionKinds returns the kinds of the words of a command for completions.
func completionKinds(words service.Positional) (kinds string) {
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
		if w.TakesRest {
			return kinds + "..."
		}
	}
	return kinds + "none"
}
