package service

import (
	"bytes"
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

// A request is one JSON object with the arguments of its operation, in the body of a
// POST as in `.snapshots/call`. Where the body is a stream, or there is none, the
// arguments are the query: a name that comes more than once is a list.

func (o *Op) bind(r *http.Request) (any, error) {
	query := r.URL.Query()
	delete(query, workspaceParam)
	if r.Method != http.MethodPost || o.Input != "" {
		object, err := o.fromQuery(query)
		if err != nil {
			return nil, err
		}
		return o.decode(object)
	}
	for name := range query {
		return nil, errs.Fail(errs.Invalid, "%s: unknown query parameter %q", o.Name, name).
			WithHint("arguments are the JSON object of the body; workspace is the only query parameter")
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil {
		return nil, errs.Fail(errs.Invalid, "reading the request: %w", err)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return o.decode([]byte("{}"))
	}
	named, object, err := parse(body)
	if err == nil && named != "" && named != o.Name {
		err = errs.Fail(errs.Invalid, `"op" is %q in a request for %s`, named, o.Name)
	}
	if err != nil {
		return nil, err
	}
	return o.decode(object)
}

// fromQuery writes a query as the JSON object that it stands for.
func (o *Op) fromQuery(query url.Values) ([]byte, error) {
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

// Query writes arguments as a query, for an operation whose body is a stream.
func (o *Op) Query(args any) url.Values {
	out := url.Values{}
	for v, i := reflect.ValueOf(args), 0; i < v.NumField(); i++ {
		if !v.Field(i).IsZero() {
			out.Set(jsonName(v.Type().Field(i)), fmt.Sprint(v.Field(i)))
		}
	}
	return out
}

// parse reads a request: the operation that "op" names, "" if there is none, and the
// arguments beside it.
func parse(request []byte) (op string, args []byte, err error) {
	fields := map[string]json.RawMessage{}
	if err := strictjson.Decode(request, &fields); err != nil {
		return "", nil, errs.Fail(errs.Invalid, `a request is one JSON object, as {"op":"list","limit":3}: %w`, err)
	}
	if named, ok := fields["op"]; ok {
		if err := json.Unmarshal(named, &op); err != nil {
			return "", nil, errs.Fail(errs.Invalid, `"op" is the name of an operation, not %s`, named)
		}
		delete(fields, "op")
	}
	args, err = json.Marshal(fields)
	return op, args, err
}

func (o *Op) decode(object []byte) (any, error) {
	args := reflect.New(o.Args)
	if err := strictjson.Decode(object, args.Interface()); err != nil {
		return nil, errs.Fail(errs.Invalid, "%s: %w", o.Name, err)
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(object, &given); err != nil {
		return nil, errs.Fail(errs.Invalid, "%s: %w", o.Name, err)
	}
	if name := Missing(given, required(o.Args)); name != "" {
		return nil, errs.Fail(errs.Invalid, "%s: the argument %s is missing", o.Name, name)
	}
	return args.Elem().Interface(), nil
}

// Missing returns the first of the required arguments that is not given, or null; "" if all are.
func Missing(given map[string]json.RawMessage, required []string) string {
	for _, name := range required {
		if v := given[name]; v == nil || string(v) == "null" {
			return name
		}
	}
	return ""
}

// required lists the fields that Schema says are required.
func required(args reflect.Type) (out []string) {
	for _, f := range reflect.VisibleFields(args) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && !f.Anonymous && name != "-" && !strings.Contains(options, "omit") {
			out = append(out, name)
		}
	}
	return out
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// FieldNamed returns the field of a struct with a name in JSON; the zero Value if there is none.
func FieldNamed(args reflect.Value, name string) reflect.Value {
	for i := range args.NumField() {
		if jsonName(args.Type().Field(i)) == name {
			return args.Field(i)
		}
	}
	return reflect.Value{}
}

// An Answer is that of `.snapshots/call` to a request.
type Answer struct {
	OK bool `json:"ok"`
	*errs.Error
	Result any `json:"result,omitempty"`
	// Text is the stream of an operation that gives one, Items are its events.
	Text  string            `json:"text,omitempty"`
	Items []json.RawMessage `json:"items,omitempty"`
	// Stream is set if the stream is long or not text. It is in a file with the name of the
	// control file and .stream, events as one JSON object a line.
	Stream bool `json:"stream,omitempty"`

	events bool
}

// Call carries out a request of a caller in the mount. A stream goes to r.Out, events as one
// JSON object a line; Inline puts it into the answer.
func (s *Service) Call(ctx context.Context, r *Request, args any) (Answer, error) {
	r.In = bytes.NewReader(nil)
	lines := json.NewEncoder(r.Out)
	lines.SetEscapeHTML(false)
	r.Item = lines.Encode
	o := OpOf(args)
	result, err := s.do(ctx, r, o, args)
	return Answer{OK: true, Result: result, events: o.Output == Events}, err
}

// Inline puts a stream into the answer. It reports false if that is not text.
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

func Failed(err error) Answer {
	e := *errs.ErrorOf(err)
	a := Answer{Error: &e, Result: e.Result}
	e.Result = nil
	return a
}

// ParseCall reads a request that is written as one JSON object: the name of the operation as
// "op", and its arguments beside it.
func ParseCall(request []byte) (args any, err error) {
	name, object, err := parse(request)
	if err != nil {
		return nil, err
	}
	o, err := findOp(name)
	if err != nil {
		return nil, err
	}
	return o.decode(object)
}

// Schema describes a type. It has one type everywhere, because some clients refuse lists of
// types. Objects may get more fields.
func Schema(t reflect.Type) (*jsonschema.Schema, error) { return schemaFor(t, typeSchemas()) }

// typeSchemas describes the types that write themselves in JSON.
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
	if err == nil {
		plain(s)
	}
	return s, err
}

func plain(s *jsonschema.Schema) {
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
		plain(p)
	}
	plain(s.Items)
	if a := s.AdditionalProperties; a != nil && a.Not != nil {
		s.AdditionalProperties = nil // fields may come
	}
	plain(s.AdditionalProperties)
}
