package packages_test

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// released is the program for a processor that the packages of this test run have.
func released(t *testing.T, arch string) string {
	t.Helper()
	dist := os.Getenv("AMBERFS_DIST")
	if dist == "" {
		return static(t, arch)
	}
	files, err := filepath.Glob(filepath.Join(dist, "amberfs_linux_"+arch+"*/amberfs"))
	must.OK(t, err)
	if len(files) != 1 {
		t.Fatalf("%s has %d programs for %s", dist, len(files), arch)
	}
	return files[0]
}

// TestNPM publishes two versions to a registry on loopback, and installs and uses them.
func TestNPM(t *testing.T) {
	wanted(t)
	program := released(t, runtime.GOARCH)
	b, err := os.ReadFile(program)
	must.OK(t, err)
	inDeb, err := exec.Command("sh", "-c", `dpkg-deb --fsys-tarfile "$0" | tar -xO ./usr/bin/amberfs`, mine(t, "deb")).Output()
	must.OK(t, err)
	if !bytes.Equal(b, inDeb) {
		t.Error("the package for Debian has another program")
	}

	dir := t.TempDir()
	first := filepath.Join(dir, "program")
	must.OK(t, os.WriteFile(first, b, 0o755))
	next := filepath.Join(dir, "program-0.9.1") // another program that works
	must.OK(t, os.WriteFile(next, append(b, '\n'), 0o755))
	programs := map[string]string{"amd64": first, "arm64": first}
	for arch := range programs {
		if arch != runtime.GOARCH {
			programs[arch] = released(t, arch)
		}
	}
	pack := filepath.Join(top(t), "packaging/npm/pack")
	run(t, dir, pack, "v0.9.0", dir+"/0.9.0", programs["amd64"], programs["arm64"])
	programs[runtime.GOARCH] = next
	run(t, dir, pack, "v0.9.1", dir+"/0.9.1", programs["amd64"], programs["arm64"])
	run(t, dir, "sh", "-c", `mv "$(npm pack --silent "$0")" pnpm.tgz`, filepath.Join(top(t), "bin/registry/node_modules/pnpm"))
	must.OK(t, os.WriteFile(filepath.Join(dir, "registry"), []byte(registry(t)), 0o644))
	plain, err := txtar.ParseFile("../cli/testdata/cmd_run_plain.txtar")
	must.OK(t, err)
	for _, f := range plain.Files {
		if f.Name == "forbid.py" {
			must.OK(t, os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o644))
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "0.9.?/*.tgz"))
	must.OK(t, err)
	for _, name := range []string{"program", "program-0.9.1", "pnpm.tgz", "registry", "forbid.py"} {
		files = append(files, filepath.Join(dir, name))
	}
	t.Log(inRoot(t, "npm", files...))
}

// registry starts a registry that has no packages and fetches none, and returns its URL.
func registry(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	address := l.Addr().String()
	must.OK(t, l.Close())
	dir := t.TempDir()
	config := "storage: " + dir + "/storage\nuplinks: {}\nmax_body_size: 100mb\nlog: {type: stdout, format: pretty, level: warn}\n" +
		"packages:\n  '**': {access: $all, publish: $all}\n"
	must.OK(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(config), 0o644))
	server := exec.Command(filepath.Join(top(t), "bin/registry/node_modules/.bin/verdaccio"), "--config", dir+"/config.yaml", "--listen", address)
	var log bytes.Buffer
	server.Stdout, server.Stderr = &log, &log
	must.OK(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	harness.Eventually(t, "the registry answers", func() bool {
		resp, err := http.Get("http://" + address + "/-/ping")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusOK
	})
	return "http://" + address + "/"
}

// TestServerJSON holds server.json against the schema of the MCP registry, which is in the
// module of that registry itself.
func TestServerJSON(t *testing.T) {
	wanted(t)
	var module struct{ Dir string }
	must.OK(t, json.Unmarshal([]byte(run(t, t.TempDir(), "go", "mod", "download", "-json", "github.com/modelcontextprotocol/registry@v1.8.9")), &module))
	b, err := os.ReadFile(filepath.Join(module.Dir, "internal/validators/schemas/2025-12-11.json"))
	must.OK(t, err)
	var schema jsonschema.Schema
	must.OK(t, json.Unmarshal(b, &schema))
	resolved, err := schema.Resolve(nil)
	must.OK(t, err)
	b, err = os.ReadFile(filepath.Join(top(t), "packaging/npm/server.json"))
	must.OK(t, err)
	check := func(b []byte) error {
		var v any
		must.OK(t, json.Unmarshal(b, &v))
		return resolved.Validate(v)
	}
	must.OK(t, check(b))
	// It would find what is wrong.
	for _, change := range [][2]string{{`"stdio"`, `"pipe"`}, {`"version": "0.0.0",`, ``}, {`"io.github.amberfs/amberfs"`, `"amberfs"`}, {`"value": "mcp"`, `"valve": "mcp"`}} {
		if bad := bytes.Replace(b, []byte(change[0]), []byte(change[1]), 1); bytes.Equal(bad, b) || check(bad) == nil {
			t.Errorf("the schema takes %q for %q", change[1], change[0])
		}
	}
}

// TestFeature packages the feature for dev containers with their program, and installs it.
func TestFeature(t *testing.T) {
	wanted(t)
	dir := t.TempDir()
	run(t, dir, filepath.Join(top(t), "packaging/devcontainer/stage"), "v0.9.0", dir, released(t, "amd64"), released(t, "arm64"))
	out := filepath.Join(t.TempDir(), "out") // it makes that itself
	run(t, dir, filepath.Join(top(t), "bin/registry/node_modules/.bin/devcontainer"), "features", "package", "--output-folder", out, dir)
	var collection struct {
		Features []struct{ ID, Version string }
	}
	b, err := os.ReadFile(filepath.Join(out, "devcontainer-collection.json"))
	must.OK(t, err)
	must.OK(t, json.Unmarshal(b, &collection))
	if len(collection.Features) != 1 || collection.Features[0].ID != "amberfs" || collection.Features[0].Version != "0.9.0" {
		t.Errorf("it is packaged as %+v", collection)
	}
	unpacked := t.TempDir()
	run(t, out, "tar", "-xf", "devcontainer-feature-amberfs.tgz", "-C", unpacked)
	t.Log(inRoot(t, "feature", unpacked+"/install.sh", unpacked+"/amberfs-amd64", unpacked+"/amberfs-arm64"))
}
