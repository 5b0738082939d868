package service

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/strictjson"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/policy"
)

// A request is one JSON object with the arguments of its operation, in the body of a POST or in
// `.snapshots/call`. If the body is a stream, or there is no body, the arguments are the parameters of the
// query. A repeated parameter is a list.

// readArgs reads the arguments of a request over HTTP. Their type is o.Args.
func (o *Op) readArgs(r *http.Request) (any, error) {
	query := r.URL.Query()
	delete(query, workspaceParam)

	if r.Method != http.MethodPost || o.Input != "" {
		object, err := o.queryObject(query)
		if err != nil {
			return nil, err
		}
		return o.decode(object)
	}

	for name := range query {
		return nil, errs.Fail(errs.Invalid, "%s: unknown query parameter %q", o.Name, name).
			WithHint("arguments are the JSON object of the body; workspace is the only query parameter")
	}

	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBodyBytes))
	if err != nil {
		return nil, errs.Fail(errs.Invalid, "reading the request: %w", err)
	}
	return o.decode([]byte(cmp.Or(string(bytes.TrimSpace(body)), "{}")))
}

// queryObject converts the parameters of a query to a JSON object.
func (o *Op) queryObject(query url.Values) ([]byte, error) {
	object := map[string]any{}

	for name, texts := range query {
		f := FieldNamed(reflect.New(o.Args).Elem(), name)
		isList := f.IsValid() && f.Kind() == reflect.Slice
		if len(texts) > 1 && !isList {
			return nil, errs.Fail(errs.Invalid, "%s: the query parameter %s can be given only once", o.Name, name)
		}

		switch {
		case isList:
			object[name] = naming.BytePaths(texts)
		case !f.IsValid() || f.Kind() == reflect.String:
			object[name] = naming.BytePath(texts[0])
		default: // a number or a bool
			object[name] = json.RawMessage(texts[0])
		}

		if _, err := json.Marshal(object[name]); err != nil {
			return nil, errs.Fail(errs.Invalid, "%s: the query parameter %s is %q", o.Name, name, texts[0])
		}
	}

	return json.Marshal(object)
}

// Query converts arguments to a query, for an operation whose body is a stream.
func (o *Op) Query(args any) url.Values {
	out := url.Values{}
	for _, f := range reflect.VisibleFields(reflect.TypeOf(args)) {
		v := reflect.ValueOf(args).FieldByIndex(f.Index)
		if f.Anonymous || v.IsZero() {
			continue
		}
		text := fmt.Sprint(v)
		if object, err := json.Marshal(v.Interface()); err == nil && v.Kind() == reflect.Map {
			text = string(object)
		}
		out.Set(JSONName(f), text)
	}

	return out
}

// decode reads the arguments in a JSON object, which may also have the field "op" with the name of the operation.
// Unknown fields and missing arguments are errors.
func (o *Op) decode(object []byte) (any, error) {
	args := reflect.New(o.Args)
	var call struct {
		Op string `json:"op"`
	}
	given, err := strictjson.Object(object, args.Interface(), &call)
	if err != nil {
		return nil, errs.Fail(errs.Invalid, "%s: %w", o.Name, err)
	}
	if call.Op != "" && call.Op != o.Name {
		return nil, errs.Fail(errs.Invalid, `"op" is %q in a request for %s`, call.Op, o.Name)
	}

	for _, name := range requiredArgs(o.Args) {
		if !given[name] {
			return nil, errs.Fail(errs.Invalid, "%s: the argument %s is missing", o.Name, name)
		}
	}

	return args.Elem().Interface(), nil
}

// requiredArgs lists the fields that Schema marks as required: the fields without omitempty or omitzero.
func requiredArgs(args reflect.Type) (out []string) {
	for _, f := range reflect.VisibleFields(args) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && !f.Anonymous && name != "-" && !strings.Contains(options, "omit") {
			out = append(out, name)
		}
	}
	return out
}

// JSONName returns the name in JSON of a field of a struct.
func JSONName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// FieldNamed returns the field of the struct args with a name in JSON, the zero Value if no field has the name.
func FieldNamed(args reflect.Value, name string) reflect.Value {
	for _, f := range reflect.VisibleFields(args.Type()) {
		if !f.Anonymous && JSONName(f) == name {
			return args.FieldByIndex(f.Index)
		}
	}
	return reflect.Value{}
}

// An Answer is the answer of `.snapshots/call` to a request.
type Answer struct {
	OK bool `json:"ok"`
	*errs.Error
	Result any `json:"result,omitempty"`
	// Text is the stream of an operation that writes text. Items are the events of an operation that writes
	// events.
	Text  string            `json:"text,omitempty"`
	Items []json.RawMessage `json:"items,omitempty"`
	// Stream is set if the stream is long or not text. Then the stream is in a file of its own, whose name is
	// the name of the control file followed by .stream. In this file, events are JSON objects, one a line.
	Stream bool `json:"stream,omitempty"`

	events bool // the stream consists of events
}

// Call runs the operation that takes args, for a caller in the mount. It writes the stream of the operation to r.Out;
// events are JSON objects, one a line. Answer.Inline can put the stream into the answer.
func (s *Service) Call(ctx context.Context, r *Request, args any) (Answer, error) {
	r.In = bytes.NewReader(nil)
	lines := json.NewEncoder(r.Out)
	lines.SetEscapeHTML(false)
	r.Item = lines.Encode
	result, err := s.Do(ctx, r, args)
	return Answer{OK: true, Result: result, events: r.op.Output == Events}, err
}

// Inline puts the stream of the operation into the answer. It returns false if the stream is not text.
func (a *Answer) Inline(stream []byte) bool {
	if !utf8.Valid(stream) {
		return false
	}

	if !a.events {
		a.Text = string(stream)
		return true
	}

	for line := range bytes.Lines(stream) {
		a.Items = append(a.Items, bytes.TrimSpace(line))
	}

	return true
}

// FailedAnswer returns the answer to a request that failed.
func FailedAnswer(err error) Answer {
	e := *errs.ErrorOf(err)
	a := Answer{Error: &e, Result: e.Result}
	e.Result = nil
	return a
}

// ParseCall reads a request that names its operation in the field "op". It returns the arguments, whose type
// identifies the operation (OpOf).
func ParseCall(request []byte) (args any, err error) {
	var call struct{ Op any }
	if json.Unmarshal(request, &call) != nil {
		return nil, errs.Fail(errs.Invalid, `a request is one JSON object, as {"op":"list","limit":3}: %w`, strictjson.Decode(request, &map[string]any{}))
	}

	name, _ := call.Op.(string)
	o, err := findOp(name)
	if err != nil {
		return nil, err
	}

	return o.decode(request)
}

// Schema returns the JSON schema of a type. Each value has one type, because some clients refuse
// lists of types. Objects may have further fields.
func Schema(t reflect.Type) (*jsonschema.Schema, error) { return schemaFor(t, typeSchemas()) }

// typeSchemas returns the schemas of types that have their own encoding in JSON.
func typeSchemas() map[reflect.Type]*jsonschema.Schema {
	return map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[naming.BytePath]():   {Type: "string"},
		reflect.TypeFor[policy.Span]():       {Type: "string"},
		reflect.TypeFor[time.Time]():         {Type: "string", Format: "date-time"},
		reflect.TypeFor[json.RawMessage]():   {Type: "object"},
		reflect.TypeFor[map[string]string](): {Type: "object", AdditionalProperties: &jsonschema.Schema{Type: "string"}},
	}
}

func schemaFor(t reflect.Type, known map[reflect.Type]*jsonschema.Schema) (*jsonschema.Schema, error) {
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: known})
	if err != nil {
		return nil, err
	}
	simplifySchema(s)
	return s, nil
}

// simplifySchema removes from s, and from the schemas in it, lists of types and the prohibition of further fields.
func simplifySchema(s *jsonschema.Schema) {
	if s == nil {
		return
	}

	for _, t := range s.Types {
		if t != "null" {
			s.Type = t
		}
	}

	s.Types = nil
	for _, p := range s.Properties {
		simplifySchema(p)
	}

	simplifySchema(s.Items)
	if a := s.AdditionalProperties; a != nil && a.Not != nil {
		s.AdditionalProperties = nil
	}

	simplifySchema(s.AdditionalProperties)
}
