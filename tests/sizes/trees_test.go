package sizes_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// A sample is a tree of the size of real work, and what a program does to it.
type sample struct {
	name   string
	make   func(t *testing.T, dir string)
	change string // a script for sh
	again  string // makes the same once more, for less; change if it is empty
	noText bool   // its diffs are not applied: they take seconds
	backup bool   // restic takes seconds of processor time for each repository
}

var samples = []sample{
	{name: "thousands of small files", make: smallFiles, backup: true, change: `
		for i in $(seq 0 49); do echo changed >>d$i/3; rm d$i/4; mv d$i/5 d$i/moved; done
		cp -r d1 copied; rm -r d2; chmod 700 d3`},
	{name: "three large files", make: largeFiles, noText: true, change: `
		dd if=/dev/zero of=0 bs=1000 seek=5000 count=10 conv=notrunc status=none
		head -c 20000000 1 >copied; rm 2; cat copied >>1`},
	{name: "hard links", make: hardLinks, change: `
		for i in $(seq 0 49); do echo changed >>d/$i; ln d/$i d/third-$i; done
		for i in $(seq 50 99); do rm d/$i; done
		for i in $(seq 100 149); do echo alone >e/new; mv e/new e/$i; done
		chmod 600 d/150`},
	{name: "a git worktree with commits", make: repository, noText: true, change: `
		for i in $(seq 5); do echo "$i" >>d1/1; echo "$i" >new$i; git add -A; git commit -qm "commit $i"; done
		git checkout -q -b topic HEAD~2; git rm -rq d2; git commit -qm topic
		git checkout -q trunk; git merge -q -m merge topic; git -c pack.threads=1 repack -adq; echo dirty >>d3/1; git stash -q; git status >/dev/null`},
	{name: "npm install express", make: packages, again: `cp -a "$AFTER"/. .`, change: `
		npm install --no-audit --no-fund --prefer-offline --loglevel=error express@4.21.2 >/dev/null 2>&1 || sh by-hand`},
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.OK(t, os.WriteFile(path, data, 0o644))
}

func smallFiles(t *testing.T, dir string) {
	random, b := rand.NewChaCha8([32]byte{}), make([]byte, 4096)
	for i := range harness.Count(t, "FILES", 1000, 5000) {
		_, _ = random.Read(b) // it never fails
		write(t, filepath.Join(dir, fmt.Sprintf("d%d/%d", i%50, i/50)), b[:i%len(b)])
	}
}

func largeFiles(t *testing.T, dir string) {
	random := rand.NewChaCha8([32]byte{1})
	for i := range 3 {
		b := make([]byte, harness.Count(t, "BYTES", 30_000_000, 100_000_000)/3)
		_, _ = random.Read(b)
		write(t, filepath.Join(dir, fmt.Sprint(i)), b)
	}
}

func hardLinks(t *testing.T, dir string) {
	must.OK(t, os.Mkdir(filepath.Join(dir, "e"), 0o755))
	for i := range 1000 {
		file := filepath.Join(dir, fmt.Sprintf("d/%d", i))
		write(t, file, fmt.Appendf(nil, "content %d\n", i))
		must.OK(t, os.Link(file, filepath.Join(dir, fmt.Sprintf("e/%d", i))))
	}
}

func repository(t *testing.T, dir string) {
	for i := range 300 {
		write(t, filepath.Join(dir, fmt.Sprintf("d%d/%d", i%10, i/10)), fmt.Appendf(nil, "file %d\nline 2\n", i))
	}
	// git repack takes reflogs in the order in which the filesystem lists them.
	sh(t, dir, "git init -q -b trunk; git config gc.auto 0; git config core.logAllRefUpdates false; git add -A; git commit -qm first")
}

// packages is the directory of a package that needs express. by-hand makes a tree of
// as many packages where the registry cannot be reached.
func packages(t *testing.T, dir string) {
	write(t, filepath.Join(dir, "package.json"), []byte(`{"name":"sample","version":"1.0.0","private":true}`))
	write(t, filepath.Join(dir, "by-hand"), []byte(`
		echo "the registry cannot be reached: the packages are made by hand" >&2
		mkdir -p node_modules/.bin
		for p in $(seq 70); do
			mkdir -p node_modules/p$p/lib
			for f in package.json README.md index.js lib/a.js lib/b.js; do seq $((p * 30)) >node_modules/p$p/$f; done
			ln -s ../p$p/index.js node_modules/.bin/p$p
		done`))
}

// sh runs a script in a directory.
func sh(t *testing.T, dir, script string) string {
	t.Helper()
	return output(t, exec.Command("sh", "-ec", script), dir)
}

func output(t *testing.T, cmd *exec.Cmd, dir string) string {
	t.Helper()
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null/none", "GIT_CONFIG_SYSTEM=/dev/null/none", "GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*", "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_AUTHOR_DATE=2026-01-01T00:00:00Z",
		"GIT_COMMITTER_DATE=2026-01-01T00:00:00Z")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

// copied is a directory with a copy of a tree, its times included: what git knows of
// its files still holds.
func (w *work) copied(tree string) string {
	w.t.Helper()
	dir := filepath.Join(w.t.TempDir(), "work")
	sh(w.t, "/", "cp -a --no-target-directory "+tree+" "+dir)
	return dir
}

// read describes what is below a directory: types, permissions, contents, and which
// names are hard links of one file.
func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	out, first := map[string]string{}, map[uint64]string{}
	must.OK(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel := path[len(dir)+1:]
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		line := fmt.Sprintf("%o", st.Mode)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " " + to
		case unix.S_IFREG:
			sum, err := hash(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %d bytes %s", st.Size, sum)
			if st.Nlink > 1 {
				if first[st.Ino] == "" {
					first[st.Ino] = rel
				}
				line += fmt.Sprintf(" %d names, of %s", st.Nlink, first[st.Ino])
			}
		}
		// git writes its index again whenever it looks.
		if !strings.HasSuffix(rel, ".git/index") {
			out[rel] = line
		}
		return nil
	}))
	return out
}

func hash(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)[:8]), err
}
