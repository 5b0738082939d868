package service

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/internal/strictjson"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// A request is one JSON object with the arguments of its operation, in the body of a
// POST as in `.snapshots/call`. Where the body is a stream, or there is none, the
// arguments are the query: a name that comes more than once is a list.

// bind reads the arguments of a request over HTTP.
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
		return nil, fail.New(fail.Usage, "%s: unknown query parameter %q", o.Name, name).
			WithHint("arguments are the JSON object of the body; the query takes workspace alone")
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil {
		return nil, fail.New(fail.Usage, "reading the request: %w", err)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return o.decode([]byte("{}"))
	}
	named, object, err := parse(body)
	if err == nil && named != "" && named != o.Name {
		err = fail.New(fail.Usage, `"op" is %q in a request for %s`, named, o.Name)
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
		f := fieldNamed(reflect.New(o.Args).Elem(), name)
		isList := f.IsValid() && f.Kind() == reflect.Slice
		if len(texts) > 1 && !isList {
			return nil, fail.New(fail.Usage, "%s: the query parameter %s may be given once", o.Name, name)
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
			return nil, fail.New(fail.Usage, "%s: the query parameter %s is %q", o.Name, name, texts[0])
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
		return "", nil, fail.New(fail.Usage, `a request is one JSON object, as {"op":"list","limit":3}: %w`, err)
	}
	if named, ok := fields["op"]; ok {
		if err := json.Unmarshal(named, &op); err != nil {
			return "", nil, fail.New(fail.Usage, `"op" is the name of an operation, not %s`, named)
		}
		delete(fields, "op")
	}
	args, err = json.Marshal(fields)
	return op, args, err
}

// decode reads arguments in JSON.
func (o *Op) decode(object []byte) (any, error) {
	args := reflect.New(o.Args)
	if err := strictjson.Decode(object, args.Interface()); err != nil {
		return nil, fail.New(fail.Usage, "%s: %w", o.Name, err)
	}
	return args.Elem().Interface(), nil
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// fieldNamed finds a field by its JSON name; the zero Value if there is none.
func fieldNamed(args reflect.Value, name string) reflect.Value {
	for i := range args.NumField() {
		if jsonName(args.Type().Field(i)) == name {
			return args.Field(i)
		}
	}
	return reflect.Value{}
}
