package threeway

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// TestMergeAttrs: each attribute is merged alone.
func TestMergeAttrs(t *testing.T) {
	attr := func(mode, uid, gid uint32, xattrs ...string) *tree.Inode {
		n := &tree.Inode{Mode: unix.S_IFREG | mode, UID: uid, GID: gid}
		for i := 0; i < len(xattrs); i += 2 {
			n.SetXattr(xattrs[i], []byte(xattrs[i+1]))
		}
		return n
	}
	base := attr(0o644, 1, 1, "user.x", "1")
	for what, test := range map[string]struct {
		ours, theirs, want *tree.Inode
		ok                 bool
	}{
		"nothing":               {base, base, base, true},
		"owner and group":       {attr(0o644, 2, 1, "user.x", "1"), attr(0o644, 1, 2, "user.x", "1"), attr(0o644, 2, 2, "user.x", "1"), true},
		"two names":             {attr(0o644, 1, 1, "user.x", "1", "user.a", "a"), attr(0o644, 1, 1, "user.x", "1", "user.b", "b"), attr(0o644, 1, 1, "user.x", "1", "user.a", "a", "user.b", "b"), true},
		"one removed, one made": {attr(0o644, 1, 1, "user.a", "", "user.x", "1"), attr(0o644, 1, 1), attr(0o644, 1, 1, "user.a", ""), true},
		"empty is a value":      {base, attr(0o644, 1, 1, "user.x", ""), attr(0o644, 1, 1, "user.x", ""), true},
		"alike":                 {attr(0o600, 1, 1), attr(0o600, 1, 1), attr(0o600, 1, 1), true},
		"two modes":             {attr(0o600, 1, 1, "user.x", "1"), attr(0o640, 1, 7, "user.x", "1"), attr(0o600, 1, 7, "user.x", "1"), false},
		"two values":            {attr(0o644, 1, 1, "user.x", "2"), attr(0o755, 1, 1, "user.x", "3"), attr(0o755, 1, 1, "user.x", "2"), false},
	} {
		got, changed, ok := MergeAttrs(base, test.ours, test.theirs, RefuseConflicts)
		if ok != test.ok || got.Mode != test.want.Mode || got.UID != test.want.UID || got.GID != test.want.GID || !tree.SameXattrs(&got, test.want) {
			t.Errorf("%s: %+v, ok %v", what, got, ok)
		}
		if _, again, _ := MergeAttrs(test.ours, &got, test.ours, RefuseConflicts); again {
			t.Errorf("%s: a merge without changes changes", what)
		}
		same := got.Mode == test.ours.Mode && got.UID == test.ours.UID && got.GID == test.ours.GID && tree.SameXattrs(&got, test.ours)
		if changed == same {
			t.Errorf("%s: changed %v", what, changed)
		}
		forced, _, _ := MergeAttrs(base, test.ours, test.theirs, TakeTheirs)
		if !test.ok && forced.Mode != test.theirs.Mode && !tree.SameXattrs(&forced, test.theirs) {
			t.Errorf("%s: forced to %+v", what, forced)
		}
	}
}

// TestMergeFile: data and attributes are merged apart, and the data of a side that did not change them
// are not compared.
func TestMergeFile(t *testing.T) {
	link := func(mode uint32, target string) *tree.Inode {
		return &tree.Inode{Mode: unix.S_IFLNK | mode, Target: target}
	}
	same := func(x, y *tree.Inode) (bool, error) { return x.Target == y.Target, nil }
	m, err := MergeFile(link(0o7, "a"), link(0o6, "a"), link(0o7, "b"), same)
	if err != nil || !m.DataTaken || !m.OK || m.Node.Target != "b" || m.Node.Mode != unix.S_IFLNK|0o6 {
		t.Errorf("theirs changed the data, ours the mode: %+v, %v", m, err)
	}
	m, err = MergeFile(link(0o7, "a"), link(0o7, "b"), link(0o6, "a"), same)
	if err != nil || m.DataTaken || !m.Changed || m.Node.Target != "b" || m.Node.Mode != unix.S_IFLNK|0o6 {
		t.Errorf("ours changed the data, theirs the mode: %+v, %v", m, err)
	}
	m, err = MergeFile(link(0o7, "a"), link(0o7, "b"), link(0o7, "c"), same)
	if err != nil || m.OK || !m.NeedsLineMerge {
		t.Errorf("two links: %+v, %v", m, err)
	}
	if m, err = MergeFile(link(0o7, "a"), link(0o7, "b"), link(0o7, "b"), same); err != nil || !m.OK || m.Changed || m.NeedsLineMerge {
		t.Errorf("alike: %+v, %v", m, err)
	}
	calls := 0
	_, err = MergeFile(link(0o7, "a"), link(0o7, "b"), link(0o7, "a"), func(x, y *tree.Inode) (bool, error) {
		if calls++; calls > 1 {
			return false, errors.New("compared")
		}
		return same(x, y)
	})
	if err != nil {
		t.Error(err)
	}
}
