package naming

import (
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"
)

// A BytePath is a path in JSON. A path is any bytes, and JSON has only text: one that
// is none is written as an object.
type BytePath string

type encodedPath struct {
	Bytes []byte `json:"bytes"`
}

func (p BytePath) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(p)) {
		return json.Marshal(string(p))
	}
	return json.Marshal(encodedPath{[]byte(p)})
}

func (p *BytePath) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var e encodedPath
		err := json.Unmarshal(b, &e)
		*p = BytePath(e.Bytes)
		return err
	}
	return json.Unmarshal(b, (*string)(p))
}

// Raw returns the bytes of a path in base64 if they are not UTF-8, else "".
func Raw(path string) string {
	if utf8.ValidString(path) {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(path))
}

func BytePaths(paths []string) []BytePath {
	var out []BytePath
	for _, p := range paths {
		out = append(out, BytePath(p))
	}
	return out
}
