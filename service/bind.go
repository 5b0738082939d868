package service

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/amberfs/amberfs/internal/fail"
)

// Arguments stand in three places of an HTTP request: those that the route names
// in its path, those of a request without a body of its own in the query, all
// others in the body, as JSON. A query is text, so it holds what is text, a
// number or a bool, lists as a name that comes more than once, and maps as
// name=key=value.

var wildcard = regexp.MustCompile(`\{(\w+)\}`)

// Method of the route.
func (o *Op) Method() string { return strings.Fields(o.Route)[0] }

// Path of the route.
func (o *Op) Path() string { return strings.Fields(o.Route)[1] }

// Wildcards are the arguments in the path.
func (o *Op) Wildcards() []string {
	var out []string
	for _, m := range wildcard.FindAllStringSubmatch(o.Route, -1) {
		out = append(out, m[1])
	}
	return out
}

// InQuery reports whether arguments stand in the query, as the request has no
// body, or one that is a stream.
func (o *Op) InQuery() bool {
	return o.Input != "" || o.Method() == http.MethodGet || o.Method() == http.MethodDelete
}

// Target makes the path and the query of a request for args. body are the
// arguments that are left for its body, nil when it has none.
func (o *Op) Target(args any) (path string, query url.Values, body []byte, err error) {
	fields := values(reflect.ValueOf(args))
	path = wildcard.ReplaceAllStringFunc(o.Path(), func(w string) string {
		name := strings.Trim(w, "{}")
		v := strings.Join(fields[name], "")
		delete(fields, name)
		return url.PathEscape(v)
	})
	switch {
	case o.InQuery():
		return path, fields, nil, nil
	case o.Body != "":
		return path, nil, fieldNamed(reflect.ValueOf(args), o.Body).Bytes(), nil
	}
	body, err = json.Marshal(args)
	if err != nil {
		return "", nil, nil, err
	}
	body, err = without(body, o.Wildcards())
	return path, nil, body, err
}

// without takes fields out of an object.
func without(object []byte, names []string) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil {
		return nil, err
	}
	maps.DeleteFunc(fields, func(k string, _ json.RawMessage) bool { return slices.Contains(names, k) })
	return json.Marshal(fields)
}

// values are the fields of arguments that are not zero, as text.
func values(args reflect.Value) url.Values {
	out := url.Values{}
	for i := range args.NumField() {
		name, f := jsonName(args.Type().Field(i)), args.Field(i)
		switch {
		case f.IsZero():
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.String:
			for j := range f.Len() {
				out.Add(name, f.Index(j).String())
			}
		case f.Kind() == reflect.Map:
			for _, k := range f.MapKeys() {
				out.Add(name, k.String()+"="+f.MapIndex(k).String())
			}
		case f.Kind() == reflect.String:
			out.Set(name, f.String())
		case f.Kind() == reflect.Bool:
			out.Set(name, strconv.FormatBool(f.Bool()))
		case f.CanInt():
			out.Set(name, strconv.FormatInt(f.Int(), 10))
		case f.CanUint():
			out.Set(name, strconv.FormatUint(f.Uint(), 10))
		}
	}
	return out
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

// bind reads the arguments of a request.
func (o *Op) bind(r *http.Request) (any, error) {
	args := reflect.New(o.Args).Elem()
	switch {
	case o.InQuery():
		for name, texts := range r.URL.Query() {
			if name == workspaceParam {
				continue
			}
			if err := set(args, name, texts); err != nil {
				return nil, err
			}
		}
	case o.Body != "":
		body, err := readBody(r)
		if err != nil {
			return nil, err
		}
		fieldNamed(args, o.Body).SetBytes(body)
	default:
		body, err := o.decode(http.MaxBytesReader(nil, r.Body, maxBody))
		if err != nil {
			return nil, err
		}
		args.Set(reflect.ValueOf(body))
	}
	for _, name := range o.Wildcards() {
		if err := set(args, name, []string{r.PathValue(name)}); err != nil {
			return nil, err
		}
	}
	return args.Interface(), nil
}

// set gives a field its value.
func set(args reflect.Value, name string, texts []string) error {
	f := fieldNamed(args, name)
	if !f.IsValid() {
		return fail.New(fail.Usage, "there is no argument %q", name)
	}
	var err error
	switch text := texts[len(texts)-1]; {
	case f.Kind() == reflect.Slice:
		for _, t := range texts {
			f.Set(reflect.Append(f, reflect.ValueOf(t).Convert(f.Type().Elem())))
		}
	case f.Kind() == reflect.Map:
		f.Set(reflect.ValueOf(pairs(texts)))
	case f.Kind() == reflect.String:
		f.SetString(text)
	case f.Kind() == reflect.Bool:
		var v bool
		v, err = strconv.ParseBool(text)
		f.SetBool(v)
	case f.CanInt():
		var v int64
		v, err = strconv.ParseInt(text, 10, f.Type().Bits())
		f.SetInt(v)
	case f.CanUint():
		var v uint64
		v, err = strconv.ParseUint(text, 10, f.Type().Bits())
		f.SetUint(v)
	}
	if err != nil {
		return fail.New(fail.Usage, "the argument %s is %q: %w", name, texts, err)
	}
	return nil
}

func pairs(texts []string) map[string]string {
	out := make(map[string]string, len(texts))
	for _, t := range texts {
		k, v, _ := strings.Cut(t, "=")
		out[k] = v
	}
	return out
}
