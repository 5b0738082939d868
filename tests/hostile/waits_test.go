package hostile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// worksOfMain are what programs in main do, which wait for no work of a fork. n is a new number.
var worksOfMain = []struct {
	name string
	do   func(m *harness.Mount, n int) error
}{
	{"write", func(m *harness.Mount, n int) error {
		return os.WriteFile(m.Path("main"), fmt.Appendln(nil, n), 0o644)
	}},
	{"fsync", func(m *harness.Mount, _ int) error {
		f, err := os.OpenFile(m.Path("main"), os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	}},
	{"rename", func(m *harness.Mount, n int) error {
		return errors.Join(os.WriteFile(m.Path("new"), fmt.Appendln(nil, n), 0o644), os.Rename(m.Path("new"), m.Path("renamed")))
	}},
	{"readdir", func(m *harness.Mount, _ int) error {
		_, err := os.ReadDir(m.Dir)
		return err
	}},
	{"snapshot", func(m *harness.Mount, _ int) error { return os.Mkdir(m.Path(".snapshots", "v"), 0o755) }},
	{"list", func(m *harness.Mount, _ int) error {
		_, err := os.ReadFile(m.Path(".snapshots", "list"))
		return err
	}},
	{"restore", func(m *harness.Mount, _ int) error {
		return os.WriteFile(m.Path(".snapshots", "restore"), []byte("v main\n"), 0o644)
	}},
	{"delete", func(m *harness.Mount, _ int) error { return os.Remove(m.Path(".snapshots", "v")) }},
	{"snapshot that is stored", func(m *harness.Mount, _ int) error {
		_, err := m.TryAmberfs("snapshot", "stored")
		return err
	}},
	{"export", func(m *harness.Mount, _ int) error { return export(m.Dir, "stored") }},
	{"delete what is stored", func(m *harness.Mount, _ int) error { return os.Remove(m.Path(".snapshots", "stored")) }},
}

// sparse gives a workspace the snapshot "sparse", whose files are mostly holes.
func sparse(t *testing.T, ws string) {
	t.Helper()
	for name, size := range map[string]int64{"holes": 900 << 30, "more holes": 1<<62 - 1} {
		must.OK(t, os.WriteFile(filepath.Join(ws, name), nil, 0o644))
		must.OK(t, os.Truncate(filepath.Join(ws, name), size))
	}
	must.OK(t, os.Mkdir(filepath.Join(ws, ".snapshots", "sparse"), 0o755))
}

// exportToGit is a process that asks for an export, and can be killed.
func exportToGit(ctx context.Context, ws, snapshot string) *exec.Cmd {
	return exec.CommandContext(ctx, "sh", "-c", `echo "$1" > "$0"`, filepath.Join(ws, ".snapshots", "export"), snapshot)
}

// TestMainWaitsForNoWorkOfAFork: while long work of a fork goes on, everything in main ends. What
// ended first is seen, not how long it took.
func TestMainWaitsForNoWorkOfAFork(t *testing.T) {
	for name, begin := range map[string]func(t *testing.T, m *harness.Mount, fork string) *exec.Cmd{
		"an export to git": gitExport,
		"an export to tar": tarExport,
		"a seal":           seal,
	} {
		t.Run(name, func(t *testing.T) {
			m := harness.New(t)
			fork := m.Path(".forks", "f")
			must.OK(t, os.Mkdir(fork, 0o755))
			for n, w := range worksOfMain { // the first export to git makes the repository
				if err := w.do(m, n); err != nil {
					t.Fatalf("before: main: %s: %v", w.name, err)
				}
			}
			cmd := begin(t, m, fork)
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			defer func() { _ = cmd.Process.Kill() }()

			for n, w := range worksOfMain {
				done := make(chan error, 1)
				go func() { done <- w.do(m, n) }()
				if err := await.Receive(t, "the end of main's "+w.name, done); err != nil {
					t.Fatalf("main: %s: %v", w.name, err)
				}
				select {
				case err := <-ended:
					t.Fatalf("the fork's work ended before main's %s: %v", w.name, err)
				default:
				}
			}
		})
	}
}

func gitExport(t *testing.T, m *harness.Mount, fork string) *exec.Cmd {
	sparse(t, fork)
	cmd := exportToGit(t.Context(), fork, "sparse")
	must.OK(t, cmd.Start())
	harness.Eventually(t, "the export begins", func() bool {
		names, _ := filepath.Glob(filepath.Join(m.Store, "git/objects/tmp_objdir-amberfs-*"))
		return len(names) > 0
	})
	return cmd
}

// tarExport has begun, and goes on only when the archive is read.
func tarExport(t *testing.T, _ *harness.Mount, fork string) *exec.Cmd {
	const size = 16 << 20 // more than the buffers and pipes to the reader have
	content := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content)
	must.OK(t, os.WriteFile(filepath.Join(fork, "content"), content, 0o644))
	must.OK(t, os.Truncate(filepath.Join(fork, "content"), 64<<30))
	must.OK(t, os.Mkdir(filepath.Join(fork, ".snapshots", "v"), 0o755))
	cmd := exec.Command(harness.Binary(t), "-C", fork, "export", "v", "--tar", "-")
	out, err := cmd.StdoutPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	_, err = io.ReadFull(out, make([]byte, 1))
	must.OK(t, err)
	return cmd
}

// seal waits until a snapshot is stored, whose file has many parts.
func seal(t *testing.T, _ *harness.Mount, fork string) *exec.Cmd {
	parts := harness.Count(t, "PARTS", 200_000, 1_000_000)
	f, err := os.Create(filepath.Join(fork, "parts"))
	must.OK(t, err)
	for n := range int64(parts) {
		_, err := f.WriteAt([]byte{byte(n), byte(n >> 8), byte(n >> 16)}, n<<13)
		must.OK(t, err)
	}
	must.OK(t, f.Close())
	must.OK(t, os.Mkdir(filepath.Join(fork, ".snapshots", "parts"), 0o755))
	cmd := exec.Command(harness.Binary(t), "-C", fork, "snapshot", "stored")
	must.OK(t, cmd.Start())
	harness.Eventually(t, "the seal begins", func() bool {
		list, err := os.ReadFile(filepath.Join(fork, ".snapshots", "list"))
		return err == nil && bytes.Contains(list, []byte("stored\t-\t")) // it has no id yet
	})
	return cmd
}
