package service

import (
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/internal/strictjson"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// A Command is a command of the command line that calls one operation and prints its result. Use, Group, Short, Long,
// Example and Aliases are as in cobra.Command.
type Command struct {
	Use, Group, Short, Long, Example string
	Parent                           string // the parent command of a subcommand; a subcommand has no Group
	Aliases                          []string
	Preset                           any        // arguments that are the same in every call; the type is Op.Args
	Args                             Positional // the fields that the words of the command line set
	ArgsText                         string     // names the expected words in an error message; if empty, the message has the words of Use
	DashField                        string     // the field that the words after -- set; if empty, they are ordinary words
	Flags                            []Flag
	// PreferSides has two lists of values of the flag --prefer, separated by blanks. A value in the first list means
	// --ours, a value in the second list means --theirs.
	PreferSides [2]string
	// Convert, if set, converts the arguments that the command line sets to the arguments of the call. The result may
	// be arguments of another operation. See convertFunc.
	Convert      func(args any, g *ParsedLine) (any, error)
	UsesPager    bool // on a terminal, the text is shown by the pager
	PrintsDamage bool // if an error is of the kind Damaged, its result is printed, too
	WorksOutside bool // outside of a mount, the command describes the current directory instead of failing
	// AsksAboutConflicts is set if the command asks the user about conflicts, and repeats the call with the answers.
	AsksAboutConflicts bool
	Forms              map[string]Form // text forms that replace Op.Text, by the flag that selects them
	// PathHint is the format of the hint in the error for a word that names no snapshot, but an existing path. The
	// argument of the format is the path, quoted for a shell.
	PathHint string
}

// A Flag sets a field of the arguments. Name has one of these forms:
//
//   - NAME sets the field of the same name: dry-run sets dry_run.
//   - NAME=FIELD sets another field.
//   - NAME=FIELD:VALUE is a flag without a value on the command line. It sets FIELD to VALUE.
//   - NAME= sets no field: Command.Convert reads the flag. Such a flag takes a value if About has a word in
//     backquotes.
type Flag struct{ Name, Short, About string }

// Parts splits f.Name into the name of the flag, the field that it sets ("" for none), and VALUE ("" for a flag with
// a value on the command line).
func (f Flag) Parts() (name, field, value string) {
	name, field, other := strings.Cut(f.Name, "=")
	if !other {
		field = strings.ReplaceAll(name, "-", "_")
	}
	field, value, _ = strings.Cut(field, ":")
	return name, field, value
}

// A ParsedLine is a parsed command line. Command.Convert reads it.
type ParsedLine struct {
	Words           []string          // the words; without the words after -- if Command.DashField is set
	WordsBeforeDash int               // the number of words before --; -1 without --
	Flags           map[string]string // the values of the flags that were given
	JSON            bool              // --json was given
	Width           int               // width of the terminal in columns
	ReadFile        func(file string) ([]byte, error)
}

// HasFlag reports whether a flag was given.
func (g *ParsedLine) HasFlag(flag string) bool { _, ok := g.Flags[flag]; return ok }

// IsSet reports whether a flag without a value was given, and not as --FLAG=false.
func (g *ParsedLine) IsSet(flag string) bool { return g.Flags[flag] == strconv.FormatBool(true) }

// Arguments returns the arguments for a call of the operation: a copy of preset with the fields that the command line
// sets. If c.Convert is set, it converts them.
func (c *Command) Arguments(o *Op, preset any, g *ParsedLine) (any, error) {
	for i, w := range c.Args.Words() {
		if i < len(g.Words) && g.Words[i] == "" && FieldNamed(reflect.New(o.Args).Elem(), w.Field).Type() == reflect.TypeFor[naming.BytePath]() {
			return nil, errs.Fail(errs.Invalid, "a PATH is empty")
		}
	}

	args := o.ArgsFrom(preset, c.Args, g.Words)
	if c.Convert == nil {
		return args, nil
	}

	return c.Convert(args, g)
}

// convertFunc converts a function that takes arguments of the type A to a function for Command.Convert.
func convertFunc[A any](convert func(A, *ParsedLine) (any, error)) func(any, *ParsedLine) (any, error) {
	return func(args any, g *ParsedLine) (any, error) { return convert(args.(A), g) }
}

// absoluteSince converts a time or duration, as the user gave it, to a time in RFC 3339. The daemon may be in another
// time zone than the user.
func absoluteSince(text string) (string, error) {
	t, err := ParseSince(text)
	if err != nil || t.IsZero() {
		return "", err
	}
	return t.Format(time.RFC3339Nano), nil
}

func convertList(a List, g *ParsedLine) (_ any, err error) {
	if a.Since, err = absoluteSince(a.Since); err != nil {
		return nil, err
	}

	if g.IsSet("turns") {
		if a.Kind != "" && a.Kind != info.KindTurn || g.IsSet("long") {
			return nil, errs.Fail(errs.Invalid, "--turns cannot be used with --kind or --long")
		}
		a.Kind = info.KindTurn
	}

	if !g.IsSet("all") && a.Kind == "" {
		a.Without = info.KindPreRestore + "," + info.KindCall
	}

	return a, nil
}

func convertLog(a Log, _ *ParsedLine) (_ any, err error) {
	a.Since, err = absoluteSince(a.Since)
	return a, err
}

// convertDiff splits A..B. For --json it returns arguments of the operation Changes, whose result is a list.
func convertDiff(a Diff, g *ParsedLine) (any, error) {
	if len(g.Words) == 1 {
		a.A, a.B, _ = strings.Cut(a.A, "..") // no name has two dots
	}
	if a.A == "" && len(g.Words) == 0 {
		a.A = "latest"
		if g.HasFlag("fork") {
			a.A = baseStateName
		}
	}

	if g.IsSet("stat") && g.IsSet("name-status") {
		return nil, errs.Fail(errs.Invalid, "--stat and --name-status cannot be combined")
	}
	if g.JSON {
		return Changes{A: a.A, B: a.B, By: a.By, Paths: a.Paths}, nil
	}

	a.Width = g.Width
	return a, nil
}

// convertRestore treats a single word as a path if it stands after -- or has a slash. For a path it returns
// arguments of the operation Revert.
func convertRestore(a snapshot.RestoreOptions, g *ParsedLine) (any, error) {
	if g.WordsBeforeDash == 0 && len(a.Paths) > 0 {
		return nil, errs.Fail(errs.Invalid, "restore -- takes one PATH; for several, name the snapshot before --")
	}
	if len(a.Paths) > 0 || g.WordsBeforeDash != 0 && !strings.Contains(a.Name, "/") {
		return a, nil
	}

	if a.DryRun || len(a.Keep) > 0 {
		return nil, errs.Fail(errs.Invalid, "--dry-run and --keep need the NAME of a snapshot, and %s is a path", gitquote.ReadableName(a.Name))
	}
	if a.Name == "" {
		return nil, errs.Fail(errs.Invalid, "a PATH is empty")
	}

	return Revert{Path: naming.BytePath(a.Name)}, nil
}

// convertUndo returns arguments of undo-by for --by, of restore for --turn or --keep, and otherwise of undo-op.
// Without --op, undo-op undoes the last operation.
func convertUndo(a snapshot.UndoByOptions, g *ParsedLine) (any, error) {
	turn, err := strconv.Atoi(g.Flags["turn"])
	if g.HasFlag("turn") && (err != nil || turn < 1 || g.HasFlag("by") || g.HasFlag("op")) {
		return nil, errs.Fail(errs.Invalid, "--turn takes a number of `amberfs list --turns`, and no --by or --op")
	}

	number, err := strconv.ParseUint(g.Flags["op"], 10, 64)
	if g.HasFlag("op") && (err != nil || number < 1 || g.HasFlag("by") || g.HasFlag("keep")) {
		return nil, errs.Fail(errs.Invalid, "--op takes a number of `amberfs ops`, and no --by or --keep")
	}

	if a.Actor == "" {
		for _, flag := range []string{"since", "ours", "theirs", "prefer"} {
			if g.HasFlag(flag) && (number == 0 || flag == "since") {
				return nil, errs.Fail(errs.Invalid, "--%s needs --by", flag)
			}
		}
		if len(g.Words) > 0 {
			return nil, errs.Fail(errs.Invalid, "amberfs undo takes no arguments").WithHint("see `amberfs help undo`")
		}
	}
	switch {
	case g.HasFlag("by"):
		return a, nil
	case turn > 0:
		return snapshot.RestoreOptions{Name: TurnName(uint64(turn)), Keep: a.Keep, DryRun: a.DryRun}, nil
	case len(a.Keep) > 0:
		return UndoRestore(a.Keep, a.DryRun), nil
	}

	return UndoOp{Number: number, MergeRules: a.MergeRules}, nil
}

// UndoRestore returns the restore that undoes the last change of the files of a workspace.
func UndoRestore(keep []naming.BytePath, dryRun bool) snapshot.RestoreOptions {
	return snapshot.RestoreOptions{Name: "undo", Keep: keep, DryRun: dryRun}
}

// convertFork returns arguments of the operation DeleteFork if --delete or --discard is given.
func convertFork(a snapshot.ForkOptions, g *ParsedLine) (any, error) {
	deletes, discards := g.IsSet("delete"), g.IsSet("discard")
	switch {
	case deletes && discards || (deletes || discards) && a.TTL != "":
		return nil, errs.Fail(errs.Invalid, "--delete, --discard and --ttl cannot be used together")
	case !deletes && !discards:
		return a, nil
	case len(g.Words) != 1:
		return nil, errs.Fail(errs.Invalid, "amberfs fork --delete and --discard take one NAME").WithHint("see `amberfs help fork`")
	}

	return DeleteFork{Name: a.Name, Discard: discards, Force: g.IsSet("force")}, nil
}

// convertActor makes the call register the parent process of the command if no process was given, because the process
// of the command ends at once.
func convertActor(a Actor, _ *ParsedLine) (any, error) {
	if a.PID == 0 {
		a.Up = 1
	}
	return a, nil
}

// convertPolicy reads the patch from the file. If no file is given, it returns arguments of the operation Policy,
// which shows the policy.
func convertPolicy(_ SetPolicy, g *ParsedLine) (any, error) {
	if len(g.Words) == 0 {
		return Policy{}, nil
	}

	patch, err := g.ReadFile(g.Words[0])
	if err != nil {
		return nil, err
	}

	if err := strictjson.Decode(patch, new(any)); err != nil {
		source := g.Words[0]
		if source == "-" {
			source = "the standard input"
		}
		return nil, errs.Fail(errs.Invalid, "cannot read a policy from %s: %w", source, err)
	}

	return SetPolicy{Patch: patch}, nil
}
