package fusefs

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/live"
)

// TestAccess: the permissions that user 1000 has for a file of another user are the permissions that the kernel grants.
func TestAccess(t *testing.T) {
	ids := &Ids{UID: 1000, GID: 1000, Groups: []uint32{44}}
	for _, c := range []struct {
		mode, gid uint32
		acl       []aclEntry
		want      uint32
	}{
		{0o754, 0, nil, 4},
		{0o754, 44, nil, 5},
		{0o705, 44, nil, 0}, // the group has less than the others
		{0o670, 1000, nil, 7},
		{0o660, 0, []aclEntry{{aclUser, 6, 1000}, {aclMask, 6, noID}}, 6},
		{0o640, 0, []aclEntry{{aclUser, 6, 1000}, {aclMask, 4, noID}}, 4},
		{0o664, 0, []aclEntry{{aclUser, 6, 1001}, {aclMask, 6, noID}}, 4},
		{0o676, 0, []aclEntry{{aclGroupObj, 7, noID}, {aclGroup, 5, 44}, {aclMask, 7, noID}}, 5},
		{0o676, 44, []aclEntry{{aclGroupObj, 2, noID}, {aclGroup, 4, 44}, {aclMask, 7, noID}}, 6},
		{0o606, 44, []aclEntry{{aclGroupObj, 7, noID}, {aclGroup, 7, 45}, {aclMask, 0, noID}}, 0},
	} {
		a := &live.Attr{Mode: unix.S_IFREG | c.mode, GID: c.gid}
		if got := ids.access(a, c.acl); got != c.want {
			t.Errorf("mode %o, group %d, %v: %o, want %o", c.mode, c.gid, c.acl, got, c.want)
		}
	}
}

// TestHiddenEntries: entries that cannot be shown stay when a list is replaced.
func TestHiddenEntries(t *testing.T) {
	ids := &Ids{UID: 1000, GID: 1000}
	stored := []aclEntry{{aclUserObj, 7, noID}, {aclUser, 7, 1002}, {aclGroupObj, 4, noID}, {aclGroup, 6, 44}, {aclMask, 7, noID}, {aclOther, 0, noID}}
	shown, err := parseACL(ids.shownACL(encodeACL(stored)))
	if want := []aclEntry{stored[0], stored[2], stored[4], stored[5]}; err != nil || !slices.Equal(shown, want) {
		t.Fatalf("shown: %v, %v, want %v", shown, err, want)
	}
	if got := ids.withHidden(shown, stored); !slices.Equal(got, stored) {
		t.Errorf("the same list again: %v, want %v", got, stored)
	}
	// setfacl -m u:1000:r computes the mask from what it sees.
	more := []aclEntry{{aclUserObj, 7, noID}, {aclUser, 4, 1000}, {aclGroupObj, 4, noID}, {aclMask, 4, noID}, {aclOther, 0, noID}}
	want := []aclEntry{more[0], more[1], stored[1], more[2], stored[3], stored[4], more[4]}
	if got := ids.withHidden(more, stored); !slices.Equal(got, want) {
		t.Errorf("one more entry: %v, want %v", got, want)
	}
	more[3].Perm = 5 // it was named
	if got := ids.withHidden(more, stored); got[5].Perm != 5 {
		t.Errorf("the mask that was named became %o", got[5].Perm)
	}
	minimal := []aclEntry{{aclUserObj, 7, noID}, {aclGroupObj, 4, noID}, {aclOther, 0, noID}}
	if got := ids.withHidden(minimal, stored); !slices.Equal(got, minimal) {
		t.Errorf("setfacl -b: %v", got)
	}
	var all *Ids
	if got := all.withHidden(more, stored); !slices.Equal(got, more) {
		t.Errorf("where all ids are shown: %v", got)
	}
}
