package packages_test

import (
	"encoding/json"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v3"

	"github.com/amberfs/amberfs/tests/must"
)

// cyclonedx is where the schema of the format comes from.
const cyclonedx = "github.com/CycloneDX/cyclonedx-go@v0.12.0"

// TestSBOM: the bill of materials is valid CycloneDX, has every module that the
// program says it is made of, nearly all with a licence, and is the same each time.
func TestSBOM(t *testing.T) {
	wanted(t)
	program := static(t, runtime.GOARCH)
	b, err := os.ReadFile(filepath.Join(top(t), ".goreleaser.yaml"))
	must.OK(t, err)
	var release struct {
		SBOMs []struct{ Args []string } `yaml:"sboms"`
	}
	must.OK(t, yaml.Unmarshal(b, &release))
	write := func() []byte {
		file := filepath.Join(t.TempDir(), "sbom.json")
		args := []string{"go"}
		for _, a := range release.SBOMs[0].Args {
			args = append(args, strings.NewReplacer("v{{.Version}}", "v1.2.3", "$document", file, "$artifact", program).Replace(a))
		}
		run(t, t.TempDir(), args...)
		b, err := os.ReadFile(file)
		must.OK(t, err)
		return b
	}
	text := write()
	if string(write()) != string(text) {
		t.Error("a second time it is another")
	}
	var document any
	must.OK(t, json.Unmarshal(text, &document))
	must.OK(t, schema(t, "bom-1.6.schema.json").Validate(document))
	document.(map[string]any)["components"].([]any)[0].(map[string]any)["type"] = "nonsense"
	if schema(t, "bom-1.6.schema.json").Validate(document) == nil {
		t.Error("the schema takes anything")
	}

	var bom struct {
		Components []struct {
			Name, Version string
			Licenses      []any
		}
	}
	must.OK(t, json.Unmarshal(text, &bom))
	var have []string
	licensed := 0
	for _, c := range bom.Components {
		have = append(have, c.Name+" "+c.Version)
		if len(c.Licenses) > 0 {
			licensed++
		}
	}
	if licensed < len(have)*9/10 {
		t.Errorf("%d of %d components have a licence", licensed, len(have))
	}
	modules := 0
	for line := range strings.Lines(run(t, ".", "go", "version", "-m", program)) {
		if f := strings.Fields(line); len(f) >= 3 && f[0] == "dep" {
			modules++
			if !slices.Contains(have, f[1]+" "+f[2]) {
				t.Errorf("%s %s is missing", f[1], f[2])
			}
		}
	}
	if modules < 20 || len(have) != modules+1 { // and Go's own library
		t.Errorf("%d components of %d modules", len(have), modules)
	}
}

// schema is one of the schemas of CycloneDX, with those it refers to.
func schema(t *testing.T, name string) *jsonschema.Resolved {
	var module struct{ Dir string }
	must.OK(t, json.Unmarshal([]byte(run(t, t.TempDir(), "go", "mod", "download", "-json", cyclonedx)), &module))
	read := func(name string) (*jsonschema.Schema, error) {
		if strings.HasPrefix(name, "jsf-") { // of signatures, which are not used
			return &jsonschema.Schema{Definitions: map[string]*jsonschema.Schema{"signature": {}}}, nil
		}
		b, err := os.ReadFile(filepath.Join(module.Dir, "schema", name))
		if err != nil {
			return nil, err
		}
		var s jsonschema.Schema
		err = json.Unmarshal(b, &s)
		return &s, err
	}
	s, err := read(name)
	must.OK(t, err)
	r, err := s.Resolve(&jsonschema.ResolveOptions{
		BaseURI: "http://cyclonedx.org/schema/" + name,
		Loader:  func(u *url.URL) (*jsonschema.Schema, error) { return read(path.Base(u.Path)) },
	})
	must.OK(t, err)
	return r
}
