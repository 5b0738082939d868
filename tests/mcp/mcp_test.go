// Package mcp_test speaks to `amberfs mcp` with the official TypeScript SDK.
package mcp_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

func TestSDK(t *testing.T) {
	dir, bin := harness.InstallNPM(t, "mcp", "package.json", "client.mjs"), harness.Binary(t)
	top, err := filepath.EvalSymlinks(t.TempDir())
	must.OK(t, err)
	ws := filepath.Join(top, "ws")
	must.OK(t, os.Mkdir(ws, 0o755))
	client := func(dirOf, mode string) {
		t.Helper()
		cmd := exec.Command("node", "client.mjs", dirOf, mode)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(bin)+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "ok" {
			t.Errorf("%s: %v\n%s", mode, err, out)
		}
	}
	client(top, "outside")
	if out, err := exec.Command(bin, "mount", filepath.Join(top, "store"), ws).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command(bin, "umount", ws).Run() })
	client(ws, "all")
	client(ws, "sets")
	if !harness.KillAll(ws) {
		t.Fatal("the daemon does not end")
	}
	client(ws, "dead")
}
