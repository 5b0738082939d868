package control

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/live"
)

// remembering is a user of a tree with a memory, and what makes the next daemon's tree.
func remembering(t *testing.T) (u *user, crash func()) {
	u = newUser(t)
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	u.must(err)
	file := os.NewFile(uintptr(fd), "memory")
	t.Cleanup(func() { file.Close() })
	crash = func() { u.kernel.tree = New(Options{Service: u.tree.Service, Kernel: u.kernel, Memory: file}) }
	crash()
	return u, crash
}

func (u *user) node(name string) live.NodeID {
	u.Helper()
	a, err := u.lookup(name)
	u.must(err)
	return a.ID
}

func (u *user) all(id live.NodeID) string {
	u.Helper()
	a, err := u.tree.GetAttr(id)
	u.must(err)
	b := make([]byte, a.Size)
	n, err := u.tree.ReadAt(id, b, 0)
	u.must(err)
	return string(b[:n])
}

// TestMemory: what is open shows the same in the next daemon, and takes commands.
func TestMemory(t *testing.T) {
	u, crash := remembering(t)
	u.must(u.write(createName, "v1\n"))
	shown, create, status, log := u.read(createName), u.node(createName), u.node("status"), u.node("log")
	was := u.all(status)
	scratch, err := u.tree.Create(u.dir, "create.tmp.1", 0o600, u.who)
	u.must(err)
	_, err = u.tree.Write(scratch.Attr.ID, []byte("v2 of a scratch file"), 0, Request{Caller: u.who})
	u.must(err)
	call, err := u.tree.Create(u.dir, "call.own", 0o600, u.who)
	u.must(err)
	_, err = u.tree.Write(call.Attr.ID, []byte(`{"op":"snapshot",`), 0, Request{Caller: u.who})
	u.must(err)
	gone, err := u.tree.Create(u.dir, "create.tmp.2", 0o600, u.who)
	u.must(err)
	u.must(u.tree.Unlink(u.dir, "create.tmp.2"))

	for range 2 {
		crash()
		if got := u.all(status); got != was {
			t.Errorf("status was %q and is %q", was, got)
		}
		if got := u.all(create); got != shown {
			t.Errorf("create was %q and is %q", shown, got)
		}
		if _, err := u.lookup("create.tmp.2"); !errors.Is(err, errs.NotExist) {
			t.Errorf("a removed file: %v", err)
		}
	}
	_, err = u.tree.Write(create, []byte("v3\n"), 0, Request{Caller: u.who})
	u.must(err)
	_, err = u.tree.Write(call.Attr.ID, []byte(`"name":"v4"}`), 0, Request{Caller: u.who})
	u.must(err)
	u.must(u.tree.Rename(u.dir, "create.tmp.1", u.dir, createName, 0, Request{Caller: u.who}))
	names := u.names()
	for _, name := range []string{"v2", "v3", "v4"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s was not made: %q", name, names)
		}
	}
	if u.node("log") != log || u.node("status") == status {
		t.Error("the log has another node, or status has not")
	}
	u.tree.Forget(gone.Attr.ID, 1)
	if id := u.node("README"); id <= gone.Attr.ID {
		t.Errorf("the number of node %x was used before", uint64(id))
	}
}

// TestMemoryIsBounded: old records make room for new ones, and what is there stays.
func TestMemoryIsBounded(t *testing.T) {
	u, crash := remembering(t)
	scratch, err := u.tree.Create(u.dir, "create.tmp.1", 0o600, u.who)
	u.must(err)
	text := bytes.Repeat([]byte("x"), maxScratch-10)
	for i := range 4 * minFull / maxScratch {
		text = append(text[:maxScratch-10], fmt.Sprint(i)...)
		_, err = u.tree.Write(scratch.Attr.ID, text, 0, Request{Caller: u.who})
		u.must(err)
		if used := u.memory(); used > minFull+16*page {
			t.Fatalf("the memory has %d bytes", used)
		}
	}
	crash()
	if got := u.all(scratch.Attr.ID); !strings.HasPrefix(got, string(text)) {
		t.Errorf("the file ends in %q", got[max(0, len(got)-10):])
	}
}

// memory is how many bytes the memory takes.
func (u *user) memory() int64 {
	u.Helper()
	var st unix.Stat_t
	u.must(unix.Fstat(int(u.tree.Memory.Fd()), &st))
	return st.Blocks * 512
}

// TestMemoryOfLargeTexts: the newest that fit into a region stay. One that is too large is
// stale.
func TestMemoryOfLargeTexts(t *testing.T) {
	u, crash := remembering(t)
	text := bytes.Repeat([]byte("0123456789abcdef"), maxKept/16+1)
	var shown []live.NodeID
	for i, size := range []int{maxKept, maxKept, maxKept, maxKept, maxKept + 1, maxKept - 1} {
		w := u.tree.newContent(u.tree.store.Main())
		_, err := w.Write(text[:size])
		u.must(err)
		shown = append(shown, u.tree.publish(u.tree.store.Main(), fmt.Sprint("list", i), typeFile|0o444, w, source{}).Attr.ID)
	}
	crash()
	crash()
	for i, want := range []int{-1, -1, maxKept, maxKept, -1, maxKept - 1} {
		if _, err := u.tree.GetAttr(shown[i]); want < 0 {
			if !errors.Is(err, errs.Stale) {
				t.Errorf("text %d is not stale: %v", i, err)
			}
		} else if got := u.all(shown[i]); got != string(text[:want]) {
			t.Errorf("text %d has %d bytes instead of %d, or others", i, len(got), want)
		}
	}
	if used := u.memory(); used > maxCompacted+page {
		t.Errorf("the memory has %d bytes", used)
	}
}
