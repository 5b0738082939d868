package gitbridge

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/must"
)

// TestExchangedFiles: a file system whose times have ticks, or none of birth, gives two files the same
// times. The inode number distinguishes them.
func TestExchangedFiles(t *testing.T) {
	one := unix.Stat_t{Ino: 100, Ctim: unix.Timespec{Sec: 1_700_000_000}}
	other := one
	other.Ino = 101
	if changeTime(&one) == changeTime(&other) {
		t.Error("two inodes have the same time of change")
	}
	if changeTime(&one) != readTime(&one) {
		t.Error("a file that is old would be read again")
	}
	other.Ctim.Sec -= 2
	if other.Ino = one.Ino; changeTime(&one) == changeTime(&other) {
		t.Error("two times of an inode are the same")
	}
}

// TestIndexThatGitLookedAt: `git status` rewrites an index and changes nothing that a commit has.
func TestIndexThatGitLookedAt(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	index := func() []byte {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, ".git/index"))
		must.OK(t, err)
		return indexEntries(text)
	}
	for _, format := range []string{"sha1", "sha256"} {
		for _, version := range []string{"2", "3", "4"} {
			t.Run(format+" version "+version, func(t *testing.T) {
				must.OK(t, os.RemoveAll(filepath.Join(dir, ".git")))
				git("init", "-q", "--object-format="+format)
				must.OK(t, os.MkdirAll(filepath.Join(dir, "some/where"), 0o777))
				for _, name := range []string{"a", "some/b", "some/where/c", "some/where/long-name"} {
					must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o666))
				}
				git("add", ".")
				git("update-index", "--index-version", version)
				git("commit", "-qm", "1")
				if version == "3" {
					git("update-index", "--skip-worktree", "some/b")
				}
				was := index()
				if was == nil {
					t.Fatal("the index cannot be read")
				}
				must.OK(t, os.Chtimes(filepath.Join(dir, "a"), time.Unix(1_700_000_000, 0), time.Unix(1_700_000_000, 0)))
				git("update-index", "-q", "--refresh")
				if now := index(); string(now) != string(was) {
					t.Errorf("git looked at the files, and the index differs:\n%q\n%q", was, now)
				}
				for _, change := range [][]string{{"update-index", "--chmod=+x", "a"}, {"mv", "-f", "a", "z"}, {"update-index", "--assume-unchanged", "z"}, {"rm", "-q", "--cached", "-f", "some/where/c"}} {
					was = index()
					git(change...)
					if now := index(); now == nil || string(now) == string(was) {
						t.Errorf("after git %v, the index says the same", change)
					}
				}
			})
		}
	}
	if indexEntries([]byte("DIRC\x00\x00\x00\x02\xff\xff\xff\xff00000000000000000000")) != nil {
		t.Error("an index without its entries was read")
	}
}
