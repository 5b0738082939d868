// Package strictjson decodes JSON that users write: requests and policies. Unknown fields are errors.
// Errors use the terms of JSON, not of Go.
package strictjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
)

// Decode decodes the one JSON value in b into v, a pointer. The error is of the kind errs.Invalid.
func Decode(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return explainError(err, reflect.TypeOf(v).Elem())
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errs.New(errs.Invalid, "there is more than one JSON value")
	}

	return nil
}

// Object decodes the one JSON object in b into the structs that targets point to. It returns the names of the fields
// that the object has, and that are not null. All other fields of the structs stay as they are.
func Object(b []byte, targets ...any) (given map[string]bool, err error) {
	var fields []reflect.StructField // the fields of targets, as pointers: a field that the object does not have is nil after decoding
	var places []reflect.Value
	for _, t := range targets {
		target := reflect.ValueOf(t).Elem()
		for _, f := range reflect.VisibleFields(target.Type()) {
			if fieldName(f) != "" {
				fields = append(fields, reflect.StructField{Name: f.Name, Type: reflect.PointerTo(f.Type), Tag: f.Tag})
				places = append(places, target.FieldByIndex(f.Index))
			}
		}
	}

	object := reflect.New(reflect.StructOf(fields))
	if err := Decode(b, object.Interface()); err != nil {
		return nil, err
	}

	given = make(map[string]bool)
	for i, place := range places {
		if value := object.Elem().Field(i); !value.IsNil() {
			place.Set(value.Elem())
			given[fieldName(fields[i])] = true
		}
	}

	return given, nil
}

// An UnknownFieldError is the error for an object with a field that the type does not have.
type UnknownFieldError struct {
	Name   string
	Fields []string // the fields that the type has
}

func (e *UnknownFieldError) Error() string {
	return fmt.Sprintf("unknown field %q: the fields are %s", e.Name, cmp.Or(strings.Join(e.Fields, ", "), "none"))
}

// explainError rewrites an error of package json.
func explainError(err error, target reflect.Type) error {
	var syntax *json.SyntaxError
	var wrongType *json.UnmarshalTypeError
	unknown, isUnknown := strings.CutPrefix(err.Error(), "json: unknown field ")
	switch {
	case errors.Is(err, io.EOF):
		return errs.New(errs.Invalid, "not valid JSON: it is empty")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errs.New(errs.Invalid, "not valid JSON: it ends too early")
	case errors.As(err, &syntax):
		return errs.New(errs.Invalid, "not valid JSON: syntax error at byte %d", syntax.Offset)
	case errors.As(err, &wrongType) && wrongType.Field == "":
		return errs.New(errs.Invalid, "it is %s, and must be %s", describeValue(wrongType.Value), describeType(wrongType.Type))
	case errors.As(err, &wrongType):
		return errs.New(errs.Invalid, "%s must be %s, not %s", wrongType.Field, describeType(wrongType.Type), describeValue(wrongType.Value))
	case isUnknown && !slices.Contains(fieldNames(target), strings.Trim(unknown, `"`)):
		return errs.Fail(errs.Invalid, "%w", &UnknownFieldError{strings.Trim(unknown, `"`), fieldNames(target)})
	}

	return err
}

// fieldNames returns the JSON names of the fields of a struct type, in the order of the fields.
func fieldNames(t reflect.Type) []string {
	var out []string
	if t.Kind() != reflect.Struct {
		return nil
	}

	for _, f := range reflect.VisibleFields(t) {
		if name := fieldName(f); name != "" {
			out = append(out, name)
		}
	}

	return out
}

// fieldName returns the JSON name of a field, "" if it has none.
func fieldName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if !f.IsExported() || f.Anonymous || name == "-" {
		return ""
	}
	return name
}

// describeValue describes a value of json.UnmarshalTypeError, such as "number 1.5" or "string".
func describeValue(value string) string {
	if strings.Contains(value, " ") {
		return "the " + value
	}
	return map[string]string{
		"string": "a string", "bool": "true or false", "array": "a list", "object": "an object", "number": "a number",
	}[value]
}

// describeType describes the JSON values for a Go type.
func describeType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number from 0 on"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	}
	return "an object"
}
