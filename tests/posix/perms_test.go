package posix_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// as runs a line of sh as another user, one with no name and no groups, and
// returns what it printed.
func as(t *testing.T, uid uint32, dir, line string) (string, error) {
	t.Helper()
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// With allow_other the kernel checks owners and modes for all users.
func TestPermissionsOfOthers(t *testing.T) {
	needRoot(t)
	m := harness.New(t, "-o", "allow_other,suid,dev")
	must.OK(t, os.Chmod(m.Dir, 0o755))
	write(t, m.Path("public"), "public")
	write(t, m.Path("secret"), "secret")
	must.OK(t, os.Chmod(m.Path("secret"), 0o600))
	must.OK(t, os.Mkdir(m.Path("shared"), 0o755))
	must.OK(t, unix.Chmod(m.Path("shared"), 0o1777))
	write(t, m.Path("shared/roots"), "x")

	for _, c := range []struct{ line, want string }{
		{"cat public", ""},
		{"cat secret", "Permission denied"},
		{"echo x > public", "Permission denied"},
		{"echo x > new", "Permission denied"},
		{"chmod 777 public", "Operation not permitted"},
		{"chown 4242 public", "Operation not permitted"},
		{"echo mine > shared/mine", ""},
		{"rm -f shared/roots", "Operation not permitted"},
		{"mv shared/mine shared/mine2", ""},
		{"ln shared/mine2 shared/mine3", ""},
		{"touch -d 2020-01-01 public", "Permission denied|Operation not permitted"},
		{"mkdir .snapshots/v1", "Permission denied|Operation not permitted"},
		{"echo v1 > .snapshots/create", "Permission denied|Operation not permitted"},
		{"mv .snapshots/restore .snapshots/restore@base", "Permission denied|Operation not permitted"},
	} {
		out, err := as(t, 4242, m.Dir, c.line)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v: %s", c.line, err, out)
			}
			continue
		}
		denied := false
		for _, want := range strings.Split(c.want, "|") {
			denied = denied || strings.Contains(out, want)
		}
		if err == nil || !denied {
			t.Errorf("%s: %v: %s, want %s", c.line, err, out, c.want)
		}
	}
	if st := stat(t, m.Path("shared/mine2")); st.Uid != 4242 || st.Gid != 4242 {
		t.Errorf("owner %d:%d", st.Uid, st.Gid)
	}

	// A write by a process without CAP_FSETID takes suid and sgid away.
	tool := write(t, m.Path("shared/tool"), "#!/bin/sh\n")
	must.OK(t, os.Chown(tool, 4242, 4242))
	must.OK(t, unix.Chmod(tool, 0o6755))
	if out, err := as(t, 4242, m.Dir, "echo true >> shared/tool"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if mode := stat(t, tool).Mode & 0o7777; mode != 0o755 {
		t.Errorf("after a write the mode is %o", mode)
	}
	must.OK(t, unix.Chmod(tool, 0o6755))
	if out, err := as(t, 4242, m.Dir, "truncate -s 3 shared/tool"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if mode := stat(t, tool).Mode & 0o7777; mode != 0o755 {
		t.Errorf("after truncate the mode is %o", mode)
	}

	// Of a file that its group may not execute, set-group-ID goes when a process outside
	// of the group changes it, and stays when a member does, as on ext4.
	locked := write(t, m.Path("shared/locked"), "x")
	for _, c := range []struct {
		uid  uint32
		line string
		want uint32
	}{
		{4242, "echo y >> shared/locked", 0o666},
		{4242, "truncate -s 1 shared/locked", 0o666},
		{4242, ": > shared/locked", 0o666},
		{4243, "echo y >> shared/locked", 0o2666},
		{4243, "truncate -s 1 shared/locked", 0o2666},
	} {
		must.OK(t, os.Chown(locked, 0, 4243))
		must.OK(t, unix.Chmod(locked, 0o2666))
		if out, err := as(t, c.uid, m.Dir, c.line); err != nil {
			t.Fatalf("%s: %v: %s", c.line, err, out)
		}
		if mode := stat(t, locked).Mode & 0o7777; mode != c.want {
			t.Errorf("%s by %d: the mode is %o, want %o", c.line, c.uid, mode, c.want)
		}
	}

	// A device node is one, with -o dev.
	must.OK(t, unix.Mknod(m.Path("null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	must.OK(t, os.Chmod(m.Path("null"), 0o666))
	f, err := os.OpenFile(m.Path("null"), os.O_WRONLY, 0)
	must.OK(t, err)
	if _, err := f.WriteString("gone"); err != nil {
		t.Error(err)
	}
	f.Close()
}

// Without allow_other no other process gets in, root included unless it is root's.
func TestOthersStayOut(t *testing.T) {
	needRoot(t)
	m := harness.New(t)
	must.OK(t, os.Chmod(m.Dir, 0o777))
	out, err := as(t, 4242, filepath.Dir(m.Dir), "ls "+m.Dir)
	if err == nil || !strings.Contains(out, "Permission denied") {
		t.Errorf("%v: %s", err, out)
	}
}
