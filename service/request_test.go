package service

import (
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzParseCall: the arguments of a request can be encoded and decoded again without a change.
func FuzzParseCall(f *testing.F) {
	f.Add([]byte(`{"op":"snapshot","name":"v1","labels":{"a":"b"}}`))
	f.Add([]byte(`{"op":"diff","from":"v1","paths":["a\\xff"]}`))
	f.Add([]byte(`{"op":"policy","keep":{"last":3}}`))
	f.Fuzz(func(t *testing.T, request []byte) {
		args, err := ParseCall(request)
		if err != nil {
			return
		}

		object, err := json.Marshal(args)
		if err != nil {
			t.Fatalf("%+v: %v", args, err)
		}
		again, err := OpOf(args).decode(object)
		if err != nil {
			t.Fatalf("%s was read from %q, and is refused: %v", object, request, err)
		}
		if second, err := json.Marshal(again); err != nil || string(second) != string(object) {
			t.Errorf("%s becomes %s (%v)", object, second, err)
		}
	})
}

// FuzzLine: the line of a control file is refused, or becomes arguments of the type of its operation.
func FuzzLine(f *testing.F) {
	for _, line := range []string{"v1", `"a b" c\ d`, `{"name":"v1"}`, "v1 a message", `a"b`, "keep-last=3"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		for _, o := range ops {
			if o.ControlFiles.Line == nil {
				continue
			}
			if args, err := o.ParseLine(line); err == nil && reflect.TypeOf(args) != o.Args {
				t.Errorf("%s reads %q as a %T", o.Name, line, args)
			}
		}
	})
}
