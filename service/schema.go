package service

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/policy"
)

// Schema describes a type of arguments or results. It says plain types only: some
// clients refuse a list of types such as ["null","array"], and no answer has null
// where there is a list. Objects may get more fields.
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

// plain makes a schema say one type everywhere.
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
