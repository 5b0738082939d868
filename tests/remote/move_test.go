package remote_test

import (
	"os"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// A node is a mount with the remote "team", to which its forks may push.
type node struct {
	*harness.Mount
	t *testing.T
}

func newNode(t *testing.T, url string) node {
	t.Helper()
	ownCache(t)
	n := node{harness.New(t), t}
	n.Amberfs("remote", "add", "team", url)
	must.OK(t, os.WriteFile(n.Path(".snapshots", "policy"), []byte(`{"push":{"remote":"team","only":"manual"}}`), 0))
	return n
}

// claims claims the label box from a snapshot on the remote, and compares how it was found.
func (n node) claims(from, tier string) {
	n.t.Helper()
	if out := n.Amberfs("claim", "box", "--from", "team@"+from); !strings.HasSuffix(strings.TrimSpace(out), tier) {
		n.t.Errorf("claim box --from team@%s: %s; want %s", from, out, tier)
	}
}

// suspends does what docs/tutorials/sandboxes.md says.
func (n node) suspends() {
	n.t.Helper()
	must.OK(n.t, os.WriteFile(n.Path(".forks/box/.snapshots/create"), []byte("\n"), 0))
	must.OK(n.t, os.WriteFile(n.Path(".forks/box/.snapshots/call"), []byte(`{"op": "push", "snapshots": ["latest"], "as": "asleep"}`+"\n"), 0))
}

func (n node) has(want string) {
	n.t.Helper()
	if got, err := os.ReadFile(n.Path(".forks/box/log")); string(got) != want {
		n.t.Errorf("the workspace has %q, %v; want %q", got, err, want)
	}
}

// TestMoves: a workspace that moves between two nodes under one name has its newest state on each.
func TestMoves(t *testing.T) {
	url := "file://" + t.TempDir()
	a, b := newNode(t, url), newNode(t, url)
	a.Amberfs("snapshot", "start")
	a.Amberfs("push", "team", "start")
	a.claims("start", "fresh")
	write(t, a.Path(".forks/box/log"), "a")
	a.suspends()
	a.claims("box.asleep", "resumed")
	b.claims("box.asleep", "fresh")
	b.has("a")
	write(t, b.Path(".forks/box/log"), "ab")
	b.suspends()

	a.claims("start", "resumed") // what forks begin with is no later state
	a.has("a")
	a.claims("box.asleep", "newer")
	a.has("ab")
	a.claims("box.asleep", "resumed")
	write(t, a.Path(".forks/box/log"), "aba")
	a.claims("box.asleep", "resumed")
	a.suspends()

	// A fork that has ended on b, in the state that it had sent.
	b.Amberfs("fork", "--delete", "box")
	b.claims("box.asleep", "newer")
	b.has("aba")
	write(t, b.Path(".forks/box/log"), "abab")
	b.suspends()
	write(t, a.Path(".forks/box/other"), "changed here")
	for _, ended := range []bool{false, true} {
		if ended {
			a.Amberfs("fork", "--delete", "box")
		}
		out, err := a.TryAmberfs("claim", "box", "--from", "team@box.asleep")
		if err == nil || !strings.Contains(out, "was changed here") {
			t.Errorf("both went on: %v, %s", err, out)
		}
	}
	a.Amberfs("claim", "box")
	a.has("aba")
	if list := a.Amberfs("remote", "snapshots", "team"); strings.Count(list, "box.asleep") != 4 {
		t.Errorf("four states were sent under one name, and the remote has\n%s", list)
	}

	// A name that another fork has is not replaced.
	a.Amberfs("claim", "other")
	write(t, a.Path(".forks/other/f"), "x")
	a.Amberfs("-C", a.Path(".forks/other"), "snapshot", "mine")
	if out, err := a.TryAmberfs("-C", a.Path(".forks/other"), "push", "team", "mine", "--as", "box.asleep"); err == nil {
		t.Errorf("a name of another fork is replaced: %s", out)
	}
}
