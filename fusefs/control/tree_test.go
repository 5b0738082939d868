package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/policy"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
)

// kernel is a Kernel that records the calls of its methods.
type kernel struct {
	tree  *Tree
	dirs  map[live.Entry]live.NodeID
	pages []live.NodeID
	tails []live.NodeID
}

func (k *kernel) DropPages(id live.NodeID)         { k.pages = append(k.pages, id) }
func (k *kernel) DropTail(id live.NodeID, _ int64) { k.tails = append(k.tails, id) }
func (k *kernel) CallBlocking(fn func())           { fn() }

// A user makes the requests to a tree that a program makes to the mount.
type user struct {
	*testing.T
	*kernel
	dir live.NodeID
	who actors.Caller
}

func newUser(t *testing.T) *user {
	t.Helper()
	dir := t.TempDir()
	s, err := snapshot.Open(filepath.Join(dir, "store"), snapshot.Options{Quiet: true})
	must.OK(t, err)
	logger := slog.New(slog.DiscardHandler)
	log := events.New(filepath.Join(dir, "store", "events"), events.Options{FS: vfs.OS, Logger: logger})
	must.OK(t, log.Load())
	t.Cleanup(func() {
		log.Close()
		s.Close()
	})
	asked := service.New(service.Config{
		Store: s, Events: log, Log: logger,
		Mount: service.Mount{
			WaitReady: func(context.Context) error { return nil },
			ReadOnly:  func() bool { return false },
			Requests:  func() map[string]uint64 { return map[string]uint64{"READ": 1} },
			Device:    func() string { return "" }, StaleNames: func() int64 { return 0 },
			ProgramsInside: func([]uint32, bool) []service.Program { return nil },
		},
		Daemon:      service.Daemon{Survival: func() service.Survival { return service.Survival{} }},
		RequestDrop: func() {},
	})
	k := &kernel{dirs: make(map[live.Entry]live.NodeID)}
	k.tree = New(Options{Service: asked, Kernel: k})
	u := &user{T: t, kernel: k, dir: snapshotsID(live.MainView), who: actors.Caller{UID: uint32(os.Geteuid())}}
	return u
}

// put makes a file in the workspace main, or changes it.
func (u *user) put(name, content string) {
	u.Helper()
	f := u.tree.store.Forest()
	a, err := f.Lookup(u.tree.store.Main().Root(), name)
	if err != nil {
		a, err = f.Create(u.tree.store.Main().Root(), name, live.NewNode{Mode: 0o100644, Caller: u.who})
		u.must(err)
	}
	_, err = f.Write(a.ID, []byte(content), 0, false)
	u.must(err)
}

func requestOf(who actors.Caller) Request { return Request{Request: service.Request{Caller: who}} }

// find resolves a name as open(2) does: it follows the symlink to the directory in which a file is rendered.
func (u *user) find(name string) (Entry, error) {
	e, err := u.tree.Lookup(u.dir, name, requestOf(u.who))
	if err != nil || e.Attr.Mode&unix.S_IFMT != unix.S_IFLNK {
		return e, err
	}
	if to, err := u.tree.Readlink(e.Attr.ID); err != nil || to != renderingDir+"/"+name {
		return e, err
	}
	u.tree.Forget(e.Attr.ID, 1)
	return u.tree.Lookup(renderingID(uint32(u.dir.Ino())), name, requestOf(u.who))
}

func (u *user) lookup(name string) (live.Attr, error) {
	e, err := u.find(name)
	if err != nil || !IsNode(e.Attr.ID) {
		return e.Attr, err
	}
	at := live.Entry{Parent: u.dir, Name: name}
	if old, ok := u.dirs[at]; ok {
		u.tree.Forget(old, 1)
	}
	u.dirs[at] = e.Attr.ID
	return e.Attr, nil
}

func (u *user) read(name string) string {
	u.Helper()
	a, err := u.lookup(name)
	if err != nil {
		u.Fatalf("%s: %v", name, err)
	}
	b := make([]byte, a.Size)
	if n, err := u.tree.ReadAt(a.ID, b, 0); err != nil || n != len(b) {
		u.Fatalf("%s: read %d of %d bytes: %v", name, n, len(b), err)
	}
	return string(b)
}

// write is echo TEXT > NAME.
func (u *user) write(name, text string) error {
	u.Helper()
	a, err := u.lookup(name)
	if errors.Is(err, errs.NotExist) {
		var e Entry
		e, err = u.tree.Create(u.dir, name, 0o644, u.who)
		a = e.Attr
		u.dirs[live.Entry{Parent: u.dir, Name: name}] = a.ID
	}
	if err != nil {
		return err
	}
	if _, err := u.tree.SetAttr(a.ID, live.SetAttr{Size: new(int64)}, u.who); err != nil {
		return err
	}
	_, err = u.tree.Write(a.ID, []byte(text), 0, requestOf(u.who))
	return err
}

func (u *user) names() (out []string) {
	u.Helper()
	err := u.tree.List(u.dir, 0, func(name string, _ live.NodeID, _ uint32, _ uint64) bool {
		out = append(out, name)
		return true
	})
	must.OK(u, err)
	return out
}

func (u *user) must(err error) {
	u.Helper()
	must.OK(u, err)
}

func (u *user) result(name, want string) {
	u.Helper()
	if got := u.read(name); !strings.Contains(got, want) {
		u.Errorf("%s says %q, want %q in it", name, got, want)
	}
}

func TestControlIDs(t *testing.T) {
	for _, view := range []uint32{0, 1, live.MaxView} {
		s, f := snapshotsID(view), forksID(view)
		if !IsNode(s) || !IsNode(f) || s == f {
			t.Errorf("view %d: %x, %x", view, uint64(s), uint64(f))
		}
		if uint32(s.Ino()) != view || uint32(f.Ino()) != view {
			t.Errorf("view %d is not found again", view)
		}
		if IsNode(live.Node(view, live.MaxIno)) {
			t.Errorf("a node of view %d is one of the control tree", view)
		}
	}
}

// TestSnapshotsByFiles makes, lists, renames, restores and deletes snapshots.
func TestSnapshotsByFiles(t *testing.T) {
	u := newUser(t)
	u.must(u.write(createName, "v1 the first\n"))
	u.result(createName, `"ok":true,"name":"v1","seq":1`)
	_, err := u.tree.Mkdir(u.dir, "v2", requestOf(u.who))
	must.OK(t, err)
	if _, err := u.tree.Mkdir(u.dir, "v2", requestOf(u.who)); !errors.Is(err, errs.Exist) {
		t.Errorf("the same name again: %v", err)
	}
	u.result(createName, `"ok":false`)
	if list := strings.Split(u.read("list"), "\n"); len(list) != 3 || !strings.HasPrefix(list[0], "v2\t") || !strings.HasSuffix(list[1], "\tthe first") {
		t.Errorf("the list is %q", list)
	}
	u.must(u.tree.Rename(u.dir, "v2", u.dir, "v3", 0, requestOf(u.who)))
	if a, err := u.lookup("cp-2"); err != nil || a.Mode != typeLink|0o777 {
		t.Errorf("another name of v3: %o, %v", a.Mode, err)
	} else if to, err := u.tree.Readlink(a.ID); err != nil || to != "v3" {
		t.Errorf("another name of v3 leads to %q, %v", to, err)
	}
	u.must(u.tree.Rename(u.dir, restoreName, u.dir, "restore@v1", 0, requestOf(u.who)))
	u.result(restoreName, `"snapshot":"v1","changed":0`)
	u.must(u.tree.Rmdir(u.dir, "v3", requestOf(u.who)))
	if _, err := u.lookup("v3"); !errors.Is(err, catalogue.ErrNotFound) {
		t.Errorf("a snapshot that was removed: %v", err)
	}
	if names := u.names(); !slices.Contains(names, "v1") || slices.Contains(names, "v3") || !slices.Contains(names, "list") {
		t.Errorf("the names are %q", names)
	}
	if err := u.tree.Rmdir(u.dir, "list", requestOf(u.who)); !errors.Is(err, errs.Protected) {
		t.Errorf("rmdir list: %v", err)
	}
}

// TestNoAnswerUnread: for a command that is not written to a file, the answer is made only when it is looked up.
func TestNoAnswerUnread(t *testing.T) {
	u := newUser(t)
	again := requestOf(u.who)
	_, err := u.tree.Mkdir(u.dir, "v1", again)
	must.OK(t, err)
	u.must(u.tree.Rename(u.dir, "v1", u.dir, "v2", 0, again))
	u.must(u.tree.Rename(u.dir, restoreName, u.dir, "restore@v2", 0, again))
	if n := len(u.tree.cache.mu.nodes); n != 0 {
		t.Errorf("%d files for answers that nobody has read", n)
	}
	u.result(createName, `"name":"v2"`)
	u.result(restoreName, `"snapshot":"v2"`)

	stranger := actors.Caller{UID: 4321}
	_, err = u.tree.Mkdir(u.dir, "theirs", requestOf(stranger))
	must.OK(t, err)
	_, err = u.tree.Mkdir(u.dir, "v2", again)
	if !errors.Is(err, errs.Exist) {
		t.Errorf("the same name again: %v", err)
	}
	u.result(createName, `"ok":false`)
	u.must(u.write(createName, "v3\n"))
	u.result(createName, `"name":"v3"`)
	u.who = stranger
	u.result(createName, `"name":"theirs"`)
}

// TestNewlineOfItsOwn: a newline that a program writes after the rest of its line is no command.
func TestNewlineOfItsOwn(t *testing.T) {
	u := newUser(t)
	for i, line := range []string{`{"name":"v1"}`, "v2", `{"name":"v3"}`} {
		a, err := u.lookup(createName)
		must.OK(t, err)
		_, err = u.tree.Write(a.ID, []byte(line), 0, requestOf(u.who))
		must.OK(t, err)
		_, err = u.tree.Write(a.ID, []byte("\n"), int64(len(line)), requestOf(u.who))
		must.OK(t, err)
		if n := len(u.tree.cache.store.Main().List()); n != i+1 {
			t.Errorf("after %q there are %d snapshots", line, n)
		}
	}

	u.must(u.write(createName, "\n")) // by itself it is
	if n := len(u.tree.cache.store.Main().List()); n != 4 {
		t.Errorf("%d snapshots", n)
	}
}

func TestForksByFiles(t *testing.T) {
	u := newUser(t)
	u.must(u.write(createName, "v1\n"))
	u.must(u.write(forkName, "v1 side\n"))
	u.dir = forksID(live.MainView)
	_, err := u.tree.Mkdir(u.dir, "now", requestOf(u.who))
	must.OK(t, err)
	u.must(u.tree.Rename(u.dir, "now", u.dir, "later", 0, requestOf(u.who)))
	if got := u.names(); !slices.Equal(got, []string{".", "..", "side", "later"}) {
		t.Errorf("the forks are %q", got)
	}
	e, err := u.tree.Lookup(u.dir, "side", Request{})
	u.must(err)
	if dir, ok := u.tree.Parent(e.Attr.ID.View()); !ok || dir != u.dir {
		t.Errorf("the parent of a fork is %x, %v", dir, ok)
	}
	u.must(u.tree.Rmdir(u.dir, "side", requestOf(u.who)))
	u.dir = snapshotsID(live.MainView)
	if a, err := u.lookup(latestName); err != nil {
		t.Error(err)
	} else if to, err := u.tree.Readlink(a.ID); err != nil || to != "side" {
		t.Errorf("the last state of the fork is %q, %v", to, err)
	}
}

// TestNewContentIsANewNode: a new content has a new node, because the kernel may have pages of the old node.
func TestNewContentIsANewNode(t *testing.T) {
	u := newUser(t)
	before, err := u.lookup("list")
	u.must(err)
	if same, err := u.lookup("list"); err != nil || same.ID != before.ID {
		t.Errorf("the same content is another node, %v", err)
	}
	u.must(u.write(createName, "v1\n"))
	if after, err := u.lookup("list"); err != nil || after.ID == before.ID {
		t.Errorf("another content is the same node, %v", err)
	}
	if _, err := u.tree.GetAttr(before.ID); !errors.Is(err, errs.Stale) {
		t.Errorf("the old node, which the kernel has forgotten: %v", err)
	}
}

// bigDiffs makes snapshots v0 and so on whose diffs to now have more than size bytes.
func (u *user) bigDiffs(count, size int) {
	u.Helper()
	for i := range count {
		u.must(u.write(createName, fmt.Sprintf("v%d\n", i)))
	}
	u.put("big", strings.Repeat("a line of it\n", size/12))
}

// accounts compares the numbers that the cache counts with the nodes and contents that it has.
func (u *user) accounts() {
	u.Helper()
	u.tree.cache.mu.Lock()
	defer u.tree.cache.mu.Unlock()
	var all int64
	for _, k := range u.tree.cache.mu.tenants {
		var bytes int64
		for e := k.nodes.Front(); e != nil; e = e.Next() {
			n := e.Value.(node)
			f := n.core()
			if bytes += n.memoryLocked(); f.chargedBytes != n.memoryLocked() || u.tree.cache.mu.nodes[f.id] != n {
				u.Errorf("node %s is wrong: %d bytes, %d counted", f.key.name, n.memoryLocked(), f.chargedBytes)
			}
		}
		if all += bytes; bytes != k.chargedBytes || k.reservedBytes != 0 || k.chargedBytes > k.maxBytes {
			u.Errorf("a tenant has %d bytes, %d counted, %d reserved, %d allowed", bytes, k.chargedBytes, k.reservedBytes, k.maxBytes)
		}
	}
	if all != u.tree.cache.mu.bytes {
		u.Errorf("all have %d bytes, %d counted", all, u.tree.cache.mu.bytes)
	}
}

// TestWhatFallsOut: a file that was removed to make room for newer files is stale even if the kernel holds it, and is
// rendered again when it is looked up.
func TestWhatFallsOut(t *testing.T) {
	const size, count = 1 << 20, 20
	u := newUser(t)
	u.tree.cache.limits.mainBytes = 10 << 20
	u.bigDiffs(count, size)
	var first live.NodeID
	for i := range count {
		e, err := u.find(fmt.Sprintf("diff@v%d", i))
		if err != nil || e.Attr.Size < size {
			t.Fatalf("%d bytes, %v", e.Attr.Size, err)
		}
		if i == 0 {
			first = e.Attr.ID
		}
		u.accounts()
	}
	if _, err := u.tree.ReadAt(first, make([]byte, 10), 0); !errors.Is(err, errs.Stale) {
		t.Errorf("the first one: %v", err)
	}
	if got := u.read("diff@v0"); len(got) < size {
		t.Errorf("looked up again it has %d bytes", len(got))
	}
	u.accounts()
}

// TestTooLarge: the rendering of a file that is larger than its tenant's part of the cache fails, and leaves no bytes
// in the cache.
func TestTooLarge(t *testing.T) {
	u := newUser(t)
	u.tree.cache.limits.mainBytes = 3 << 20
	u.bigDiffs(1, 3<<20)
	if _, err := u.lookup("diff@v0"); !errors.Is(err, errs.TooBig) {
		t.Error(err)
	}
	u.must(u.write(callName, `{"op":"list"}`))
	u.result(callName, `"name":"v0"`)
	if err := u.write(callName, `{"op":"diff","a":"v0"}`); !errors.Is(err, errs.TooBig) {
		t.Error(err)
	}
	u.result(callName, `"ok":false`)
	u.accounts()
}

// TestListOfAForkFits: the list of a fork with the largest allowed number of snapshots and messages fits into the
// fork's part of the cache.
func TestListOfAForkFits(t *testing.T) {
	f := policy.Default().Forks
	const line = 128 + 12 + len(time.RFC3339) + 4 // a row without its message
	if size := f.TextBytes + int64(f.Snapshots)*int64(line); size > forkCacheBytes-maxCommandBytes {
		t.Errorf("the list of a fork can have %d bytes, and its part is %d", size, forkCacheBytes)
	}
}

// TestManyEntries: the number of files is bounded, however small they are.
func TestManyEntries(t *testing.T) {
	u := newUser(t)
	u.must(u.write(createName, "a\n"))
	for i := range 3000 {
		from, to := "ab"[i%2:i%2+1], "ba"[i%2:i%2+1]
		_, err := u.find("info@" + from)
		must.OK(t, err)
		u.must(u.tree.Rename(u.dir, from, u.dir, to, 0, requestOf(u.who)))
	}
	if n := len(u.tree.cache.mu.nodes); n > maxTenantNodes {
		t.Errorf("%d files are kept", n)
	}
	u.accounts()
}

// TestAllTenants: when all tenants together have too many bytes, files of the largest tenant are removed.
func TestAllTenants(t *testing.T) {
	u := newUser(t)
	u.tree.cache.limits.totalBytes = 5 << 20
	u.bigDiffs(4, 1<<20)
	for i := range 4 {
		u.read(fmt.Sprintf("diff@v%d", i))
	}
	_, err := u.tree.Mkdir(forksID(live.MainView), "f", requestOf(u.who))
	u.must(err)
	fork, err := u.tree.store.Main().Forks().Named("f")
	u.must(err)
	inMain := u.dir
	u.dir = snapshotsID(fork.View())
	for i := range 4 {
		u.must(u.write("call.x", fmt.Sprintf(`{"op":"snapshot","name":"n%d"}`, i)))
		w := u.tree.cache.newContentWriter(fork)
		_, err = w.Write(make([]byte, 1<<20))
		must.OK(t, err)
		u.tree.cache.publish(fork, fmt.Sprintf("info@n%d", i), typeFile|0o444, w, source{})
		u.accounts()
	}
	if main, f := u.tree.cache.tenant(u.tree.store.Main()), u.tree.cache.tenant(fork); main.chargedBytes > 3<<20 || f.chargedBytes < 2<<20 {
		t.Errorf("main has %d bytes, the fork %d", main.chargedBytes, f.chargedBytes)
	}
	u.must(u.tree.Rmdir(forksID(live.MainView), "f", requestOf(u.who)))
	u.dir = inMain
	_, err = u.tree.Mkdir(forksID(live.MainView), "g", requestOf(u.who))
	u.must(err)
	g, err := u.tree.store.Main().Forks().Named("g")
	u.must(err)
	u.tree.cache.tenant(g)
	for _, n := range u.tree.cache.mu.nodes {
		if n.core().dir.ws == fork {
			t.Errorf("%s of a fork that has ended is kept", n.core().key.name)
		}
	}
	u.accounts()
}

// TestSpellingsOfDiffs: all spellings of the names of two snapshots lead to one file.
func TestSpellingsOfDiffs(t *testing.T) {
	u := newUser(t)
	u.must(u.write(createName, "v1\n"))
	u.must(u.write(createName, "v2\n"))
	info, err := u.tree.store.Main().Snapshots().WaitSealed(context.Background(), "v2")
	u.must(err)
	a, err := u.lookup("diff@v1..v2")
	u.must(err)
	spellings := []string{"diff@cp-1..v2", "diff@v1..latest", "diff@cp-1..cp-2"}
	for n := 8; n <= len(info.ID); n++ {
		spellings = append(spellings, "diff@v1.."+info.ID[:n])
	}
	for _, name := range spellings {
		l, err := u.lookup(name)
		u.must(err)
		if to, err := u.tree.Readlink(l.ID); err != nil || to != "diff@v1..v2" || l.Mode&typeLink != typeLink {
			t.Errorf("%s leads to %q, %v", name, to, err)
		}
	}
	if b, err := u.lookup("diff@v1..v2"); err != nil || b.ID != a.ID {
		t.Errorf("it was made again, %v", err)
	}
	if l, err := u.lookup("info@latest"); err != nil || l.Mode&typeLink != typeLink {
		t.Errorf("info@latest: %o, %v", l.Mode, err)
	}
}

// TestRenderingsAtATime: a few renderings run, a limited number waits, and further requests fail.
func TestRenderingsAtATime(t *testing.T) {
	u := newUser(t)
	const count = 2 * (maxRenderings + maxWaitingRequests)
	for i := range count {
		u.must(u.write(createName, fmt.Sprintf("v%d\n", i)))
	}
	limit := u.tree.cache.tenant(u.tree.store.Main()).renderings
	for range maxRenderings { // as if so many ran
		u.must(limit.acquire(context.Background()))
	}
	results := make(chan error, count)
	for i := range count {
		go func() {
			_, err := u.find(fmt.Sprintf("diff@v%d", i))
			results <- err
		}()
	}
	for range count - maxWaitingRequests {
		if err := <-results; !errors.Is(err, errs.Quota) {
			t.Errorf("one too many: %v", err)
		}
	}
	for range maxRenderings {
		limit.release()
	}
	for range maxWaitingRequests {
		if err := <-results; err != nil {
			t.Errorf("one that waited: %v", err)
		}
	}
	u.accounts()
}

// TestOneRendering: requests for a file that is being rendered wait for this rendering.
func TestOneRendering(t *testing.T) {
	u := newUser(t)
	u.must(u.write(createName, "v1\n"))
	limit := u.tree.cache.tenant(u.tree.store.Main()).renderings
	for range maxRenderings {
		u.must(limit.acquire(context.Background()))
	}
	ids := make(chan live.NodeID, 20)
	for range cap(ids) {
		go func() {
			e, err := u.find("diff@v1")
			if err != nil {
				t.Error(err)
			}
			ids <- e.Attr.ID
		}()
	}
	await.True(t, "one rendering waits, and all others for that", func() bool {
		return u.tree.cache.tenant(u.tree.store.Main()).waiting.Load() >= int64(cap(ids)-1) && limit.waiting.Load() == 1
	})
	for range maxRenderings {
		limit.release()
	}
	first := <-ids
	for range cap(ids) - 1 {
		if id := <-ids; id != first {
			t.Errorf("%x and %x show the same", id, first)
		}
	}
}

// TestRenderingDir: no file can be created in the directory in which files are rendered, and only such files are found
// in it.
func TestRenderingDir(t *testing.T) {
	u := newUser(t)
	e, err := u.tree.Lookup(u.dir, renderingDir, requestOf(u.who))
	u.must(err)
	if a, err := u.tree.GetAttr(e.Attr.ID); err != nil || a.Mode&unix.S_IFMT != unix.S_IFDIR {
		t.Errorf("it is %o, %v", a.Mode, err)
	}
	for _, name := range []string{createName, latestName, "v1", renderingDir} {
		if _, err := u.tree.Lookup(e.Attr.ID, name, requestOf(u.who)); !errors.Is(err, errs.NotExist) {
			t.Errorf("%s in it: %v", name, err)
		}
	}
	_, made := u.tree.Mkdir(e.Attr.ID, "v1", requestOf(u.who))
	_, created := u.tree.Create(e.Attr.ID, "call.1", 0o600, u.who)
	for _, err := range []error{made, created} {
		if !errors.Is(err, errs.Perm) {
			t.Errorf("made in it: %v", err)
		}
	}
}

// TestListIsRenderedOnce: the list is not rendered again while no snapshot changes, nor for changes of other
// workspaces.
func TestListIsRenderedOnce(t *testing.T) {
	u := newUser(t)
	u.must(u.write(createName, "v1\n"))
	u.read("list")
	limit := u.tree.cache.tenant(u.tree.store.Main()).renderings
	for range maxRenderings {
		u.must(limit.acquire(context.Background()))
	}
	u.read("list") // would wait forever
	for range maxRenderings {
		limit.release()
	}
	u.must(u.write(createName, "v2\n"))
	u.result("list", "v2")
}

func TestCall(t *testing.T) {
	u := newUser(t)
	u.must(u.write(createName, "v1\n"))
	u.must(u.write(callName, `{"op":"show","name":"v1"}`+"\n"))
	u.result(callName, `{"ok":true,"result":{"name":"v1",`)
	if err := u.write(callName, `{"op":"show","name":"v2"}`); !errors.Is(err, errs.NotExist) {
		t.Errorf("a request that fails: %v", err)
	}
	u.result(callName, `"kind":"not-found"`)
	show := func(name string) string { return fmt.Sprintf(`{"op":"snapshot","name":%q}`, name) }
	u.must(u.write("call.mine", show("a")))
	u.result("call.mine", `"name":"a"`)
	u.must(u.write("call.tmp.7", show("b")))
	u.must(u.tree.Rename(u.dir, "call.tmp.7", u.dir, callName, 0, requestOf(u.who)))
	u.result(callName, `"name":"b"`)
	if _, err := u.lookup("call.tmp.7"); err == nil {
		t.Error("a file that was renamed is still there")
	}
	u.must(u.write(".call.swp", show("c")))
	u.must(u.tree.Rename(u.dir, ".call.swp", u.dir, callName, 0, requestOf(u.who)))
	u.result(callName, `"name":"c"`)
	u.must(u.tree.Unlink(u.dir, "call.mine", Request{}))
	if _, err := u.lookup("call.mine"); err == nil {
		t.Error("a file that was removed is still there")
	}
}

// TestCallStream: a short text is a part of the answer. A stream that is long, or not text, gets a file of its own.
func TestCallStream(t *testing.T) {
	u := newUser(t)
	u.must(u.write(createName, "v1\n"))
	for i, content := range []string{"short\n", "\xff\xfe no text\n", strings.Repeat("long\n", 20_000)} {
		inline := i == 0
		u.put("f", content)
		u.must(u.write("call.mine", `{"op":"diff","a":"v1"}`))
		answer := u.read("call.mine")
		if strings.Contains(answer, `"stream":true`) == inline || strings.Contains(answer, `"text":`) != inline {
			t.Errorf("the answer is %.200q", answer)
		}
		if inline {
			continue
		}
		if got := u.read("call.mine.stream"); !strings.Contains(got, "+"+content[:5]) {
			t.Errorf("the stream is %.200q", got)
		}
	}
	u.must(u.tree.Unlink(u.dir, "call.mine", Request{}))
	if _, err := u.lookup("call.mine.stream"); !errors.Is(err, errs.NotExist) {
		t.Errorf("the stream of an answer that was removed: %v", err)
	}
}

func TestCreateInJSON(t *testing.T) {
	u := newUser(t)
	u.must(u.write(createName, `{"name":"v1","message":"two words","labels":{"k":"v"},"expires":"24h"}`+"\n"))
	info, err := u.tree.store.Main().Find("v1")
	if err != nil || info.Message != "two words" || info.Labels["k"] != "v" || info.Expires == nil {
		t.Errorf("%+v, %v", info, err)
	}
	for _, bad := range []string{`{"name":"v2","nome":"x"}`, `{"name":`, `{"name":7}`} {
		if err := u.write(createName, bad+"\n"); !errors.Is(err, errs.Invalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestAnswersOfOthers: the answer to a command is shown to its user and to the owner.
func TestAnswersOfOthers(t *testing.T) {
	u := newUser(t)
	owner := u.who
	other, third := actors.Caller{UID: 4321}, actors.Caller{UID: 4322}
	u.must(u.write(createName, "mine\n"))
	u.who = other
	if got := u.read(createName); got != "" {
		t.Errorf("another user reads %q", got)
	}
	u.must(u.write(createName, "theirs\n"))
	u.result(createName, `"name":"theirs"`)
	u.must(u.write("call.secret", `{"op":"list"}`))
	if a, err := u.lookup("call.secret"); err != nil || a.UID != other.UID || a.Mode != typeFile|0o600 {
		t.Errorf("call.secret: %o of %d, %v", a.Mode, a.UID, err)
	}
	u.who = third
	if got := u.read(createName); got != "" {
		t.Errorf("a third user reads %q", got)
	}
	u.who = owner
	u.result(createName, `"name":"theirs"`)
	u.must(u.write(createName, "last\n"))
	u.who = other
	u.result(createName, `"name":"theirs"`)
}

// TestAnswerAfterUnlink: the answer of a call file without a name is removed with the file.
func TestAnswerAfterUnlink(t *testing.T) {
	u := newUser(t)
	u.put("f", strings.Repeat("a line\n", 20_000))
	u.read("status")
	before := len(u.tree.cache.mu.nodes)
	for range 10 {
		e, err := u.tree.Create(u.dir, "call.x", 0o644, u.who)
		u.must(err)
		u.must(u.tree.Unlink(u.dir, "call.x", Request{}))
		_, err = u.tree.Write(e.Attr.ID, []byte(`{"op":"diff","a":"base"}`), 0, requestOf(u.who))
		must.OK(t, err)
		a, err := u.tree.GetAttr(e.Attr.ID)
		if err != nil || a.Size == 0 {
			t.Errorf("the answer has %d bytes, %v", a.Size, err)
		}
		u.tree.Forget(e.Attr.ID, 1)
	}
	if n := len(u.tree.cache.mu.nodes); n != before {
		t.Errorf("%d files are kept, %d before", n, before)
	}
	u.accounts()
}

// TestRequestInPieces: JSON may be written in several pieces, and the pieces of several programs are not mixed.
func TestRequestInPieces(t *testing.T) {
	u := newUser(t)
	request := `{"op":"snapshot","message":"` + strings.Repeat("x", 9<<10) + `"}`
	e, err := u.tree.Lookup(u.dir, callName, Request{}) // and held from now on
	u.must(err)
	a := e.Attr
	one, two := actors.Caller{UID: 1, PID: 1}, actors.Caller{UID: 2, PID: 2}
	write := func(who actors.Caller, text string) {
		t.Helper()
		_, err := u.tree.Write(a.ID, []byte(text), 0, requestOf(who))
		must.OK(t, err)
	}
	write(one, request[:4096])
	write(two, `{"op":"fork`)
	write(one, request[4096:8192])
	if got := u.read(callName); got != "" {
		t.Errorf("half a request was answered: %q", got)
	}
	write(two, `s"}`)
	u.result(callName, `"forks":`)
	write(one, request[8192:])
	u.result(callName, request[19:8000])
	write(one, `{"op":`)
	_, err = u.tree.SetAttr(a.ID, live.SetAttr{Size: new(int64)}, two)
	u.must(err)
	write(one, `"forks"}`)
	u.result(callName, `"forks":`)
	write(one, `{"op":`)
	_, err = u.tree.SetAttr(a.ID, live.SetAttr{Size: new(int64)}, one)
	u.must(err)
	write(one, `{"op":"policy"}`)
	u.result(callName, `"keep"`)
}

// TestLinesOfTwo: half a line of one user and a line of another make two commands.
func TestLinesOfTwo(t *testing.T) {
	u := newUser(t)
	e, err := u.tree.Lookup(u.dir, createName, Request{})
	u.must(err)
	a := e.Attr
	half := "mine " + strings.Repeat("a", 1019)
	_, err = u.tree.Write(a.ID, []byte(half), 0, requestOf(actors.Caller{UID: 1, PID: 1}))
	must.OK(t, err)
	_, err = u.tree.Write(a.ID, []byte("theirs\n"), 0, requestOf(actors.Caller{UID: 2, PID: 2}))
	must.OK(t, err)
	if info, err := u.tree.store.Main().Find("theirs"); err != nil || info.UID != 2 {
		t.Errorf("the whole line: %+v, %v", info, err)
	}
	if _, err := u.tree.store.Main().Find("mine"); err == nil {
		t.Error("half a line was taken for a whole one")
	}
}

// TestStickyBit: .snapshots has the mode of the workspace's root with its sticky bit. So a user who may not remove files
// of other users from the root may not remove snapshots either.
func TestStickyBit(t *testing.T) {
	u := newUser(t)
	mode := uint32(0o1777)
	root := u.tree.store.Main().Root()
	_, err := u.tree.store.Forest().SetAttr(root, live.SetAttr{Mode: &mode})
	u.must(err)
	if a, err := u.tree.GetAttr(u.dir); err != nil || a.Mode&0o7777 != mode {
		t.Errorf("the mode of .snapshots is %o, %v", a.Mode, err)
	}
}

// TestScratchFiles: the number of scratch files that programs leave in .snapshots is bounded, and the newest are kept.
func TestScratchFiles(t *testing.T) {
	u := newUser(t)
	const count = 2 * maxTenantNodes
	for i := range count {
		u.must(u.write(fmt.Sprintf("create.tmp.%d", i), fmt.Sprintln(i)))
	}
	name := func(back int) string { return fmt.Sprintf("create.tmp.%d", count-back) }
	if got := u.read(name(1)); got != fmt.Sprintln(count-1) {
		t.Errorf("the newest has %q", got)
	}
	if _, err := u.lookup("create.tmp.1"); err == nil {
		t.Error("the oldest is still there")
	}
	u.must(u.tree.Unlink(u.dir, name(2), Request{}))
	u.must(u.tree.Rename(u.dir, name(3), u.dir, createName, unix.RENAME_NOREPLACE, requestOf(u.who)))
	u.result(createName, fmt.Sprintf(`"name":"%d"`, count-3))
	u.must(u.tree.Rename(u.dir, name(4), u.dir, "create.tmp.x", 0, requestOf(u.who)))
	if got := u.read("create.tmp.x"); got != fmt.Sprintln(count-4) {
		t.Errorf("a scratch file that was renamed has %q", got)
	}
	if n := len(u.tree.cache.mu.nodes); n > maxTenantNodes {
		t.Errorf("%d files are kept", n)
	}
	u.accounts()
	for name, mode := range map[string]uint32{"notes": 0o644, "list.tmp": 0o644, "create.pipe": unix.S_IFIFO} {
		if _, err := u.tree.Create(u.dir, name, mode, u.who); !errors.Is(err, errs.Perm) {
			t.Errorf("creating %s: %v", name, err)
		}
	}
}

// TestLogGrows: the log keeps its node while it grows, and the page with its old end is dropped.
func TestLogGrows(t *testing.T) {
	u := newUser(t)
	record := func(path string) {
		u.tree.commands.service.Events.Record(events.Event{Action: events.Created, Path: path})
		u.must(u.tree.commands.service.Events.Flush())
	}
	record("one")
	a, err := u.lookup("log")
	u.must(err)
	record("two")
	b, err := u.tree.GetAttr(a.ID)
	if err != nil || b.Size <= a.Size || !slices.Equal(u.tails, []live.NodeID{a.ID}) {
		t.Errorf("%d bytes, %x dropped, %v", b.Size, u.tails, err)
	}
	if got := u.read("log"); strings.Count(got, "\n") != 2 || u.dirs[live.Entry{Parent: u.dir, Name: "log"}] != a.ID {
		t.Errorf("the log says %q", got)
	}
}

// TestStatusStays: the status has no counters that change by themselves, so its file stays the same.
func TestStatusStays(t *testing.T) {
	u := newUser(t)
	if got := u.read("status"); strings.Contains(got, "requests") || !strings.Contains(got, `"workspace":"main"`) {
		t.Errorf("status says %q", got)
	}
}

// TestDiffIsTheOwners: a user who may not read a diff cannot look up its size either.
func TestDiffIsTheOwners(t *testing.T) {
	u := newUser(t)
	u.must(u.write(createName, "v1\n"))
	u.put("f", "secret\n")
	if _, err := u.lookup("diff@v1"); err != nil {
		t.Error(err)
	}
	u.who.UID = 4321
	for _, name := range []string{"diff@v1", "stat@v1"} {
		if a, err := u.lookup(name); errs.ScriptKind(err) != errs.Perm {
			t.Errorf("%s of a stranger: %d bytes, %v", name, a.Size, err)
		}
	}
	if _, err := u.lookup("info@v1"); err != nil {
		t.Error(err)
	}
}

// TestAnswerBehindRequest: a program that continues to read from the descriptor to which it wrote a request gets the
// whole answer, also if the request failed.
func TestAnswerBehindRequest(t *testing.T) {
	u := newUser(t)
	for _, name := range []string{callName, "call.mine"} {
		u.must(u.write(name, `{"op":"list"}`+"\n"))
		a, err := u.lookup(name)
		u.must(err)
		at := int64(0)
		for _, request := range []string{`{"op":"snapshot","name":"s` + name + `"}`, `{"op":"list"}`, `{"op":"show","name":"none"}`} {
			n, err := u.tree.Write(a.ID, []byte(request), at, requestOf(u.who))
			if failed := request[7:11] == "show"; failed != (err != nil) {
				t.Fatalf("%s: %v", request, err)
			}
			begin := at + int64(n)
			now, err := u.tree.GetAttr(a.ID)
			u.must(err)
			answer := make([]byte, now.Size-begin)
			if n, err := u.tree.ReadAt(a.ID, answer, begin); err != nil || n != len(answer) || !json.Valid(answer) {
				t.Errorf("%s: behind %s is %.200q, %d bytes of %d: %v", name, request, answer, n, len(answer), err)
			}
			all := make([]byte, now.Size+10)
			if n, err := u.tree.ReadAt(a.ID, all, 0); err != nil || string(all[:n]) != strings.Repeat(" ", int(begin))+string(answer) {
				t.Errorf("%s: all of the file is %.200q: %v", name, all[:n], err)
			}
			at = now.Size
		}
	}
}

// TestResentWithLostFiles: private files end with the daemon. A request about such a file that the kernel sends again
// fails only if a command was lost.
func TestResentWithLostFiles(t *testing.T) {
	u := newUser(t)
	again := requestOf(u.who)
	again.Resent = true
	for _, name := range []string{"call.x", "create.tmp.x"} {
		u.must(u.tree.Unlink(u.dir, name, again))
		u.must(u.tree.Rename(u.dir, name, u.dir, name+"y", 0, again))
		if err := u.tree.Unlink(u.dir, name, requestOf(u.who)); !errors.Is(err, errs.NotExist) {
			t.Errorf("%s is removed though it is not there: %v", name, err)
		}
		if err := u.tree.Rename(u.dir, name, u.dir, createName, 0, again); !errors.Is(err, unix.EIO) {
			t.Errorf("a command that was lost with %s: %v", name, err)
		}
	}
	if _, err := u.tree.Create(u.dir, "call.x", 0o600, u.who); err != nil {
		t.Error(err)
	}
}
