package snapshot

import (
	"encoding/json"
	"unicode/utf8"
)

// A bytePath is a path in a record. A path is any bytes, and JSON has only text: one
// that is none is written as an object.
type bytePath string

type encodedPath struct {
	Bytes []byte `json:"bytes"`
}

// MarshalJSON implements json.Marshaler.
func (p bytePath) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(p)) {
		return json.Marshal(string(p))
	}
	return json.Marshal(encodedPath{[]byte(p)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *bytePath) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var e encodedPath
		err := json.Unmarshal(b, &e)
		*p = bytePath(e.Bytes)
		return err
	}
	return json.Unmarshal(b, (*string)(p))
}

func toBytePaths(paths []string) []bytePath {
	var out []bytePath
	for _, p := range paths {
		out = append(out, bytePath(p))
	}
	return out
}

func fromBytePaths(paths []bytePath) []string {
	var out []string
	for _, p := range paths {
		out = append(out, string(p))
	}
	return out
}
