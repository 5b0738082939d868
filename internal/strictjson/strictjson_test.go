package strictjson

import (
	"strings"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
)

type inner struct {
	Last int `json:"last"`
}

type request struct {
	Name  string            `json:"name"`
	Paths []string          `json:"paths,omitempty"`
	Limit uint              `json:"limit"`
	Keep  inner             `json:"keep"`
	Map   map[string]string `json:"map"`
	Flag  bool              `json:"flag"`
}

// TestObject: the names of an object are those that it has. Other fields stay.
func TestObject(t *testing.T) {
	r, op := request{Name: "before", Flag: true}, struct {
		Op string `json:"op"`
	}{}
	given, err := Object([]byte(`{"op":"x","flag":false,"limit":null,"keep":{"last":3}}`), &r, &op)
	if err != nil || len(given) != 3 || !given["op"] || !given["flag"] || !given["keep"] {
		t.Errorf("%v, %v", given, err)
	}
	if r.Name != "before" || r.Flag || r.Keep.Last != 3 || op.Op != "x" {
		t.Errorf("%+v, %+v", r, op)
	}
	if _, err := Object([]byte(`{"keep":{"last":"3"}}`), &r); err == nil || err.Error() != "keep.last must be a whole number, not a string" {
		t.Error(err)
	}
}

func TestDecode(t *testing.T) {
	for text, want := range map[string]string{
		`{"name":"a","keep":{"last":1}}`: "",
		``:                               "not valid JSON: it is empty",
		`{`:                              "not valid JSON: it ends too early",
		`{"name":}`:                      "not valid JSON: syntax error at byte 9",
		`[]`:                             "it is a list, and must be an object",
		`{"name":1}`:                     "name must be a string, not a number",
		`{"paths":"a"}`:                  "paths must be a list, not a string",
		`{"limit":-1}`:                   "limit must be a whole number from 0 on, not the number -1",
		`{"limit":1.5}`:                  "limit must be a whole number from 0 on, not the number 1.5",
		`{"flag":"yes"}`:                 "flag must be true or false, not a string",
		`{"map":[]}`:                     "map must be an object, not a list",
		`{"keep":{"last":"3"}}`:          "keep.last must be a whole number, not a string",
		`{"nme":"a"}`:                    `unknown field "nme": the fields are name, paths, limit, keep, map, flag`,
		`{"keep":{"lst":3}}`:             `unknown field "lst"`,
		`{"name":"a"} {}`:                "there is more than one JSON value",
	} {
		err := Decode([]byte(text), &request{})
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) || errs.KindOf(err) != errs.Invalid || strings.Contains(err.Error(), "Go") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
