// Package mcp_test speaks to `amberfs mcp` with the official TypeScript SDK.
package mcp_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/amberfs/amberfs/tests/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// sdk returns a directory that has the SDK and the client. What npm once brought
// is kept for the next time.
func sdk(t *testing.T) string {
	t.Helper()
	for _, p := range []string{"node", "npm"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed", p)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	dir := filepath.Join(cache, "amberfs-test-mcp")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"package.json", "client.mjs"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "@modelcontextprotocol", "sdk")); err == nil {
		return dir
	}
	install := exec.Command("npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--prefer-offline")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("npm cannot bring the SDK: %v\n%s", err, out)
		}
		t.Skipf("npm cannot bring the SDK: %v\n%s", err, out)
	}
	return dir
}

func TestSDK(t *testing.T) {
	dir, bin := sdk(t), harness.Binary(t)
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws := filepath.Join(top, "ws")
	if err := os.Mkdir(ws, 0o755); err != nil {
		t.Fatal(err)
	}
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
	for _, p := range harness.Processes(ws) {
		if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		for harness.Alive(p.PID) {
			time.Sleep(5 * time.Millisecond)
		}
	}
	client(ws, "dead")
}
