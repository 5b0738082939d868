package fail

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
)

func TestKindOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Kind
	}{
		{nil, ""},
		{errors.New("x"), Failed},
		{New(Busy, "in use"), Busy},
		{fmt.Errorf("opening: %w", New(Damage, "bad")), Damage},
		{fmt.Errorf("open: %w", fs.ErrNotExist), NotFound},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EEXIST}, Exists},
		{fmt.Errorf("write: %w", syscall.ENOSPC), NoSpace},
		{fmt.Errorf("write: %w", syscall.EDQUOT), NoSpace},
		{syscall.EBUSY, Busy},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, Denied},
		{syscall.EIO, Failed},
	} {
		if got := KindOf(c.err); got != c.want {
			t.Errorf("KindOf(%v) = %q, want %q", c.err, got, c.want)
		}
	}
}

// TestExit: scripts tell a conflict, of which nothing was touched, from what failed.
func TestExit(t *testing.T) {
	for i, k := range []Kind{"", Failed, Usage, NotFound, Exists, Busy, NoSpace, Damage, Conflict, Denied} {
		if k.Exit() != i {
			t.Errorf("%s ends with %d, not %d", k, k.Exit(), i)
		}
	}
}

func TestErrorText(t *testing.T) {
	e := New(Busy, "the store is in use: %w", syscall.EBUSY).WithHint("unmount %s", "/m")
	if got, want := e.Error(), "the store is in use: device or resource busy; unmount /m"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
	if !errors.Is(e, syscall.EBUSY) {
		t.Error("the cause is lost")
	}
}

func TestErrorHasAKindBelow(t *testing.T) {
	for _, c := range []struct {
		err  error
		want errs.Kind
	}{
		{New(Denied, "no"), errs.Perm},
		{fmt.Errorf("call: %w", New(Exists, "in use")), errs.Exist},
		{New(Usage, "bad: %w", errs.New(errs.NameTooLong, "long")), errs.NameTooLong},
		{New(Failed, "x"), ""},
	} {
		if got := errs.Of(c.err); got != c.want {
			t.Errorf("errs.Of(%v) = %q, want %q", c.err, got, c.want)
		}
	}
}
