package service

import (
	"reflect"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/strictjson"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// This file has the interfaces of operations besides HTTP: MCP tools, commands and control
// files. The row of an operation lists those that it has.

// An Effect is what a call changes. MCP clients use it to decide whether to ask the user first.
type Effect int

const (
	Reads    Effect = iota
	Adds            // only new things
	Destroys        // deletes or replaces what exists; of a restore, undo takes it back
	Executes        // runs programs that the caller chooses, with the rights of the user
	Sends           // to other machines
)

func (e Effect) String() string {
	return [...]string{"reads", "adds", "destroys", "executes", "sends"}[e]
}

// The sets of MCP tools.
const (
	ToolsAll = iota
	ToolsSnapshots
	ToolsWorkspace // below workspace__NAME__
)

// A Tool is an operation with a name and arguments that models know.
type Tool struct {
	Names [3]string // by set, "" where it is not in the set
	Title string
	About string // if empty, that of the operation
	// Preset are the arguments that every call has.
	Preset any
	// Args are the arguments that the tool takes. AS=FIELD is one by another name. A
	// list that is called by a name in the singular takes one element.
	Args string
}

// A Command is a command that only calls the operation and prints its result.
type Command struct {
	Use, Group, Short, Long, Example string
	Under                            string // the command that it is a part of, instead of a group
	Aliases                          []string
	Preset                           any
	Args                             Positional
	Takes                            string // what the arguments are, for an error; else the words of Use
	Flags                            []Flag
	Pager                            bool   // on a terminal
	JSON                             string // the field of the result that --json prints; else the result
	Damage                           bool   // the result is printed also if it comes with an error of the kind Damaged
}

// A Flag sets the field of the same name: dry-run sets dry_run. The flag NAME=FIELD sets
// another field, and NAME=FIELD:VALUE, without a value of its own, sets it to VALUE.
type Flag struct{ Name, Short, About string }

// Parts returns the name of a flag, the field that it sets, and the value of a flag that has
// none of its own.
func (f Flag) Parts() (name, field, value string) {
	name, field, other := strings.Cut(f.Name, "=")
	if !other {
		field = strings.ReplaceAll(name, "-", "_")
	}
	field, value, _ = strings.Cut(field, ":")
	return name, field, value
}

// Positional are the fields that the words of a command line or of a control file's line
// set, in this order. [f] can be missing, and f... takes all that are left.
type Positional string

// Word is one of them.
type Word struct {
	Field    string
	Optional bool
	Rest     bool
}

func (p Positional) Words() (out []Word) {
	for _, w := range strings.Fields(string(p)) {
		inner := strings.TrimSuffix(strings.TrimPrefix(w, "["), "]")
		field := strings.TrimSuffix(inner, "...")
		out = append(out, Word{Field: field, Optional: inner != w, Rest: field != inner})
	}
	return out
}

// Limits returns how many words there can be; most is -1 for any number.
func (p Positional) Limits() (least, most int) {
	words := p.Words()
	for _, w := range words {
		if !w.Optional {
			least++
		}
		if most++; w.Rest {
			return least, -1
		}
	}
	return least, most
}

// set sets fields of args, a pointer, by the words of a line.
func (p Positional) set(args reflect.Value, given []string) {
	for i, w := range p.Words() {
		if i == len(given) {
			return
		}
		f, one := FieldNamed(args, w.Field), given[i:i+1]
		if w.Rest {
			one = given[i:]
		}
		switch f.Interface().(type) {
		case []naming.BytePath:
			f.Set(reflect.ValueOf(naming.BytePaths(one)))
		case []string:
			f.Set(reflect.ValueOf(one))
		default:
			f.SetString(one[0])
		}
	}
}

// With returns arguments: those of preset, or none if it is nil, and the words of a line.
func (o *Op) With(preset any, p Positional, given []string) any {
	args := reflect.New(o.Args).Elem()
	if preset != nil {
		args.Set(reflect.ValueOf(preset))
	}
	p.set(args, given)
	return args.Interface()
}

// A Line is a control file of .snapshots. A line that is written to it asks for the operation.
type Line struct {
	File  string
	Args  Positional
	Usage string // what the line is, for an error
	// Parse reads a line that is not words. May be nil.
	Parse func(line string) (any, error)
}

// A Query is a file of .snapshots whose name has snapshots: diff@A, diff@A..B. It shows the result.
type Query struct {
	File   string
	Preset any
	Args   Positional // of the names A and B
}

// Of reads what follows the @ in the name of a file. It returns nil if that is not as many
// names of snapshots as the query takes.
func (q *Query) Of(names string) []string {
	list := strings.SplitN(names, "..", 2) // no name has two dots
	if least, most := q.Args.Limits(); len(list) < least || len(list) > most || slices.Contains(list, "") {
		return nil
	}
	return list
}

// Queried returns the query for a file, and its operation; nil if there is none.
func Queried(file string) (*Op, *Query) {
	for _, o := range ops {
		for i := range o.Queries {
			if o.Queries[i].File == file {
				return o, &o.Queries[i]
			}
		}
	}
	return nil, nil
}

// Written returns the operation of a control file that takes lines; nil if there is none.
func Written(file string) *Op {
	i := slices.IndexFunc(ops, func(o *Op) bool { return o.Line != nil && o.Line.File == file })
	if i < 0 {
		return nil
	}
	return ops[i]
}

// FromLine reads a line that was written to the operation's control file.
func (o *Op) FromLine(line string) (any, error) {
	if o.Line.Parse != nil {
		return o.Line.Parse(line)
	}
	words, err := splitFields(line)
	if least, most := o.Line.Args.Limits(); err == nil && (len(words) < least || most >= 0 && len(words) > most) {
		err = errs.New(errs.Invalid, "name %s", o.Line.Usage)
	}
	if err != nil {
		return nil, err
	}
	return o.With(nil, o.Line.Args, words), nil
}

// parseCreate reads a name and a message, or an object.
func parseCreate(line string) (any, error) {
	var a snapshot.CaptureOptions
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "{") {
		name := line
		if i := strings.IndexAny(line, " \t\r\n"); i >= 0 {
			name, a.Message = line[:i], strings.TrimSpace(line[i:])
		}
		a.Name = name
		return a, nil
	}
	if err := strictjson.Decode([]byte(line), &a); err != nil {
		return nil, errs.New(errs.Invalid, "a snapshot in JSON is one object with name, message, labels and the like: %v", err)
	}
	return a, nil
}

func parsePolicy(line string) (any, error) { return SetPolicy{Patch: []byte(line)}, nil }

// splitFields splits a line at blanks. As in a shell, a field in double quotes
// may have blanks in it, and a backslash takes the character after it as it is.
func splitFields(line string) ([]string, error) {
	var fields []string
	var b strings.Builder
	inField, quoted := false, false
	for i := 0; i < len(line); i++ {
		ch := line[i]
		switch {
		case ch == '\\' && i+1 < len(line):
			i++
			b.WriteByte(line[i])
			inField = true
		case ch == '"':
			quoted = !quoted
			inField = true
		case !quoted && strings.IndexByte(" \t\r\n", ch) >= 0:
			if inField {
				fields = append(fields, b.String())
				b.Reset()
			}
			inField = false
		default:
			b.WriteByte(ch)
			inField = true
		}
	}
	if quoted {
		return nil, errs.New(errs.Invalid, "a quote is not closed")
	}
	if inField {
		fields = append(fields, b.String())
	}
	return fields, nil
}
