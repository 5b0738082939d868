package packages_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

// TestKubernetes holds the manifests of examples/ against the schemas of
// Kubernetes, which are in the module of Kubernetes itself.
func TestKubernetes(t *testing.T) {
	wanted(t)
	files, err := filepath.Glob(filepath.Join(top(t), "examples/kubernetes/*.yaml"))
	must.OK(t, err)
	if len(files) != 3 {
		t.Fatalf("there are %d manifests", len(files))
	}
	check := []string{tool(t, "kubeconform"), "-strict", "-summary", "-schema-location", schemas(t) + "/{{.ResourceKind}}{{.KindSuffix}}.json"}
	out := run(t, ".", append(check, files...)...)
	if !strings.Contains(out, "5 resources found in 3 files - Valid: 5, Invalid: 0, Errors: 0, Skipped: 0") {
		t.Errorf("kubeconform: %s", out)
	}
	// It would find what is wrong.
	b, err := os.ReadFile(files[0])
	must.OK(t, err)
	for _, change := range [][2]string{{"mountPropagation:", "mountPropagations:"}, {"privileged: true", "privileged: 3"}, {"name: amberfs", "nome: amberfs"}} {
		bad := filepath.Join(t.TempDir(), "bad.yaml")
		must.OK(t, os.WriteFile(bad, []byte(strings.ReplaceAll(string(b), change[0], change[1])), 0o644))
		cmd := append(check, bad)
		if status := exitStatus(cmd); status != 1 {
			t.Errorf("kubeconform takes %q for %q: status %d", change[1], change[0], status)
		}
	}
}

// schemas is a directory with a JSON schema a kind of object, as kubeconform
// wants them: the definitions of Kubernetes, in which unknown fields are wrong.
func schemas(t *testing.T) string {
	var module struct{ Dir string }
	must.OK(t, json.Unmarshal([]byte(run(t, t.TempDir(), "go", "mod", "download", "-json", "k8s.io/kubernetes@"+kubernetes)), &module))
	b, err := os.ReadFile(filepath.Join(module.Dir, "api/openapi-spec/swagger.json"))
	must.OK(t, err)
	var api struct {
		Definitions map[string]map[string]any `json:"definitions"`
	}
	must.OK(t, json.Unmarshal(b, &api))
	for _, d := range api.Definitions {
		if d["properties"] != nil {
			d["additionalProperties"] = false
		}
	}
	api.Definitions["io.k8s.apimachinery.pkg.util.intstr.IntOrString"] = map[string]any{"type": []string{"integer", "string"}}
	api.Definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"] = map[string]any{"type": []string{"number", "string"}}
	out := t.TempDir()
	for file, name := range map[string]string{
		"pod-v1": "core.v1.Pod", "persistentvolumeclaim-v1": "core.v1.PersistentVolumeClaim",
		"daemonset-apps-v1": "apps.v1.DaemonSet", "job-batch-v1": "batch.v1.Job",
	} {
		b, err := json.Marshal(map[string]any{"$ref": "#/definitions/io.k8s.api." + name, "definitions": api.Definitions})
		must.OK(t, err)
		must.OK(t, os.WriteFile(filepath.Join(out, file+".json"), b, 0o644))
	}
	return out
}

// kubernetes is the release whose schemas count.
const kubernetes = "v1.36.3"

// TestWorkflows lets actionlint look at .github.
func TestWorkflows(t *testing.T) {
	wanted(t)
	files, err := filepath.Glob(filepath.Join(top(t), ".github/workflows/*.yml"))
	must.OK(t, err)
	if len(files) < 3 {
		t.Fatalf("there are %d workflows", len(files))
	}
	if out := run(t, top(t), append([]string{tool(t, "actionlint"), "-shellcheck=", "-pyflakes="}, files...)...); out != "" {
		t.Errorf("actionlint: %s", out)
	}
}
