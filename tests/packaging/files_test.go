package packaging_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/amberfs/amberfs/tests/must"
)

// TestFeature checks what the schema of features for dev containers demands: these fields
// and no others, and an id that is the folder's name.
func TestFeature(t *testing.T) {
	dir := filepath.Join(root, "packaging/devcontainer/amberfs")
	b, err := os.ReadFile(filepath.Join(dir, "devcontainer-feature.json"))
	must.OK(t, err)
	var feature map[string]any
	must.OK(t, json.Unmarshal(b, &feature))
	texts := []string{"id", "version", "name", "description", "documentationURL", "licenseURL"}
	lists := []string{"keywords", "capAdd", "securityOpt"}
	for name, v := range feature {
		_, text := v.(string)
		_, list := v.([]any)
		if !(text && slices.Contains(texts, name) || list && slices.Contains(lists, name)) {
			t.Errorf("the field %s is none of a feature, or has another type", name)
		}
	}
	if feature["id"] != filepath.Base(dir) || feature["version"] != "0.0.0" {
		t.Errorf("the id %v is not the folder's name, or the version %v not the one that is replaced", feature["id"], feature["version"])
	}
	if out, err := exec.Command("sh", "-n", filepath.Join(dir, "install.sh")).CombinedOutput(); err != nil {
		t.Errorf("install.sh: %v\n%s", err, out)
	}
}

// TestLima: the machine for a Mac has a base and scripts that sh can read, and mounts
// nothing of the Mac.
func TestLima(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "packaging/lima.yaml"))
	must.OK(t, err)
	var machine struct {
		Base      string
		Mounts    []any
		Provision []struct{ Mode, Script string }
	}
	must.OK(t, yaml.Unmarshal(b, &machine))
	if machine.Base == "" || machine.Mounts == nil || len(machine.Mounts) > 0 || len(machine.Provision) != 1 {
		t.Fatalf("%+v", machine)
	}
	if out, err := exec.Command("sh", "-n", "-c", machine.Provision[0].Script).CombinedOutput(); err != nil {
		t.Errorf("its script: %v\n%s", err, out)
	}
}
