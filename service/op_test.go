package service

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/events"
)

// TestRows: the fields that a row names are fields of the arguments, presets have the type of the arguments, and the
// text form accepts the type of the result.
func TestRows(t *testing.T) {
	for _, o := range ops {
		field := func(name string) {
			if !FieldNamed(reflect.New(o.Args).Elem(), name).IsValid() {
				t.Errorf("%s has no argument %s", o.Name, name)
			}
		}
		for _, tool := range o.Tools {
			for _, arg := range strings.Fields(tool.Args) {
				as, of, renamed := strings.Cut(arg, "=")
				if !renamed {
					of = as
				}
				field(of)
			}
		}
		presets, words := []any{}, []Positional{}
		for _, c := range o.Commands {
			presets, words = append(presets, c.Preset), append(words, c.Args)
			for _, f := range c.Flags {
				if _, of, _ := f.Parts(); of != "" || c.Convert == nil {
					field(of)
				}
			}
		}
		for _, q := range o.ControlFiles.Queries {
			presets, words = append(presets, q.Preset), append(words, q.Args)
		}
		if o.ControlFiles.Line != nil {
			words = append(words, o.ControlFiles.Line.Args)
		}
		for _, w := range words {
			for _, one := range w.Words() {
				field(one.Field)
			}
			o.ArgsFrom(nil, w, []string{"x", "y"})
		}
		for _, p := range presets {
			if p != nil && reflect.TypeOf(p) != o.Args {
				t.Errorf("%s has arguments %T beforehand", o.Name, p)
			}
		}
		if len(o.Tools)+len(o.Commands) > 0 {
			result := reflect.New(o.Result).Interface()
			switch o.Output {
			case Text:
				result = new(string)
			case Events:
				result = &[]events.Event{}
			}
			o.Text.Text(reflect.Zero(o.Args).Interface(), result)
		}
	}
}

// TestRequired: a request is refused if a required argument is missing or null.
func TestRequired(t *testing.T) {
	for _, o := range ops {
		schema, err := Schema(o.Args)
		if err != nil {
			t.Fatal(err)
		}
		whole := map[string]any{"op": o.Name}
		for _, name := range schema.Required {
			whole[name] = map[string]any{"string": "x", "integer": 1, "boolean": false, "array": []string{"x"}, "object": map[string]any{}}[schema.Properties[name].Type]
		}
		ask := func(without, null string) error {
			args := maps.Clone(whole)
			delete(args, without)
			if null != "" {
				args[null] = nil
			}
			request, err := json.Marshal(args)
			if err != nil {
				t.Fatal(err)
			}
			_, err = ParseCall(request)
			return err
		}
		if err := ask("", ""); err != nil {
			t.Errorf("%s with all that is required: %v", o.Name, err)
		}
		for _, name := range schema.Required {
			for _, err := range []error{ask(name, ""), ask("", name)} {
				if errs.ScriptKind(err) != errs.Invalid || !strings.Contains(fmt.Sprint(err), name) {
					t.Errorf("%s without %s: %v", o.Name, name, err)
				}
			}
		}
	}
}

// TestCosts: each operation has a cost. A cheap operation uses no pool of memory.
func TestCosts(t *testing.T) {
	for _, o := range ops {
		if o.Cost == 0 || o.Cost != Cheap && o.Cost&Cheap != 0 {
			t.Errorf("%s costs %d", o.Name, o.Cost)
		}
	}
	for name, want := range map[string]Cost{
		"blame": ListMemory | TextMemory, "forks": CPUHeavy, "summaries": ListMemory | TextMemory, "merge": ListMemory | GitMemory, "undo-by": ListMemory | GitMemory,
		"compact": CPUHeavy, "conflict": ListMemory | TextMemory | GitMemory, "export": GitMemory, "diff": ListMemory | TextMemory, "snapshot": Cheap, "status": Cheap,
	} {
		if o, err := findOp(name); err != nil || o.Cost != want {
			t.Errorf("%s costs %v, not %v: %v", name, o.Cost, want, err)
		}
	}
}
