package live_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/fsmodel"
	"github.com/amberfs/amberfs/tests/must"
)

// TestOrphansThroughCrashes: files and directories without a name stay what they are through
// crashes and checkpoints, whatever took their names, until the kernel forgets them. Then the
// journal is not needed for them.
func TestOrphansThroughCrashes(t *testing.T) {
	y, err := newSystem(t)
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, y.close()) })
	must.OK(t, y.f.Takeover.Connect())
	root := y.s.Main().Root()
	create := func(name string, mode uint32) live.NodeID {
		a, err := y.f.Create(root, name, live.NewNode{Mode: mode | 0o700})
		must.OK(t, err)
		y.hold(a.ID)
		return a.ID
	}
	must.OK(t, y.capture("", "empty", 0))
	all := map[string]live.NodeID{}
	for _, name := range []string{"unlinked", "replaced", "restored"} {
		all[name] = create(name, unix.S_IFREG)
	}
	dir := create("dir", unix.S_IFDIR)
	other := create("other", unix.S_IFREG)
	content := map[live.NodeID][]byte{}
	write := func(y *system, id live.NodeID, b []byte, off int64) {
		_, err := y.f.Write(id, b, off, false)
		must.OK(t, err)
		content[id] = fsmodel.Splice(content[id], off, b)
	}
	for name, id := range all {
		write(y, id, bytes.Repeat([]byte(name), 20_000), 0)
	}
	_, err = y.f.Unlink(root, "unlinked")
	must.OK(t, err)
	_, err = y.f.Rename(root, "other", root, "replaced", 0, live.NewNode{}.Caller)
	must.OK(t, err)
	_, err = y.f.Rmdir(root, "dir")
	must.OK(t, err)
	tmp, err := y.f.Tmpfile(root, live.NewNode{Mode: unix.S_IFREG | 0o600})
	must.OK(t, err)
	y.hold(tmp.ID)
	all["tmpfile"] = tmp.ID
	must.OK(t, y.restore("", "empty"))
	all["other"] = other

	check := func(y *system) {
		t.Helper()
		for name, id := range all {
			got, err := y.read(id)
			must.OK(t, err)
			if !bytes.Equal(got, content[id]) {
				t.Fatalf("%s has %d bytes that are not its own", name, len(got))
			}
			if a, err := y.f.GetAttr(id); err != nil || a.Nlink != 0 {
				t.Fatalf("%s: %+v, %v", name, a, err)
			}
		}
		if a, err := y.f.GetAttr(dir); err != nil || a.Nlink != 0 || a.Mode != unix.S_IFDIR|0o700 {
			t.Fatalf("the directory: %+v, %v", a, err)
		}
	}
	check(y)
	for round := range 4 {
		k := y.takenOver(t)
		check(k)
		for _, id := range all {
			write(k, id, []byte("in each round"), int64(round*10_000))
		}
		if round > 0 {
			must.OK(t, k.checkpoint())
			must.OK(t, k.gc())
		}
		check(k)
		y = k
	}

	// One gets its name back, with all that it has.
	_, err = y.f.Link(tmp.ID, root, "named")
	must.OK(t, err)
	delete(all, "tmpfile")
	k := y.takenOver(t)
	check(k)
	a, err := k.f.Lookup(root, "named")
	must.OK(t, err)
	if got, err := k.read(a.ID); err != nil || a.ID != tmp.ID || a.Nlink != 1 || !bytes.Equal(got, content[tmp.ID]) {
		t.Fatalf("named is %+v, %d bytes, %v", a, len(got), err)
	}

	// What the kernel does not hold is gone after it was asked.
	clear(k.held)
	in, err := k.f.Takeover.Inherit()
	must.OK(t, err)
	for _, id := range all {
		if !slices.Contains(in.Orphans, id) {
			t.Errorf("%x is not inherited", id)
		}
	}
	for _, id := range in.Orphans {
		k.f.Takeover.Forget(id)
	}
	if in, err := k.f.Takeover.Inherit(); err != nil || len(in.Orphans) != 0 {
		t.Fatalf("%x, %v", in.Orphans, err)
	}
	before := k.takenOver(t) // recovery does not know what was forgotten since the checkpoint
	must.OK(t, k.checkpoint())
	after := k.takenOver(t)
	for _, id := range all {
		if _, err := before.f.GetAttr(id); err != nil {
			t.Errorf("%x: %v", id, err)
		}
		if _, err := after.f.GetAttr(id); !errors.Is(err, errs.Stale) {
			t.Errorf("%x: %v", id, err)
		}
	}
}

// TestOrphansLeaveTheJournal: what a file without a name has in the journal is stored by the
// checkpoint after a crash, so that the journal is short again.
func TestOrphansLeaveTheJournal(t *testing.T) {
	y, err := newSystem(t)
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, y.close()) })
	root := y.s.Main().Root()
	a, err := y.f.Create(root, "f", live.NewNode{Mode: unix.S_IFREG | 0o600})
	must.OK(t, err)
	y.hold(a.ID)
	_, err = y.f.Write(a.ID, bytes.Repeat([]byte("bytes"), 100_000), 0, false)
	must.OK(t, err)
	_, err = y.f.Unlink(root, "f")
	must.OK(t, err)
	k := y.takenOver(t)
	b, err := k.f.Create(root, "other", live.NewNode{Mode: unix.S_IFREG | 0o600})
	must.OK(t, err)
	for i := range int64(80) {
		_, err = k.f.Write(b.ID, bytes.Repeat([]byte{byte(i)}, 1<<20), i<<20, false)
		must.OK(t, err)
	}
	must.OK(t, k.checkpoint())
	if n := k.s.Main().Status().JournalBytes; n > 66<<20 {
		t.Errorf("the journal keeps %d bytes", n)
	}
	if got, err := k.takenOver(t).read(a.ID); err != nil || len(got) != 500_000 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestNoticesAfterACrash: what the kernel was not told of an edit is inherited, until it is
// told.
func TestNoticesAfterACrash(t *testing.T) {
	y, err := newSystem(t)
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, y.close()) })
	must.OK(t, y.f.Takeover.Connect())
	root := y.s.Main().Root()
	create := func(name string) live.NodeID {
		a, err := y.f.Create(root, name, live.NewNode{Mode: unix.S_IFREG | 0o600})
		must.OK(t, err)
		return a.ID
	}
	back := create("back")
	must.OK(t, y.capture("", "first", 0))
	_, err = y.f.Unlink(root, "back")
	must.OK(t, err)
	gone := create("gone")
	y.hold(gone)
	var told func()
	y.s.Hooks.OnInvalidate(func(_ live.Invalidation, done func()) { told = done })
	must.OK(t, y.restore("", "first"))

	inherited := func(y *system, when string, notices, stale int) live.Inheritance {
		t.Helper()
		in, err := y.f.Takeover.Inherit()
		must.OK(t, err)
		if len(in.Notices) != notices || len(in.Stale) != stale {
			t.Fatalf("%s: %d notices, %d stale views; want %d and %d", when, len(in.Notices), len(in.Stale), notices, stale)
		}
		return in
	}
	k := y.takenOver(t)
	in := inherited(k, "killed before the notices", 1, 0)
	found := map[string]live.Entry{}
	for _, e := range in.Notices[0].Entries {
		found[e.Name] = e
	}
	if e := found["gone"]; e.Parent != root || e.HeldNode != gone || e.OldNode != gone {
		t.Errorf("the notice of what was removed is %+v", e)
	}
	if e, ok := found["back"]; !ok || e.HeldNode != 0 || e.Parent != root {
		t.Errorf("the notice of what came back is %+v", e)
	}
	if !slices.Contains(in.Notices[0].Inodes, root) {
		t.Errorf("the listing of the root is not outdated: %x", in.Notices[0].Inodes)
	}
	if a, err := k.f.Lookup(root, "back"); err != nil || a.ID == back {
		t.Errorf("%+v, %v", a, err)
	}
	must.OK(t, k.checkpoint())
	again := k.takenOver(t)
	inherited(again, "killed again before them, after a checkpoint", 0, 1)
	again.f.Takeover.MarkInheritedNoticed()
	must.OK(t, again.checkpoint())
	inherited(again.takenOver(t), "killed after them", 0, 0)

	must.OK(t, y.checkpoint())
	inherited(y.takenOver(t), "killed before the notices, after a checkpoint", 0, 1)
	told()
	must.OK(t, y.checkpoint())
	inherited(y.takenOver(t), "killed after they were sent", 0, 0)
	k, err = y.killed(t, false)
	must.OK(t, err)
	inherited(k, "nobody took over", 0, 0)
	must.OK(t, k.close())
}

// TestStaleNamesOfTwoEdits: of two edits that the kernel does not know of, what only the first one
// removed from the root is remembered by a checkpoint, too. What lost one of its names has other
// attributes.
func TestStaleNamesOfTwoEdits(t *testing.T) {
	y, err := newSystem(t)
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, y.close()) })
	must.OK(t, y.f.Takeover.Connect())
	root := y.s.Main().Root()
	create := func(name string) live.NodeID {
		a, err := y.f.Create(root, name, live.NewNode{Mode: unix.S_IFREG | 0o600})
		must.OK(t, err)
		return a.ID
	}
	linked := create("linked")
	must.OK(t, y.capture("", "empty", 0))
	create("p")
	must.OK(t, y.capture("", "with-p", 0))
	_, err = y.f.Unlink(root, "p")
	must.OK(t, err)
	create("r")
	_, err = y.f.Link(linked, root, "name")
	must.OK(t, err)
	y.s.Hooks.OnInvalidate(func(live.Invalidation, func()) {})
	must.OK(t, y.restore("", "with-p"))
	must.OK(t, y.restore("", "empty"))

	in, err := y.takenOver(t).f.Takeover.Inherit()
	must.OK(t, err)
	if len(in.Notices) != 2 || !slices.Contains(in.Notices[0].Inodes, linked) {
		t.Errorf("an inode with a name less is not outdated: %+v", in.Notices)
	}
	must.OK(t, y.checkpoint())
	in, err = y.takenOver(t).f.Takeover.Inherit()
	must.OK(t, err)
	for _, name := range []string{"p", "r", "name"} {
		if !slices.Contains(in.Stale[live.MainView], name) {
			t.Errorf("%s is not outdated: %v", name, in.Stale)
		}
	}
}
