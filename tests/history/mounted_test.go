package history_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// container is a mount namespace in which the directory $1 has what containers have: a file
// mounted on etc/hosts, file systems on dev and run/x.
const container = `
mount --bind "$1" "$1"
mount --bind "$2" "$1/etc/hosts"
mount -t tmpfs none "$1/dev"
mount -t tmpfs none "$1/run/x"
echo in the container > "$1/run/x/file"
while read line; do
	cat "$1/etc/hosts" "$1/run/x/file" "$1/etc.old/hosts" 2>/dev/null
	grep -c " $1/" /proc/self/mountinfo
done`

// Restores are exact beneath what is mounted in other namespaces, and leave that there.
func TestRestoreBeneathMounts(t *testing.T) {
	harness.SkipWithout(t, "unshare")
	m := harness.New(t)
	must.OK(t, os.Mkdir(m.Path(".forks", "c"), 0o755))
	fork := &harness.Mount{Dir: m.Path(".forks", "c")}
	for _, dir := range []string{"etc", "dev", "run", "many"} {
		must.OK(t, os.Mkdir(filepath.Join(fork.Dir, dir), 0o755))
	}
	write(t, fork.Path("etc/hosts"), "one\n")
	write(t, fork.Path("etc/passwd"), "root\n")
	capture(t, fork, "before")
	before := harness.ReadTree(t, fork.Dir)
	must.OK(t, os.Mkdir(fork.Path("run/x"), 0o755))
	write(t, fork.Path("etc/hosts"), "two\n")
	for i := range 4500 { // so many that the kernel would forget all names at once
		write(t, fork.Path("many", fmt.Sprint(i)), "")
	}
	capture(t, fork, "mounted")
	mounted := harness.ReadTree(t, fork.Dir)

	hosts := filepath.Join(t.TempDir(), "hosts")
	write(t, hosts, "of the container\n")
	args := []string{"--mount", "sh", "-c", container, "sh", fork.Dir, hosts}
	if os.Getuid() != 0 {
		args = append([]string{"--user", "--map-root-user"}, args...)
	}
	cmd := exec.Command("unshare", args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must.OK(t, err)
	out, err := cmd.StdoutPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	answers := bufio.NewReader(out)
	inside := func(when string) {
		t.Helper()
		fmt.Fprintln(in)
		for _, want := range []string{"of the container\n", "in the container\n", "3\n"} {
			if got, err := answers.ReadString('\n'); got != want {
				t.Fatalf("%s: the container reads %q, %v; want %q", when, got, err, want)
			}
		}
	}
	inside("at first")

	write(t, fork.Path("etc/hosts"), "three\n")
	must.OK(t, os.Remove(fork.Path("etc/passwd")))
	restore(t, fork, "mounted")
	harness.CheckSameTree(t, "a changed file", mounted, harness.ReadTree(t, fork.Dir))
	inside("a changed file")
	crash := func() {
		if strings.Contains(m.Amberfs("status"), "a crash:") { // it would end the mount
			return
		}
		m.Crash()
		harness.CheckSameTree(t, "after a crash", mounted, harness.ReadTree(t, fork.Dir))
		inside("after a crash")
	}
	crash()

	must.OK(t, os.Chmod(fork.Path("etc/hosts"), 0o600))
	restore(t, fork, "before")
	harness.CheckSameTree(t, "mount points that were not there", before, harness.ReadTree(t, fork.Dir))
	inside("mount points that were not there")
	restore(t, fork, "mounted")
	harness.CheckSameTree(t, "they are again", mounted, harness.ReadTree(t, fork.Dir))
	inside("they are again")
	crash()

	must.OK(t, os.Rename(fork.Path("etc"), fork.Path("etc.old")))
	must.OK(t, os.Mkdir(fork.Path("etc"), 0o700))
	must.OK(t, os.Mkdir(fork.Path("etc/hosts"), 0o755))
	write(t, fork.Path("etc/passwd"), "other\n")
	restore(t, fork, "mounted")
	harness.CheckSameTree(t, "a directory that was replaced", mounted, harness.ReadTree(t, fork.Dir))
	fmt.Fprintln(in)
	if got, err := answers.ReadString('\n'); got != "two\n" { // its mount went with the old directory
		t.Errorf("beneath the replaced directory: %q, %v", got, err)
	}
	for _, want := range []string{"in the container\n", "of the container\n", "3\n"} {
		if got, err := answers.ReadString('\n'); got != want {
			t.Errorf("the replaced directory: %q, %v; want %q", got, err, want)
		}
	}
	must.OK(t, in.Close())
	must.OK(t, cmd.Wait())
	harness.Eventually(t, "the removed names are gone", func() bool {
		_, err := os.Lstat(fork.Path("etc.old"))
		return os.IsNotExist(err)
	})
	m.Kill()
	m.Start()
	harness.CheckSameTree(t, "killed and mounted", mounted, harness.ReadTree(t, fork.Dir))
	if list := m.Amberfs("diff", "--fork", "c", "mounted", "--name-status"); !strings.Contains(list, "no differences") && list != "" {
		t.Errorf("differences: %s", list)
	}
}
