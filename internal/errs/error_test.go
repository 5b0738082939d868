package errs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
)

func TestScriptKind(t *testing.T) {
	for _, c := range []struct {
		err  error
		want errs.Kind
	}{
		{nil, ""},
		{errors.New("x"), errs.Failed},
		{errs.Fail(errs.Busy, "in use"), errs.Busy},
		{fmt.Errorf("opening: %w", errs.Fail(errs.Damaged, "bad")), errs.Damaged},
		{fmt.Errorf("open: %w", fs.ErrNotExist), errs.NotExist},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EEXIST}, errs.Exist},
		{fmt.Errorf("write: %w", syscall.ENOSPC), errs.NoSpace},
		{fmt.Errorf("write: %w", syscall.EDQUOT), errs.NoSpace},
		{syscall.EBUSY, errs.Busy},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, errs.Perm},
		{syscall.EIO, errs.Failed},
	} {
		if got := errs.ScriptKind(c.err); got != c.want {
			t.Errorf("errs.ScriptKind(%v) = %q, want %q", c.err, got, c.want)
		}
	}
}

// TestExit compares the exit status of each kind. A conflict, which leaves everything unchanged, has its own exit
// status.
func TestExit(t *testing.T) {
	for i, k := range []errs.Kind{"", errs.Failed, errs.Invalid, errs.NotExist, errs.Exist, errs.Busy, errs.NoSpace, errs.Damaged, errs.Conflict, errs.Perm} {
		if k.ExitStatus() != i {
			t.Errorf("%s ends with %d, not %d", k, k.ExitStatus(), i)
		}
	}
}

func TestErrorText(t *testing.T) {
	e := errs.Fail(errs.Busy, "the store is in use: %w", syscall.EBUSY).WithHint("unmount %s", "/m")
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
		{errs.Fail(errs.Perm, "no"), errs.Perm},
		{fmt.Errorf("call: %w", errs.Fail(errs.Exist, "in use")), errs.Exist},
		{errs.Fail(errs.Invalid, "bad: %w", errs.New(errs.NameTooLong, "long")), errs.NameTooLong},
		{errs.Fail(errs.Failed, "x"), ""},
	} {
		if got := errs.KindOf(c.err); got != c.want {
			t.Errorf("errs.KindOf(%v) = %q, want %q", c.err, got, c.want)
		}
	}
}
