package live_test

import (
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/must"
)

const resent = 1 << 40 // the number of a request

// A changing is a request that changes something, and would not succeed twice.
type changing struct {
	name string
	do   func(s *snapshot.Store, f live.Writer, who actors.Caller) (live.NodeID, error)
}

// changes are the requests of which each is done in a directory with the files old, other
// and marked, which has an extended attribute, an empty directory, and a snapshot.
func changes(t *testing.T) []changing {
	root := live.Node(live.MainView, live.RootIno)
	node := func(f live.Writer, name string) live.NodeID {
		a, err := f.Lookup(root, name)
		if err != nil {
			panic(err)
		}
		return a.ID
	}
	create := func(mode uint32) func(*snapshot.Store, live.Writer, actors.Caller) (live.NodeID, error) {
		return func(_ *snapshot.Store, f live.Writer, _ actors.Caller) (live.NodeID, error) {
			a, err := f.Create(root, "new", live.NewNode{Mode: mode, Target: "to"})
			return a.ID, err
		}
	}
	nothing := func(do func(f live.Writer) error) func(*snapshot.Store, live.Writer, actors.Caller) (live.NodeID, error) {
		return func(_ *snapshot.Store, f live.Writer, _ actors.Caller) (live.NodeID, error) { return 0, do(f) }
	}
	rename := func(to string, flags uint32) func(f live.Writer) error {
		return func(f live.Writer) error {
			_, err := f.Rename(root, "old", root, to, flags, actors.Caller{})
			return err
		}
	}
	return []changing{
		{"create", create(unix.S_IFREG | 0o644)},
		{"mkdir", create(unix.S_IFDIR | 0o755)},
		{"symlink", create(unix.S_IFLNK | 0o777)},
		{"mknod", create(unix.S_IFIFO | 0o600)},
		{"tmpfile", func(_ *snapshot.Store, f live.Writer, _ actors.Caller) (live.NodeID, error) {
			a, err := f.Tmpfile(root, live.NewNode{Mode: unix.S_IFREG | 0o600})
			return a.ID, err
		}},
		{"link", func(_ *snapshot.Store, f live.Writer, _ actors.Caller) (live.NodeID, error) {
			a, err := f.Link(node(f, "old"), root, "new")
			return a.ID, err
		}},
		{"unlink", nothing(func(f live.Writer) error { _, err := f.Unlink(root, "old"); return err })},
		{"rmdir", nothing(func(f live.Writer) error { _, err := f.Rmdir(root, "empty"); return err })},
		{"rename", nothing(rename("new", 0))},
		{"replace", nothing(rename("other", 0))},
		{"exchange", nothing(rename("other", unix.RENAME_EXCHANGE))},
		{"whiteout", nothing(rename("new", unix.RENAME_WHITEOUT))},
		{"setxattr", nothing(func(f live.Writer) error {
			return f.SetXattr(node(f, "old"), "user.new", []byte("v"), unix.XATTR_CREATE, false)
		})},
		{"removexattr", nothing(func(f live.Writer) error { return f.RemoveXattr(node(f, "marked"), "user.x") })},
		{"snapshot", func(s *snapshot.Store, _ live.Writer, who actors.Caller) (live.NodeID, error) {
			_, err := s.Main().Capture(snapshot.CaptureOptions{Name: "new", Caller: who})
			return 0, err
		}},
		{"rename a snapshot", func(s *snapshot.Store, _ live.Writer, who actors.Caller) (live.NodeID, error) {
			return 0, s.Main().Snapshots().Rename("first", "new", who)
		}},
		{"remove a snapshot", func(s *snapshot.Store, _ live.Writer, who actors.Caller) (live.NodeID, error) {
			_, err := s.Main().Snapshots().DeleteAll([]string{"first"}, who)
			return 0, err
		}},
		{"restore", func(s *snapshot.Store, _ live.Writer, who actors.Caller) (live.NodeID, error) {
			r, err := s.Main().Restore(t.Context(), snapshot.RestoreOptions{Name: "first", Caller: who})
			if err == nil && r.Changed == 0 {
				err = errors.New("nothing was changed")
			}
			return 0, err
		}},
		{"fork", func(s *snapshot.Store, _ live.Writer, who actors.Caller) (live.NodeID, error) {
			_, err := s.Main().Forks().New(snapshot.ForkOptions{Name: "new", Caller: who})
			return 0, err
		}},
		{"end a fork", func(s *snapshot.Store, _ live.Writer, who actors.Caller) (live.NodeID, error) {
			_, err := s.Main().Forks().End("side", who)
			return 0, err
		}},
	}
}

// everything is all names of main, with what they lead to, and its snapshots and forks.
func everything(t *testing.T, y *system) (all []string) {
	t.Helper()
	seen, err := y.look(y.s.Main().Root())
	must.OK(t, err)
	for name, e := range seen.exact {
		all = append(all, name+": "+e)
	}
	for _, i := range y.s.Main().List() {
		all = append(all, "snapshot "+i.Name)
	}
	for _, name := range []string{"side", "new"} {
		if _, err := y.workspace(name); err == nil {
			all = append(all, "fork "+name)
		}
	}
	slices.Sort(all)
	return all
}

// takenOver is the next daemon if this one is killed now.
func (y *system) takenOver(t *testing.T) *system {
	t.Helper()
	k, err := y.killed(t, true)
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, k.close()) })
	return k
}

// TestCarriedOutOnce: whatever happens after a request was carried out, the next daemon finds
// out that it was, and with which node, as long as it is not answered; and one that was not
// carried out is not taken for done.
func TestCarriedOutOnce(t *testing.T) {
	y, err := newSystem(t)
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, y.close()) })
	must.OK(t, y.f.Takeover.Connect())
	root := y.s.Main().Root()
	for name, mode := range map[string]uint32{"old": unix.S_IFREG, "other": unix.S_IFREG, "marked": unix.S_IFREG, "empty": unix.S_IFDIR} {
		a, err := y.f.Create(root, name, live.NewNode{Mode: mode | 0o755})
		must.OK(t, err)
		if name == "marked" {
			must.OK(t, y.f.SetXattr(a.ID, "user.x", []byte("v"), 0, false))
		}
	}
	must.OK(t, y.capture("", "first", 0))
	_, err = y.f.Create(root, "later", live.NewNode{Mode: unix.S_IFREG | 0o644})
	must.OK(t, err)
	must.OK(t, y.fork("side", ""))
	for _, c := range changes(t) {
		t.Run(c.name, func(t *testing.T) { carriedOutOnce(t, y.takenOver(t), c) })
	}
}

func carriedOutOnce(t *testing.T, y *system, c changing) {
	if _, done := y.f.Takeover.WasCarriedOut(resent); done {
		t.Fatal("done before it was asked for")
	}
	want, err := c.do(y.s, y.f.ForRequest("", resent), actors.Caller{Request: resent})
	must.OK(t, err)
	after := everything(t, y)
	check := func(when string, y *system) {
		t.Helper()
		if answer, done := y.f.Takeover.WasCarriedOut(resent); !done || answer != want {
			t.Fatalf("%s: done %v with %x, want %x", when, done, answer, want)
		}
		if got := everything(t, y); !slices.Equal(got, after) {
			t.Fatalf("%s: there are\n%q, want\n%q", when, got, after)
		}
		if want != 0 {
			_, err := y.f.GetAttr(want)
			must.OK(t, err)
		}
	}
	answered := y.takenOver(t) // the kernel does not send the request again
	if in, err := answered.f.Takeover.Inherit(); err != nil || want != 0 && !in.Unanswered[want] {
		t.Errorf("the kernel may wait for %v (%v), not only for %x", in.Unanswered, err, want)
	}
	if known := answered.f.Takeover.SettleRequests(); want != 0 && !slices.Contains(known, want) {
		t.Errorf("the kernel has the answers about %v, and not about %x", known, want)
	}
	once := y.takenOver(t)
	check("killed", once)
	if known := once.f.Takeover.SettleRequests(); want != 0 && slices.Contains(known, want) {
		t.Errorf("the kernel waits for the answer about %x", want)
	}
	check("killed and settled", once)
	check("killed twice", once.takenOver(t))
	must.OK(t, once.checkpoint())
	twice := once.takenOver(t)
	check("killed twice, with a checkpoint in between", twice)
	must.OK(t, twice.checkpoint())
	must.OK(t, twice.checkpoint())
	last := twice.takenOver(t)
	check("after more checkpoints", last)

	last.f.Takeover.MarkAnswered(resent)
	last.f.Takeover.SettleRequests()
	must.OK(t, last.checkpoint())
	if _, done := last.takenOver(t).f.Takeover.WasCarriedOut(resent); done {
		t.Error("an answered request is kept")
	}
	must.OK(t, once.f.Takeover.Connect())
	for when, y := range map[string]*system{"after a new connection": once, "after a crash of that": once.takenOver(t)} {
		if _, done := y.f.Takeover.WasCarriedOut(resent); done {
			t.Errorf("done, %s", when)
		}
	}
	alone, err := y.killed(t, false)
	must.OK(t, err)
	if _, done := alone.f.Takeover.WasCarriedOut(resent); done {
		t.Error("done, though nobody took the connection over")
	}
	must.OK(t, alone.close())
}
