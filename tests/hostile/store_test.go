package hostile_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// namesOfAStore are those that a daemon opens.
var namesOfAStore = []string{
	"amberfs.log", "amberfs.log.1", "lock", "format", "manifest", "manifest.copy", "events", "events/0", "journal", "packs",
	"packs/reserve", "index", "index/MANIFEST", "index.old", "git", "git/HEAD", "git/config.new", "git/objects", "git/refs", "gitcache", "socket", "actors.json", "filling",
}

// sample is what is tried in the short form.
var sample = map[string]string{
	"amberfs.log": "a FIFO", "lock": "a link to a file", "manifest": "a link to /dev/zero", "events": "a link to a directory",
	"journal": "a FIFO", "packs/reserve": "a link to a file", "index": "a link to a directory", "git/HEAD": "a FIFO", "gitcache": "a FIFO",
	"amberfs.log.1": "a link to a file", "actors.json": "a FIFO", "filling": "a link to a file",
}

// plant is what an attacker may have put in the place of a name.
var plant = map[string]func(t *testing.T, name, victim string){
	"a link to a file":      func(t *testing.T, name, victim string) { must.OK(t, os.Symlink(victim+"/file", name)) },
	"a link to a directory": func(t *testing.T, name, victim string) { must.OK(t, os.Symlink(victim+"/dir", name)) },
	"a link to nothing":     func(t *testing.T, name, victim string) { must.OK(t, os.Symlink(victim+"/new", name)) },
	"a FIFO":                func(t *testing.T, name, _ string) { must.OK(t, unix.Mkfifo(name, 0o600)) },
	"a link to /dev/zero":   func(t *testing.T, name, _ string) { must.OK(t, os.Symlink("/dev/zero", name)) },
}

// TestPlantedNames: whatever lies in the place of a name of a store, nothing outside of
// it changes, and nothing hangs or panics; the store is refused, or works.
func TestPlantedNames(t *testing.T) {
	m := harness.New(t)
	must.OK(t, os.WriteFile(m.Path("f"), []byte("content"), 0o644))
	m.Amberfs("snapshot", "v")
	must.OK(t, os.WriteFile(m.Path(".snapshots", "export"), []byte("v\n"), 0o644))
	m.Stop()
	for _, name := range namesOfAStore {
		for kind := range plant {
			if !harness.LongTests() && sample[name] != kind {
				continue
			}
			t.Run(name+" is "+kind, func(t *testing.T) {
				dir := t.TempDir()
				store, victim, point := filepath.Join(dir, "store"), filepath.Join(dir, "victim"), filepath.Join(dir, "mnt")
				must.OK(t, os.CopyFS(store, os.DirFS(m.Store)))
				must.OK(t, os.Chmod(store, 0o700))
				must.OK(t, os.MkdirAll(victim+"/dir", 0o755))
				must.OK(t, os.WriteFile(victim+"/file", []byte("a victim"), 0o644))
				must.OK(t, os.Mkdir(point, 0o755))
				must.OK(t, os.RemoveAll(filepath.Join(store, name)))
				plant[kind](t, filepath.Join(store, name), victim)
				before := harness.ReadTree(t, victim)
				useStore(t, store, point)
				harness.CheckSameTree(t, "outside of the store", before, harness.ReadTree(t, victim))
			})
		}
	}
}

// useStore does with a store what a user would, as far as it lets them.
func useStore(t *testing.T, store, point string) {
	t.Helper()
	try := func(args ...string) error {
		t.Helper()
		ctx, stop := context.WithTimeout(context.Background(), harness.Timeout)
		defer stop()
		cmd := exec.CommandContext(ctx, harness.Binary(t), args...)
		cmd.WaitDelay = harness.Timeout
		out, err := cmd.CombinedOutput()
		if ctx.Err() != nil {
			t.Errorf("amberfs %v hangs", args)
		}
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == 2 {
			t.Errorf("amberfs %v panics: %s", args, out)
		}
		return err
	}
	if try("mount", store, point) == nil {
		defer func() { _ = exec.Command("umount", "--lazy", point).Run() }()
		for _, args := range [][]string{{"snapshot", "w"}, {"fork", "x"}, {"gc"}, {"log"}} {
			_ = try(append([]string{"-C", point}, args...)...)
		}
		ctx, stop := context.WithTimeout(context.Background(), harness.Timeout)
		defer stop()
		_ = exec.CommandContext(ctx, "sh", "-c", "echo more > "+point+"/g; echo w > "+point+"/.snapshots/export").Run()
		if ctx.Err() != nil {
			t.Error("an export hangs")
		}
		if err := try("umount", point); err != nil {
			t.Errorf("unmounting: %v", err)
		}
	}
	_ = try("verify", "--repair", store)
}
