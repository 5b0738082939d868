package alike

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

// copying is what programs do that give a file the attributes of another one.
const copying = `umask 022
sed -i s/a/b/ group; sed -i s/a/b/ list; sed -i s/a/b/ shared/s; sed -i s/a/b/ root
cp -a group group-a; cp -p group group-p; cp group group-c; cp -a list list-a; cp -p list list-p
cp -a shared/s shared/s-a; cp -a own shared/own; cp -p own shared/own-p; cp own shared/own-c
cp root2 root-c; cp root2 root-c; cp -a root2 root-a; echo more >> root-a
cp -p set set-p; cp set set-c
chgrp 1001 shared/own-c`

// TestCopies: copies that an ordinary user makes of files of a second group, with lists, or of root,
// are those that they would be in the directory itself.
func TestCopies(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("root makes the directories of other users")
	}
	w := world{UID: 1001, GID: 1001, Second: 2002}
	base, err := os.MkdirTemp("", "copies-")
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, os.RemoveAll(base)) })
	must.OK(t, os.Chmod(base, 0o777))
	as := func(dir string, argv ...string) string {
		t.Helper()
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+base, "AMBERFS_RUNS="+filepath.Join(base, "runs"), "XDG_STATE_HOME="+filepath.Join(base, "state"), "XDG_RUNTIME_DIR="+base)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(w.UID), Gid: uint32(w.GID), Groups: []uint32{uint32(w.Second)}}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", argv, err, out)
		}
		return string(out)
	}
	const make = `echo a > group; chgrp 2002 group; echo a > list; setfacl -m g:2002:r,u:0:rw list; echo a > own
		mkdir shared; chgrp 2002 shared; chmod 2775 shared; echo a > shared/s; touch empty; chgrp 2002 empty
		mkdir old; chgrp 2002 old; mkdir lists; setfacl -d -m u:0:rx lists; touch -d 2020-01-01 old lists`
	got := map[string]string{}
	for _, name := range []string{"plain", "run"} {
		dir := filepath.Join(base, name)
		must.OK(t, os.Mkdir(dir, 0o755))
		must.OK(t, os.Chown(dir, w.UID, w.GID))
		as(dir, "sh", "-ec", make)
		for _, root := range []string{"root", "root2", "written", "set"} {
			must.OK(t, os.WriteFile(filepath.Join(dir, root), []byte("a\n"), 0o644))
		}
		must.OK(t, unix.Chmod(filepath.Join(dir, "set"), 0o6755))
		if name == "plain" {
			as(dir, "sh", "-ec", copying)
		} else {
			as(dir, harness.Binary(t), "run", "--from", ".", "--apply=yes", "--", "sh", "-ec", copying)
		}
		got[name] = as(dir, "sh", "-c", `for f in $(find . -type f | sort); do stat -c '%n %a %u %g' $f; cat $f; getfacl -cn $f; done`)
	}
	if got["plain"] != got["run"] {
		t.Errorf("the directory has\n%s\nand that of the run\n%s", got["plain"], got["run"])
	}

	t.Log("what cannot be known is named")
	dir := filepath.Join(base, "run")
	must.OK(t, os.Mkdir(filepath.Join(dir, "theirs"), 0o755))
	for _, name := range []string{"theirs", "written"} {
		must.OK(t, os.Chmod(filepath.Join(dir, name), 0o777))
	}
	out := as(dir, harness.Binary(t), "run", "--from", ".", "--apply=yes", "--", "sh", "-ec",
		"cp -a empty empty-a; cp -a lists lists-a; cp --preserve=mode root2 root-m; rm group; echo new > group; cp -a old old-a; mv theirs theirs2; mv written written2; echo b >> written2")
	for _, says := range []string{"empty-a: a copy of empty, without its group 2002", "group: a new file, without the group 2002 of the old one",
		"old-a: a copy of old, without its group 2002",
		"lists-a: a copy of lists, without its access control list", "root-m: a copy of root2, without its permission to write",
		"written2: another user's, which was renamed"} {
		if !strings.Contains(out, says) {
			t.Errorf("it does not say %q:\n%s", says, out)
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(dir, "theirs2"), &st); err != nil || st.Uid != 0 {
		t.Errorf("a directory that was renamed belongs to %d, %v", st.Uid, err)
	}
}
