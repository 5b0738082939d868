package history_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	must.OK(t, unix.Lstat(path, &st))
	return st.Ino
}

// Restored is byte for byte and attribute for attribute what was captured;
// undone, what was there before; and both again after mounting again.
func TestRestoreAndUndo(t *testing.T) {
	m := harness.New(t)
	everything(t, m.Dir)
	before := harness.ReadTree(t, m.Dir)
	capture(t, m, "v1")

	must.OK(t, os.RemoveAll(m.Path("a/b")))
	must.OK(t, os.Remove(m.Path("link")))
	must.OK(t, os.Mkdir(m.Path("link"), 0o755))
	write(t, m.Path("link/inside"), "a directory where a link was")
	must.OK(t, os.Rename(m.Path("large"), m.Path("moved")))
	must.OK(t, os.Remove(m.Path("empty-dir")))
	write(t, m.Path("empty-dir"), "a file where a directory was")
	must.OK(t, os.Chmod(m.Path("file"), 0o600))
	f, err := os.OpenFile(m.Path("sparse"), os.O_WRONLY, 0)
	must.OK(t, err)
	_, err = f.WriteAt([]byte("into the hole"), 2<<20)
	must.OK(t, err)
	must.OK(t, f.Close())
	write(t, m.Path("later"), "came later")
	after := harness.ReadTree(t, m.Dir)

	for round := range 2 {
		restore(t, m, "v1")
		harness.CheckSameTree(t, "restored", before, harness.ReadTree(t, m.Dir))
		restore(t, m, "undo")
		harness.CheckSameTree(t, "undone", after, harness.ReadTree(t, m.Dir))
		if round == 0 {
			sealed(t, m, "v1")
		}
	}
	restore(t, m, "v1")
	m.Kill()
	m.Start()
	harness.CheckSameTree(t, "restored, killed and mounted", before, harness.ReadTree(t, m.Dir))
	restore(t, m, "undo")
	harness.CheckSameTree(t, "undone", after, harness.ReadTree(t, m.Dir))
}

// What is open lives on, as if it were unlinked, and cannot leak back.
func TestOpenFilesAcrossARestore(t *testing.T) {
	m := harness.New(t)
	write(t, m.Path("changed"), "captured")
	write(t, m.Path("same"), "same")
	write(t, m.Path("mapped"), strings.Repeat("c", 4096))
	capture(t, m, "v1")
	write(t, m.Path("changed"), "changed later")
	write(t, m.Path("mapped"), strings.Repeat("l", 4096))
	write(t, m.Path("new"), "new")

	openRW := func(name string) *os.File {
		f, err := os.OpenFile(m.Path(name), os.O_RDWR, 0)
		must.OK(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	changed, same, fresh, mapped := openRW("changed"), openRW("same"), openRW("new"), openRW("mapped")
	mapping, err := unix.Mmap(int(mapped.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must.OK(t, err)
	defer unix.Munmap(mapping)
	sameIno, changedIno := inode(t, m.Path("same")), inode(t, m.Path("changed"))

	restore(t, m, "v1")
	if got := inode(t, m.Path("same")); got != sameIno {
		t.Errorf("an unchanged file had inode %d and has %d", sameIno, got)
	}
	if got := inode(t, m.Path("changed")); got == changedIno {
		t.Error("a changed file kept its inode")
	}
	buf := make([]byte, 64)
	n, _ := changed.ReadAt(buf, 0)
	if got := string(buf[:n]); got != "changed later" {
		t.Errorf("the old descriptor reads %q", got)
	}
	for _, f := range []*os.File{changed, fresh} {
		_, err := f.WriteAt([]byte("late write"), 0)
		must.OK(t, err)
		n, _ := f.ReadAt(buf, 0)
		if !strings.HasPrefix(string(buf[:n]), "late write") {
			t.Errorf("%s: reads %q after a write", f.Name(), buf[:n])
		}
	}
	copy(mapping, "late store")
	must.OK(t, unix.Msync(mapping, unix.MS_SYNC))
	_, err = same.WriteAt([]byte("SAME"), 0)
	must.OK(t, err)

	for name, want := range map[string]string{"changed": "captured", "same": "SAME", "mapped": strings.Repeat("c", 4096)} {
		if got := read(t, m.Path(name)); got != want {
			t.Errorf("%s has %.40q, want %.40q", name, got, want)
		}
	}
	if _, err := os.Lstat(m.Path("new")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("new: %v", err)
	}
}

// What is stored through a shared mapping is in every snapshot that is made after
// msync(2), and in one made before it or not.
func TestSharedMappingsAndSnapshots(t *testing.T) {
	m := harness.New(t)
	const size = 64 << 10
	write(t, m.Path("f"), strings.Repeat("a", size))
	f, err := os.OpenFile(m.Path("f"), os.O_RDWR, 0)
	must.OK(t, err)
	defer f.Close()
	mapping, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must.OK(t, err)
	defer unix.Munmap(mapping)
	store := func(c string) { copy(mapping, strings.Repeat(c, size)) }
	in := func(snapshot string) string { return read(t, m.Path(".snapshots/"+snapshot+"/f")) }

	store("b")
	must.OK(t, unix.Msync(mapping, unix.MS_SYNC))
	capture(t, m, "b")
	store("c")
	capture(t, m, "between")
	must.OK(t, unix.Msync(mapping, unix.MS_SYNC))
	capture(t, m, "c")
	store("d")

	for name, want := range map[string]string{"b": "b", "c": "c"} {
		if got := in(name); got != strings.Repeat(want, size) {
			t.Errorf("snapshot %s begins with %.10q", name, got)
		}
	}
	if got := strings.Trim(in("between"), "bc"); got != "" {
		t.Errorf("the snapshot in between has %.10q", got)
	}
}

// A directory keeps its inode through any number of restores, and a process
// that stands in it goes on: also when the restore removed and remade what is
// in it.
func TestWorkingDirectoryAcrossARestore(t *testing.T) {
	m := harness.New(t)
	must.OK(t, os.MkdirAll(m.Path("d/e"), 0o755))
	write(t, m.Path("d/e/f"), "one")
	capture(t, m, "v1")
	write(t, m.Path("d/e/f"), "two")
	ino := inode(t, m.Path("d/e"))

	cmd := exec.Command("sh", "-c", "read line; cat f; read line; cat f; pwd -P")
	cmd.Dir = m.Path("d/e")
	in, err := cmd.StdinPipe()
	must.OK(t, err)
	out, err := cmd.StdoutPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	restore(t, m, "v1")
	fmt.Fprintln(in, "go")
	first := make([]byte, 3)
	_, err = io.ReadFull(out, first)
	must.OK(t, err)
	restore(t, m, "undo")
	fmt.Fprintln(in, "go")
	rest, err := io.ReadAll(out)
	must.OK(t, err)
	must.OK(t, cmd.Wait())
	if got, want := string(first)+string(rest), "onetwo"+m.Path("d/e")+"\n"; got != want {
		t.Errorf("the shell printed %q, want %q", got, want)
	}
	if got := inode(t, m.Path("d/e")); got != ino {
		t.Errorf("the directory had inode %d and has %d", ino, got)
	}
}

// Many differences in one restore, among many files that stay.
func TestRestoreOfManyChanges(t *testing.T) {
	m := harness.New(t)
	const dirs, files = 40, 60
	for d := range dirs {
		must.OK(t, os.Mkdir(m.Path(fmt.Sprintf("d%02d", d)), 0o755))
		for f := range files {
			write(t, m.Path(fmt.Sprintf("d%02d/f%02d", d, f)), fmt.Sprintf("%d %d", d, f))
		}
	}
	before := harness.ReadTree(t, m.Dir)
	capture(t, m, "v1")
	for d := range dirs {
		switch d % 4 {
		case 0:
			must.OK(t, os.RemoveAll(m.Path(fmt.Sprintf("d%02d", d))))
		case 1:
			for f := range files {
				write(t, m.Path(fmt.Sprintf("d%02d/f%02d", d, f)), "overwritten")
			}
		case 2:
			must.OK(t, os.Rename(m.Path(fmt.Sprintf("d%02d", d)), m.Path(fmt.Sprintf("renamed%02d", d))))
		}
	}
	after := harness.ReadTree(t, m.Dir)
	restore(t, m, "v1")
	harness.CheckSameTree(t, "restored", before, harness.ReadTree(t, m.Dir))
	restore(t, m, "undo")
	harness.CheckSameTree(t, "undone", after, harness.ReadTree(t, m.Dir))
	restore(t, m, "base")
	entries, err := os.ReadDir(m.Dir)
	must.OK(t, err)
	if len(entries) != 0 {
		t.Errorf("origin was empty, and now there are %d entries", len(entries))
	}
}

// Restores and captures while writers write: no error that a writer would not
// get from a file that was removed, and every state a whole one.
func TestRestoreWithWritersRunning(t *testing.T) {
	m := harness.New(t)
	must.OK(t, os.Mkdir(m.Path("d"), 0o755))
	write(t, m.Path("d/f"), "captured")
	capture(t, m, "v1")
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			err := os.WriteFile(m.Path("d/f"), fmt.Appendf(nil, "written %d", i), 0o644)
			if err == nil {
				err = os.WriteFile(m.Path(fmt.Sprintf("d/g%d", i%50)), []byte("x"), 0o644)
			}
			if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESTALE) {
				done <- err
				return
			}
		}
	}()
	for range 40 {
		restore(t, m, "v1")
	}
	close(stop)
	must.OK(t, <-done)
	restore(t, m, "v1")
	if got := read(t, m.Path("d/f")); got != "captured" {
		t.Errorf("d/f has %q", got)
	}
	entries, err := os.ReadDir(m.Path("d"))
	must.OK(t, err)
	if len(entries) != 1 {
		t.Errorf("%d entries", len(entries))
	}
}
