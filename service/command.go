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

// A Command is a command of the command line that only calls an operation and prints the result.
type Command struct {
	Use, Group, Short, Long, Example string
	Under                            string // the parent command, for a subcommand; it has no group
	Aliases                          []string
	Preset                           any // arguments that are the same in every call; the type is Op.Args
	Args                             Positional
	Takes                            string // describes the arguments in an error; if empty, the words of Use
	Dash                             string // the field that the words after -- set; if empty, they are ordinary words
	Flags                            []Flag
	// Prefer has the values of the flag --prefer that stand for --ours and --theirs. Each is a list of names,
	// separated by blanks.
	Prefer [2]string
	// Call, if set, converts the arguments that the command line sets to the arguments of the call, which
	// may be arguments of another operation. See calling.
	Call   func(args any, g *Given) (any, error)
	Pager  bool            // on a terminal, the text is shown by the pager
	Damage bool            // print the result of an error of the kind Damaged, too
	Forms  map[string]Form // text forms that replace Op.Text, by the flag that selects them
	// Path is a format for the hint in the error for a word that is a path and no snapshot. The command
	// inserts the path, quoted for a shell.
	Path string
}

// A Flag sets a field of the arguments. Name is NAME for the field of the same name (dry-run sets dry_run),
// NAME=FIELD for another field, or NAME=FIELD:VALUE for a flag without a value that sets FIELD to VALUE.
// NAME= sets no field: Command.Call reads the flag. Such a flag takes a value if About has a word in
// backquotes.
type Flag struct{ Name, Short, About string }

// Parts returns the name of the flag, the field that it sets, and the value to set if the flag takes
// none from the command line.
func (f Flag) Parts() (name, field, value string) {
	name, field, other := strings.Cut(f.Name, "=")
	if !other {
		field = strings.ReplaceAll(name, "-", "_")
	}
	field, value, _ = strings.Cut(field, ":")
	return name, field, value
}

// A Given is a parsed command line before Command.Call.
type Given struct {
	Words []string          // the words; without the words after -- if Command.Dash is set
	Dash  int               // the number of words before --; -1 without --
	Flags map[string]string // the values of the flags that were given
	JSON  bool              // --json was given
	Width int               // of the terminal, in columns
	Read  func(file string) ([]byte, error)
}

// Has reports whether a flag was given.
func (g *Given) Has(flag string) bool { _, ok := g.Flags[flag]; return ok }

// Is reports whether a flag without a value was given and is set.
func (g *Given) Is(flag string) bool { return g.Flags[flag] == strconv.FormatBool(true) }

// Arguments returns the arguments that the command line sets, converted by Call if it is set.
func (c *Command) Arguments(o *Op, preset any, g *Given) (any, error) {
	for i, w := range c.Args.Words() {
		if i < len(g.Words) && g.Words[i] == "" && FieldNamed(reflect.New(o.Args).Elem(), w.Field).Type() == reflect.TypeFor[naming.BytePath]() {
			return nil, errs.Fail(errs.Invalid, "a PATH is empty")
		}
	}

	args := o.With(preset, c.Args, g.Words)
	if c.Call == nil {
		return args, nil
	}

	return c.Call(args, g)
}

// calling converts call, which takes arguments of the type A, to a function for Command.Call.
func calling[A any](call func(A, *Given) (any, error)) func(any, *Given) (any, error) {
	return func(args any, g *Given) (any, error) { return call(args.(A), g) }
}

// sinceForDaemon converts a time in the user's time zone to a text that does not depend on the daemon's time
// zone.
func sinceForDaemon(text string) (string, error) {
	t, err := ParseSince(text)
	if err != nil || t.IsZero() {
		return "", err
	}
	return t.Format(time.RFC3339Nano), nil
}

func callList(a List, g *Given) (_ any, err error) {
	if a.Since, err = sinceForDaemon(a.Since); err != nil {
		return nil, err
	}

	if g.Is("turns") {
		if a.Kind != "" && a.Kind != info.KindTurn || g.Is("long") {
			return nil, errs.Fail(errs.Invalid, "--turns cannot be used with --kind or --long")
		}
		a.Kind = info.KindTurn
	}

	if !g.Is("all") && a.Kind == "" {
		a.Without = info.KindPreRestore + "," + info.KindCall
	}

	return a, nil
}

func callLog(a Log, _ *Given) (_ any, err error) {
	a.Since, err = sinceForDaemon(a.Since)
	return a, err
}

// callDiff splits A..B. With --json, it calls the operation Changes, which returns a list.
func callDiff(a Diff, g *Given) (any, error) {
	if len(g.Words) == 1 {
		a.A, a.B, _ = strings.Cut(a.A, "..") // no name has two dots
	}
	if a.A == "" && len(g.Words) == 0 {
		a.A = "latest"
		if g.Has("fork") {
			a.A = snapshotBase
		}
	}

	if g.Is("stat") && g.Is("name-status") {
		return nil, errs.Fail(errs.Invalid, "--stat and --name-status cannot be combined")
	}
	if g.JSON {
		return Changes{A: a.A, B: a.B, By: a.By, Paths: a.Paths}, nil
	}

	a.Width = g.Width
	return a, nil
}

// callRestore treats a single word as a path if it stands after -- or has a slash.
func callRestore(a snapshot.RestoreOptions, g *Given) (any, error) {
	if g.Dash == 0 && len(a.Paths) > 0 {
		return nil, errs.Fail(errs.Invalid, "restore -- takes one PATH; for several, name the snapshot before --")
	}
	if len(a.Paths) > 0 || g.Dash != 0 && !strings.Contains(a.Name, "/") {
		return a, nil
	}

	if a.DryRun || len(a.Keep) > 0 {
		return nil, errs.Fail(errs.Invalid, "--dry-run and --keep need the NAME of a snapshot, and %s is a path", gitquote.Readable(a.Name))
	}
	if a.Name == "" {
		return nil, errs.Fail(errs.Invalid, "a PATH is empty")
	}

	return Revert{Path: naming.BytePath(a.Name)}, nil
}

// callUndo undoes an operation, by default the last one, or the turns of an agent, unless an actor is named.
func callUndo(a snapshot.UndoByOptions, g *Given) (any, error) {
	turn, err := strconv.Atoi(g.Flags["turn"])
	if g.Has("turn") && (err != nil || turn < 1 || g.Has("by") || g.Has("op")) {
		return nil, errs.Fail(errs.Invalid, "--turn takes a number of `amberfs list --turns`, and no --by or --op")
	}

	number, err := strconv.ParseUint(g.Flags["op"], 10, 64)
	if g.Has("op") && (err != nil || number < 1 || g.Has("by") || g.Has("keep")) {
		return nil, errs.Fail(errs.Invalid, "--op takes a number of `amberfs ops`, and no --by or --keep")
	}

	if a.Actor == "" {
		for _, flag := range []string{"since", "ours", "theirs", "prefer"} {
			if g.Has(flag) && (number == 0 || flag == "since") {
				return nil, errs.Fail(errs.Invalid, "--%s needs --by", flag)
			}
		}
		if len(g.Words) > 0 {
			return nil, errs.Fail(errs.Invalid, "amberfs undo takes no arguments").WithHint("see `amberfs help undo`")
		}
	}
	switch {
	case g.Has("by"):
		return a, nil
	case turn > 0:
		return snapshot.RestoreOptions{Name: TurnName(uint64(turn)), Keep: a.Keep, DryRun: a.DryRun}, nil
	case len(a.Keep) > 0:
		return UndoRestore(a.Keep, a.DryRun), nil
	}

	return UndoOp{Number: number, Ours: a.Ours, Theirs: a.Theirs, DryRun: a.DryRun}, nil
}

// UndoRestore returns the restore that undoes the last change of the files of a workspace.
func UndoRestore(keep []naming.BytePath, dryRun bool) snapshot.RestoreOptions {
	return snapshot.RestoreOptions{Name: "undo", Keep: keep, DryRun: dryRun}
}

// callFork deletes a fork if --delete or --discard is given.
func callFork(a snapshot.ForkOptions, g *Given) (any, error) {
	deletes, discards := g.Is("delete"), g.Is("discard")
	switch {
	case deletes && discards || (deletes || discards) && a.TTL != "":
		return nil, errs.Fail(errs.Invalid, "--delete, --discard and --ttl cannot be used together")
	case !deletes && !discards:
		return a, nil
	case len(g.Words) != 1:
		return nil, errs.Fail(errs.Invalid, "amberfs fork --delete and --discard take one NAME").WithHint("see `amberfs help fork`")
	}

	return DeleteFork{Name: a.Name, Discard: discards, Force: g.Is("force")}, nil
}

// callActor registers the parent process of the command by default, because the command itself ends at once.
func callActor(a Actor, _ *Given) (any, error) {
	if a.PID == 0 {
		a.Up = 1
	}
	return a, nil
}

// callPolicy shows the policy if no file is given.
func callPolicy(_ SetPolicy, g *Given) (any, error) {
	if len(g.Words) == 0 {
		return Policy{}, nil
	}

	patch, err := g.Read(g.Words[0])
	if err != nil {
		return nil, err
	}

	if err := strictjson.Decode(patch, new(any)); err != nil {
		from := g.Words[0]
		if from == "-" {
			from = "the standard input"
		}
		return nil, errs.Fail(errs.Invalid, "cannot read a policy from %s: %w", from, err)
	}

	return SetPolicy{Patch: patch}, nil
}
