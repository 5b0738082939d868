package service

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/strictjson"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// This file has the types for the interfaces of operations besides HTTP: MCP tools, command lines and control
// files. Each is a field of an operation's row.

// An Effect describes the changes by a call. MCP clients use it to decide whether to ask the user first.
type Effect int

const (
	Reads    Effect = iota
	Adds            // creates new things, and leaves existing ones as they are
	Destroys        // deletes or replaces existing things; a restore can be undone
	Executes        // runs programs that the caller chooses, with the rights of the user
	Sends           // sends data to other machines
)

func (e Effect) String() string {
	return [...]string{"reads", "adds", "destroys", "executes", "sends"}[e]
}

// The sets of MCP tools.
const (
	ToolsAll = iota
	ToolsSnapshots
	ToolsWorkspace // the tools with the prefix workspace__NAME__
)

// A Tool is an MCP tool that calls an operation.
type Tool struct {
	Names [3]string // the name of the tool in each set, "" if the set does not have it
	Title string
	About string // if empty, Op.About
	// OnlyInAll is set for a rare tool, which is offered only in the set ToolsAll.
	OnlyInAll bool
	// MakesWorkspace is set for a tool of ToolsWorkspace whose result is a new workspace, and not a snapshot.
	MakesWorkspace bool
	// Preset has the arguments that are the same in every call. The type is Op.Args.
	Preset any
	// Args are the names of the arguments that the tool takes, separated by blanks. NAME=FIELD gives a field
	// another name. If NAME is the singular of a list's name, the argument is one element of the list.
	Args string
}

// Positional lists fields of arguments, separated by blanks. The words of a command line, or of a line written to a
// control file, set these fields in this order. The word for [f] is optional, and f... takes all remaining words. If
// there are too few words for all optional fields, the first optional fields get a word.
type Positional string

// A Word is an element of a Positional: the field that a word sets.
type Word struct {
	Field     string
	Optional  bool
	TakesRest bool
}

// Words splits the list.
func (p Positional) Words() (out []Word) {
	for _, w := range strings.Fields(string(p)) {
		inner := strings.TrimSuffix(strings.TrimPrefix(w, "["), "]")
		field := strings.TrimSuffix(inner, "...")
		out = append(out, Word{Field: field, Optional: inner != w, TakesRest: field != inner})
	}
	return out
}

// WordLimits returns the smallest and the largest number of words. maxWords is -1 if there is no largest number.
func (p Positional) WordLimits() (minWords, maxWords int) {
	words := p.Words()
	for _, w := range words {
		if !w.Optional {
			minWords++
		}
		if maxWords++; w.TakesRest {
			return minWords, -1
		}
	}

	return minWords, maxWords
}

// setFields sets fields of args, an addressable struct, to the words of a line.
func (p Positional) setFields(args reflect.Value, words []string) {
	minWords, _ := p.WordLimits()
	spareWords := len(words) - minWords // words for optional fields

	for _, w := range p.Words() {
		if len(words) == 0 || w.Optional && spareWords <= 0 {
			continue
		}
		f, n := FieldNamed(args, w.Field), 1
		if w.TakesRest {
			n = len(words)
		}
		if w.Optional {
			spareWords -= n
		}

		one := words[:n]
		words = words[n:]

		switch f.Interface().(type) {
		case []naming.BytePath:
			f.Set(reflect.ValueOf(naming.BytePaths(one)))
		case []string:
			f.Set(reflect.ValueOf(one))
		case json.RawMessage:
			f.SetBytes([]byte(one[0]))
		default:
			f.SetString(one[0])
		}
	}
}

// ArgsFrom returns arguments of the operation: a copy of preset, or zero values if preset is nil, with the fields
// that the words of a line set.
func (o *Op) ArgsFrom(preset any, p Positional, words []string) any {
	args := reflect.New(o.Args).Elem()
	if preset != nil {
		args.Set(reflect.ValueOf(preset))
	}
	p.setFields(args, words)
	return args.Interface()
}

// ControlFiles describes how callers in the mount use an operation without `.snapshots/call`.
type ControlFiles struct {
	// RunsInline is set for operations that run on the goroutine that read the kernel's request, without a queue.
	// Such operations are Cheap, and wait neither for a network nor for another process. Waits, if set, reports
	// whether a call with these arguments may wait for one, so that it runs in the queue.
	RunsInline bool
	Waits      func(args any) bool
	Line       *Line
	Queries    []Query
	// Alternative is a text for the error of an operation that needs the socket: what callers in the mount can
	// use in its place.
	Alternative string
	// BriefResult, if set, shortens a long result, for the answer to a line.
	BriefResult func(result any) any
}

// A Line describes a control file in .snapshots: each line that is written to the file calls the operation.
type Line struct {
	File  string
	Args  Positional
	Usage string // the syntax of the line, for errors
	// Parse, if set, reads the line; then Args is not used.
	Parse func(line string) (any, error)
}

// A Query is a file in .snapshots with names of snapshots in its name, such as diff@A and diff@A..B.
// Its contents are the text of the operation's result.
type Query struct {
	File   string // the part of the file's name before the @
	Preset any
	Args   Positional // the fields for the names A and B
}

// SplitNames splits the part of the file's name after the @ into the names of snapshots. It returns nil if the
// query takes another number of names.
func (q *Query) SplitNames(names string) []string {
	list := strings.SplitN(names, "..", 2) // no name has two dots
	if minWords, maxWords := q.Args.WordLimits(); len(list) < minWords || len(list) > maxWords || slices.Contains(list, "") {
		return nil
	}
	return list
}

// FindQuery returns the query whose File is file, and its operation; nil if there is none.
func FindQuery(file string) (*Op, *Query) {
	for _, o := range ops {
		for i := range o.ControlFiles.Queries {
			if o.ControlFiles.Queries[i].File == file {
				return o, &o.ControlFiles.Queries[i]
			}
		}
	}
	return nil, nil
}

// FindLineOp returns the operation that is called by the lines written to a control file; nil if there is none.
func FindLineOp(file string) *Op {
	i := slices.IndexFunc(ops, func(o *Op) bool { return o.ControlFiles.Line != nil && o.ControlFiles.Line.File == file })
	if i < 0 {
		return nil
	}
	return ops[i]
}

// ParseLine returns the arguments in a line that was written to the operation's control file.
func (o *Op) ParseLine(line string) (any, error) {
	if o.ControlFiles.Line.Parse != nil {
		return o.ControlFiles.Line.Parse(line)
	}
	words, err := splitFields(line)
	if err != nil {
		return nil, err
	}
	if minWords, maxWords := o.ControlFiles.Line.Args.WordLimits(); len(words) < minWords || maxWords >= 0 && len(words) > maxWords {
		return nil, errs.New(errs.Invalid, "name %s", o.ControlFiles.Line.Usage)
	}

	return o.ArgsFrom(nil, o.ControlFiles.Line.Args, words), nil
}

// parseCreate reads the options of a snapshot: a name and a message, or a JSON object.
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

// splitFields splits a line at blanks. As in a shell, a field in double quotes may have blanks in it, and the
// character after a backslash has no special meaning.
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
