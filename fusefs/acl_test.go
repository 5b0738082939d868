package fusefs

import (
	"bytes"
	"errors"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
)

const noID = 0xffffffff

func TestACL(t *testing.T) {
	plain := []aclEntry{{aclUserObj, 6, noID}, {aclGroupObj, 4, noID}, {aclOther, 0, noID}}
	named := []aclEntry{
		{aclUserObj, 7, noID}, {aclUser, 7, 1000}, {aclGroupObj, 5, noID}, {aclMask, 7, noID}, {aclOther, 5, noID},
	}
	if got := modeOf(plain); got != 0o640 {
		t.Errorf("mode of the plain list: %o", got)
	}
	if got := modeOf(named); got != 0o775 {
		t.Errorf("the group's bits are the mask's: %o", got)
	}
	if exceedsMode(plain) {
		t.Error("the plain list is more than a mode")
	}
	if !exceedsMode(named) {
		t.Error("the named list is no more than a mode")
	}
	back, err := parseACL(encodeACL(named))
	if err != nil || len(back) != len(named) || back[1] != named[1] {
		t.Errorf("a list comes back as %v, %v", back, err)
	}
	// open(…, 0640) in a directory with this default list: acl(5), "Object
	// creation and default ACLs".
	if got := intersectACL(named, 0o640); got != 0o640 {
		t.Errorf("mode of the new file: %o", got)
	}
	if named[0].Perm != 6 || named[2].Perm != 5 || named[3].Perm != 4 || named[4].Perm != 0 {
		t.Errorf("list of the new file: %v", named)
	}
	for _, bad := range [][]byte{nil, {2, 0, 0, 0, 1}, {1, 0, 0, 0}} {
		if _, err := parseACL(bad); !errors.Is(err, errs.Invalid) {
			t.Errorf("parseACL(% x): %v", bad, err)
		}
	}
}

// FuzzACL: an access control list that is read is written in the same bytes.
func FuzzACL(f *testing.F) {
	f.Add([]byte{2, 0, 0, 0, 1, 0, 7, 0, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		acl, err := parseACL(b)
		if err != nil {
			return
		}
		if again := encodeACL(acl); !bytes.Equal(again, b) {
			t.Errorf("%x becomes %x", b, again)
		}
		if mode := modeOf(acl); mode > 0o777 {
			t.Errorf("%x has the mode %o", b, mode)
		}
	})
}
