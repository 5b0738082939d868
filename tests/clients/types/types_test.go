// Package types_test makes the types of the clients out of docs/api/openapi.yaml, and
// compares them with those that are checked in.
package types_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

var update = flag.Bool("update", false, "write the files of the clients")

const clients = "../../../clients"

// TestGenerated: a change of an operation needs no other edit of the clients than
// `go generate ./service`.
func TestGenerated(t *testing.T) {
	p := read(t)
	source, err := os.ReadFile(filepath.Join(clients, "python/amberfs/aio.py"))
	must.OK(t, err)
	for name, want := range map[string]string{
		"typescript/types/api.d.ts":   typescript(p),
		"typescript/src/generated.js": javascript(p),
		"python/amberfs/api.py":       python(p),
		"python/amberfs/sync.py":      synchronous(string(source)),
	} {
		file := filepath.Join(clients, name)
		if *update {
			must.OK(t, os.WriteFile(file, []byte(want), 0o644))
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("clients/%s differs from docs/api/openapi.yaml or its source (%v): run go generate ./service", name, err)
		}
	}
}
