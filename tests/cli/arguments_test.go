package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// commandsWithDirectories are those that take a directory, a store or a repository. X
// is the argument in question, W a workspace, S a place for a new store, M an empty
// directory, D a directory with a file.
var commandsWithDirectories = []string{
	"mount X M",
	"mount S X",
	"mount --from X S M",
	"mount --from D X M",
	"mount --from file:///nowhere@v X M",
	"mount --from s3://bucket/x@v?endpoint=http://127.0.0.1:1 X M",
	"mount --or-empty --from file:///nowhere@v X M",
	"run X -- true",
	"run X --fork f -- true",
	"run X --snapshot-after a..b -- true",
	"run --from X -- true",
	"run --from X -- no-such-command",
	"run --from X S -- true",
	"run --from X --apply=yes -- true",
	"run --from X --apply=yes -- sh -c exit",
	"run --from D X -- true",
	"run --from D X -- no-such-command",
	"run --from nowhere X -- true",
	"run --from file:///nowhere@v X -- true",
	"run --from s3://bucket/x@v?endpoint=http://127.0.0.1:1 X -- true",
	"run --from file://X@v -- true",
	"run --from file://X@v X -- true",
	"umount X",
	"umount -l X",
	"verify X",
	"verify --repair X",
	"-C X list",
	"-C X restore v",
	"-C X gc",
	"-C W apply X",
	"-C W apply --theirs X v",
	"-C W export v --git X",
	"-C W import X at",
	"-C W import --git X HEAD at",
	"-C W import --tar X at",
	"-C W remote add far file://X",
}

// arguments make X, in a directory of its own, and return it and its working
// directory.
var arguments = map[string]func(t *testing.T, dir, store string) (x, cwd string){
	"a directory with files": func(t *testing.T, dir, _ string) (string, string) {
		return withMarker(t, dir+"/x"), dir
	},
	"the working directory": func(t *testing.T, dir, _ string) (string, string) {
		return ".", withMarker(t, dir+"/x")
	},
	"a directory with a name of a store's": func(t *testing.T, dir, _ string) (string, string) {
		withMarker(t, dir+"/x")
		write(t, dir+"/x/lock", "mine")
		write(t, dir+"/x/filling", "mine")
		write(t, dir+"/x/socket", "mine")
		return dir + "/x", dir
	},
	"a file": func(t *testing.T, dir, _ string) (string, string) {
		write(t, dir+"/x", "marker")
		return dir + "/x", dir
	},
	"a link to a directory": func(t *testing.T, dir, _ string) (string, string) {
		withMarker(t, dir+"/there")
		must.OK(t, os.Symlink("there", dir+"/x"))
		return dir + "/x", dir
	},
	"a link to nothing": func(t *testing.T, dir, _ string) (string, string) {
		must.OK(t, os.Symlink("nothing", dir+"/x"))
		return dir + "/x", dir
	},
	"an empty directory": func(t *testing.T, dir, _ string) (string, string) {
		must.OK(t, os.Mkdir(dir+"/x", 0o755))
		return dir + "/x", dir
	},
	"a store": func(t *testing.T, dir, store string) (string, string) {
		must.OK(t, os.CopyFS(dir+"/x", os.DirFS(store)))
		return dir + "/x", dir
	},
	"a store in use": func(t *testing.T, dir, store string) (string, string) {
		must.OK(t, os.CopyFS(dir+"/x", os.DirFS(store)))
		hold(t, dir+"/x/lock")
		return dir + "/x", dir
	},
	"a store that is being made": func(t *testing.T, dir, _ string) (string, string) {
		must.OK(t, os.Mkdir(dir+"/x", 0o755))
		hold(t, dir+"/x/lock")
		return dir + "/x", dir
	},
	"a store of another user": func(t *testing.T, dir, store string) (string, string) {
		must.OK(t, os.CopyFS(dir+"/x", os.DirFS(store)))
		if os.Getuid() != 0 {
			must.OK(t, os.Chmod(dir+"/x", 0)) // all that an ordinary user can do
			t.Cleanup(func() { _ = os.Chmod(dir+"/x", 0o700) })
			return dir + "/x", dir
		}
		must.OK(t, filepath.WalkDir(dir+"/x", func(p string, _ os.DirEntry, err error) error {
			return errors.Join(err, os.Chown(p, 65534, 65534))
		}))
		return dir + "/x", dir
	},
}

func withMarker(t *testing.T, dir string) string {
	t.Helper()
	write(t, dir+"/marker", "marker")
	write(t, dir+"/.git/config", "[core]\n")
	write(t, dir+"/sub/marker", "marker")
	must.OK(t, os.Mkdir(dir+"/nothing", 0o755))
	return dir
}

// hold locks a file as the process does that has, or makes, a store.
func hold(t *testing.T, name string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	must.OK(t, err)
	t.Cleanup(func() { f.Close() })
	_, err = fmt.Fprintf(f, "{\"pid\":%d}\n", os.Getpid())
	must.OK(t, err)
	must.OK(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
}

// TestArgumentsSurvive: whatever is named, no command removes or changes a file that
// it did not make. What a store is made of may change, but not what is in it.
func TestArgumentsSurvive(t *testing.T) {
	w := harness.New(t)
	write(t, w.Path("from-the-workspace"), "text")
	w.Amberfs("snapshot", "v")
	store := aStore(t)
	for i, kind := range slices.Sorted(maps.Keys(arguments)) {
		prepare := arguments[kind]
		t.Run(kind, func(t *testing.T) {
			for j, line := range commandsWithDirectories {
				if !harness.LongTests() && kind != "a directory with files" && (i+j)%8 != 0 {
					continue
				}
				limit := harness.Timeout
				if strings.HasPrefix(kind, "a store ") && (strings.Contains(line, "remote add") || strings.HasPrefix(line, "run ")) {
					limit = time.Second // they may wait for the process that has the lock
				}
				dir := t.TempDir()
				x, cwd := prepare(t, dir, store)
				before := survey(t, dir, kind)
				out := tryLine(t, w.Dir, line, x, cwd, limit)
				if lost := missing(before, survey(t, dir, kind)); lost != "" {
					t.Errorf("amberfs %s: %s\n%s", line, lost, out)
				}
				if kind == "a store" || kind == "a store of another user" && os.Getuid() == 0 {
					wantInStore(t, line, dir+"/x")
				}
			}
		})
	}
}

// TestRootSurvives is TestArgumentsSurvive for "/", in a sandbox in which that is a
// directory of the test's.
func TestRootSurvives(t *testing.T) {
	harness.SkipWithout(t, "bwrap")
	root := withMarker(t, t.TempDir()+"/root")
	args := []string{
		"--unshare-all", "--die-with-parent", "--bind", root, "/", "--proc", "/proc", "--dev-bind", "/dev", "/dev",
		"--tmpfs", "/tmp", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
		"--symlink", "usr/lib64", "/lib64", "--ro-bind", harness.Binary(t), "/tmp/amberfs", "--chdir", "/tmp", "--",
	}
	try := func(line string) (string, error) {
		out, err := exec.Command("bwrap", append(args, "sh", "-c", "mkdir M D; echo x >D/f; "+line)...).CombinedOutput()
		return string(out), err
	}
	if out, err := try("test -e /marker"); err != nil {
		t.Skipf("bubblewrap does not work here: %v: %s", err, out)
	}
	before := survey(t, root, "")
	for _, line := range commandsWithDirectories {
		if strings.Contains(line, "-C W") {
			continue // nothing can be mounted in there
		}
		out, _ := try("timeout 120 /tmp/amberfs " + strings.NewReplacer("file://X", "file:///", "X", "/").Replace(line))
		if lost := missing(before, survey(t, root, "")); lost != "" {
			t.Fatalf("amberfs %s: %s\n%s", line, lost, out)
		}
	}
}

// aStore makes a store with a file in it.
func aStore(t *testing.T) string {
	t.Helper()
	store := t.TempDir() + "/store"
	out, err := exec.Command(harness.Binary(t), "run", store, "--", "sh", "-c", "echo text >inside").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return store
}

// tryLine runs a command, and unmounts what it mounted. What the command says is of no
// interest here, but it must end.
func tryLine(t *testing.T, workspace, line, x, cwd string, limit time.Duration) string {
	t.Helper()
	scratch := t.TempDir()
	must.OK(t, os.Mkdir(scratch+"/mnt", 0o755))
	write(t, scratch+"/dir/f", "text")
	url := x
	if x == "." {
		url = cwd
	}
	var args []string
	for _, word := range strings.Fields(line) {
		switch word {
		case "X":
			word = x
		case "W":
			word = workspace
		case "S":
			word = scratch + "/store"
		case "M":
			word = scratch + "/mnt"
		case "D":
			word = scratch + "/dir"
		}
		args = append(args, strings.Replace(word, "file://X", "file://"+url, 1))
	}
	ctx, stop := context.WithTimeout(context.Background(), limit)
	defer stop()
	cmd := exec.CommandContext(ctx, harness.Binary(t), args...)
	cmd.Dir, cmd.WaitDelay = cwd, harness.Timeout
	cmd.Env = append(os.Environ(), "TMPDIR="+scratch, "HOME="+scratch, "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run()
	if ctx.Err() != nil && limit == harness.Timeout {
		t.Errorf("amberfs %s does not end: %s", line, out.String())
	}
	for _, under := range []string{scratch, filepath.Dir(cwd), cwd} {
		for _, m := range harness.Mounts(under) {
			if out, err := exec.Command(harness.Binary(t), "umount", m).CombinedOutput(); err != nil {
				t.Errorf("unmounting %s: %v: %s", m, err, out)
			}
		}
	}
	return out.String()
}

// survey maps what must survive to its contents: all files but those of stores.
func survey(t *testing.T, dir, kind string) map[string]string {
	t.Helper()
	all := map[string]string{}
	if kind == "a store of another user" && os.Getuid() != 0 {
		var st syscall.Stat_t
		must.OK(t, syscall.Stat(dir+"/x", &st))
		return map[string]string{"x": fmt.Sprint(st.Nlink)}
	}
	ofStore := strings.Contains(kind, "store") && !strings.Contains(kind, "name")
	must.OK(t, filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		text := d.Type().String()
		switch {
		case ofStore && strings.HasPrefix(p, dir+"/x/"):
			if name := filepath.Base(p); name != "format" && name != "lock" && name != "packs" {
				return nil
			}
			text = ""
		case d.Type().IsRegular():
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			text += " " + string(b)
		case d.Type() == os.ModeSymlink:
			to, err := os.Readlink(p)
			if err != nil {
				return err
			}
			text += " " + to
		}
		all[p] = text
		return nil
	}))
	return all
}

// missing names what is in before and not, or not the same, after.
func missing(before, after map[string]string) string {
	for p, text := range before {
		if got, ok := after[p]; !ok {
			return p + " is gone"
		} else if got != text {
			return fmt.Sprintf("%s is %q, was %q", p, got, text)
		}
	}
	return ""
}

// wantInStore checks that a store is whole.
func wantInStore(t *testing.T, line, store string) {
	t.Helper()
	out, err := exec.Command(harness.Binary(t), "run", store, "--", "cat", "inside").Output()
	if err != nil || string(out) != "text\n" {
		t.Errorf("after amberfs %s the store has %q, %v", line, out, err)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	must.OK(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must.OK(t, os.WriteFile(name, []byte(text), 0o644))
}
