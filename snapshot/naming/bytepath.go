package naming

import (
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"
)

// A BytePath is a path in JSON. JSON strings are UTF-8, and paths need not be: a path that is not
// UTF-8 is an object with the bytes in base64.
type BytePath string

type encodedPath struct {
	Bytes []byte `json:"bytes"`
}

// MarshalJSON returns a string, or an object for a path that is not UTF-8.
func (p BytePath) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(p)) {
		return json.Marshal(string(p))
	}
	return json.Marshal(encodedPath{[]byte(p)})
}

// UnmarshalJSON accepts both forms that MarshalJSON returns.
func (p *BytePath) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var e encodedPath
		err := json.Unmarshal(b, &e)
		*p = BytePath(e.Bytes)
		return err
	}
	return json.Unmarshal(b, (*string)(p))
}

// Base64 returns a path in base64 if it is not UTF-8, else "".
func Base64(path string) string {
	if utf8.ValidString(path) {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(path))
}

// BytePaths converts paths to BytePaths.
func BytePaths(paths []string) []BytePath {
	var out []BytePath
	for _, p := range paths {
		out = append(out, BytePath(p))
	}
	return out
}
