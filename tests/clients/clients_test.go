// Package clients_test runs the tests of the clients, by their languages' own runners,
// against a daemon: over its socket, and through .snapshots/call.
package clients_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

const clients = "../../clients"

// run runs a program in a folder of the clients.
func run(t *testing.T, folder string, env []string, name string, args ...string) string {
	t.Helper()
	harness.SkipWithout(t, name)
	ctx, cancel := context.WithTimeout(context.Background(), harness.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = filepath.Join(clients, folder)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// withMount runs a test with a workspace that has a remote: once where the socket can be
// reached, once where it cannot.
func withMount(t *testing.T, test func(t *testing.T, env []string)) {
	for _, way := range []string{"socket", "call"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			m := harness.New(t)
			m.Amberfs("remote", "add", "there", "file://"+filepath.Join(t.TempDir(), "remote"))
			if err := os.WriteFile(m.Path(".snapshots", "policy"), []byte(`{"interval_seconds":0,"push":{"remote":"there","interval_seconds":0}}`), 0o644); err != nil {
				t.Fatal(err) // forks may push, and nothing happens unasked
			}
			if way == "call" {
				socket := filepath.Join(m.Store, "socket")
				must.OK(t, os.Rename(socket, socket+".away"))
				defer func() {
					if err := os.Rename(socket+".away", socket); err != nil {
						t.Error(err)
					}
				}()
			}
			test(t, []string{"AMBERFS_TEST_MOUNT=" + m.Dir, "AMBERFS_TEST_REMOTE_NAME=there"})
		})
	}
}

func TestTypeScript(t *testing.T) {
	withMount(t, func(t *testing.T, env []string) {
		run(t, "typescript", env, "node", "--test", "test/client.test.js")
	})
}

func TestPython(t *testing.T) {
	env := []string{"PYTHONPATH=.", "PYTHONDONTWRITEBYTECODE=1"}
	withMount(t, func(t *testing.T, mount []string) {
		run(t, "python", append(env, mount...), "python3", "-m", "unittest", "discover", "-s", "tests")
	})
}

// TestPackages: what npm and PyPI get has what is imported, and the version of the release.
func TestPackages(t *testing.T) {
	harness.SkipWithout(t, "npm", "node", "python3")
	dir := t.TempDir()
	pack, err := filepath.Abs("../../packaging/clients")
	must.OK(t, err)
	run(t, ".", []string{"npm_config_cache=" + filepath.Join(dir, "cache"), "npm_config_update_notifier=false", "npm_config_offline=true"}, pack, "v1.2.3", dir)
	for file, use := range map[string][]string{
		"npm/amberfs-client-1.2.3.tgz":        {"sh", "-euc", `mkdir -p node_modules/@amberfs/client; tar -xzf "$0" -C node_modules/@amberfs/client --strip-components 1; cd node_modules/@amberfs/client; test -f LICENSE; test -f types/index.d.ts; test -f types/adapters/langgraph.d.ts; cd ../../..; node --input-type=module -e 'import { Workspace } from "@amberfs/client"; console.log(Workspace.name)'`},
		"pypi/amberfs-1.2.3-py3-none-any.whl": {"sh", "-euc", `python3 -m zipfile -e "$0" wheel; test -f wheel/amberfs/py.typed; PYTHONPATH=wheel python3 -c 'import amberfs.gym, importlib.metadata as m; print(amberfs.gym.Workspace.__name__, m.version("amberfs"))'`},
	} {
		cmd := exec.Command(use[0], append(use[1:], filepath.Join(dir, file))...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "Workspace") {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
}

// TestExamples runs the examples of adapters with the packages that these are for.
func TestExamples(t *testing.T) {
	if os.Getenv("AMBERFS_TEST_CLIENTS") == "" {
		t.Skip("make test-clients runs it")
	}
	modules, err := filepath.Abs("../../bin/clients/node_modules")
	must.OK(t, err)
	m, dir := harness.New(t), t.TempDir()
	tsc := fromNPM(t, ".bin/tsc")
	must.OK(t, errors.Join(os.CopyFS(dir, os.DirFS(filepath.Join(clients, "typescript"))), os.Symlink(modules, filepath.Join(dir, "node_modules"))))
	for name, want := range map[string]string{
		"openai-agents.js": "I wrote result.txt.\ndiff --git a/result.txt b/result.txt\n",
		"langgraph.js":     "one\ntwo\n\nthen: one\n\nagain: one\ntwo\n",
	} {
		if out := run(t, "typescript", nil, "node", filepath.Join(dir, "examples", name), m.Dir); !strings.Contains(out, want) {
			t.Errorf("%s printed %s", name, out)
		}
	}
	run(t, "typescript", nil, tsc, "-p", filepath.Join(dir, "examples"), "--typeRoots", fromNPM(t, "@types"))
}

// fromNPM is the path of what scripts/setup installs from npm.
func fromNPM(t *testing.T, name string) string {
	t.Helper()
	file, err := filepath.Abs(filepath.Join("../../bin/node_modules", name))
	must.OK(t, err)
	return file
}

// TestReferences: a reference of a state is good after the daemon was killed and, if it was
// pushed, on another machine.
func TestReferences(t *testing.T) {
	script := func(m *harness.Mount, body string) string {
		return run(t, "typescript", []string{"MOUNT=" + m.Dir}, "node", "--input-type=module", "-e", `
			import { AmberfsSnapshotter } from '@amberfs/client'
			const s = await AmberfsSnapshotter.open(process.env.MOUNT, { remote: 'there' })
			`+body)
	}
	url := "file://" + filepath.Join(t.TempDir(), "remote")
	here, there := harness.New(t), harness.New(t)
	for _, m := range []*harness.Mount{here, there} {
		m.Amberfs("remote", "add", "there", url)
	}
	write := func(text string) {
		must.OK(t, os.WriteFile(here.Path("f"), []byte(text), 0o644))
	}
	write("then")
	ref := script(here, `console.log(JSON.stringify(await s.snapshot()))`)
	write("now")
	here.Kill()
	here.Start()
	for _, m := range []*harness.Mount{here, there} {
		dir := strings.TrimSpace(script(m, `console.log((await s.restore(`+ref+`)).path)`))
		if got, err := os.ReadFile(filepath.Join(dir, "f")); err != nil || string(got) != "then" {
			t.Errorf("%s: %q, %v", dir, got, err)
		}
	}
}

var update = flag.Bool("update", false, "write the declarations of the TypeScript client")

// TestDeclarations: the sources of the TypeScript client pass the compiler, which needs
// them for nothing else, and the declarations that are checked in are what it makes of them.
func TestDeclarations(t *testing.T) {
	harness.Binary(t) // it looks at all sources, for the cache
	made, tsc, types := t.TempDir(), fromNPM(t, ".bin/tsc"), []string{"--typeRoots", fromNPM(t, "@types")}
	run(t, "typescript", nil, tsc, append(types, "--outDir", made)...)
	files, err := filepath.Glob(filepath.Join(made, "*.d.ts"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no declarations were made: %v", err)
	}
	for _, file := range files {
		want, err := os.ReadFile(file)
		must.OK(t, err)
		to := filepath.Join(clients, "typescript/types", filepath.Base(file))
		if *update {
			must.OK(t, os.WriteFile(to, want, 0o644))
		}
		if got, err := os.ReadFile(to); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from its source (%v): run go test ./tests/clients -run TestDeclarations -update", to, err)
		}
	}
	run(t, "typescript", nil, tsc, append(types, "-p", "test")...)
}
