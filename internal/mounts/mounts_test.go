package mounts

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
)

func TestMountTable(t *testing.T) {
	m, err := TopmostAt("/proc")
	if err != nil || m == nil || m.FSType != "proc" {
		t.Errorf("at /proc: %+v, %v", m, err)
	}
	if m, err := TopmostAt("/proc/none"); err != nil || m != nil {
		t.Errorf("where nothing is mounted: %+v, %v", m, err)
	}
}

const (
	manyIn         = "AMBERFS_TEST_MANY_MOUNTS"
	manyMounts     = 5000
	manyNamespaces = 40
)

// TestManyTables: a user without rights makes many namespaces, each with many mounts on top of each other. The
// kernel takes long for each line of their tables, so only a part of the tables is read.
func TestManyTables(t *testing.T) {
	if dir := os.Getenv(manyIn); dir != "" {
		makeMany(t, dir)
		return
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestManyTables$")
	cmd.Env, cmd.Stderr = append(os.Environ(), manyIn+"="+t.TempDir()), os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	end, err := cmd.StdinPipe()
	must.OK(t, err)
	out, err := cmd.StdoutPipe()
	must.OK(t, err)
	if err := cmd.Start(); err != nil {
		t.Skip(err) // this system does not allow it
	}
	defer func() {
		end.Close()
		_ = cmd.Wait()
	}()
	r := bufio.NewReader(out)
	line, err := r.ReadString('\n')
	if err != nil || line != "made\n" {
		rest, _ := io.ReadAll(r)
		t.Fatalf("%q, %v: %s", line, err, rest)
	}
	asked, n, longest := time.Duration(0), 0, 0
	await.True(t, "the table of this process comes first, whole", func() bool { // repeated, because other processes may mount something at the same time
		own, err := os.ReadFile("/proc/self/mountinfo")
		must.OK(t, err)
		first := []byte(nil)
		asked, n, longest = 0, 0, 0
		pages := func() time.Time { asked++; return time.Unix(0, 0).Add(asked * time.Millisecond) } // a clock that advances by a millisecond for each page
		readTables(pages, func(text []byte) {
			if n++; n == 1 {
				first = text
			}
			longest = max(longest, len(text))
		})
		return bytes.Equal(first, own)
	})
	t.Logf("%d tables, %d pages of them", n, asked)
	if most := 4096 * int(maxTableTime/time.Millisecond); longest > most || longest < most/8 {
		t.Errorf("of one table %d bytes were read, at most %d are", longest, most)
	}
	if most := int(maxTablesTime/time.Millisecond) + 3*n; int(asked) > most || n < manyNamespaces/2 {
		t.Errorf("%d pages of %d tables were read, at most %d are", asked, n, most)
	}
}

// TestAtOnce: concurrent callers that wait while the tables are read share the next result.
func TestAtOnce(t *testing.T) {
	var root unix.Stat_t
	must.OK(t, unix.Stat("/", &root))
	lastPoints.Lock()
	const callers = 8
	answers := make(chan []string, callers)
	for range callers {
		go func() { answers <- PointsOn(int(unix.Major(root.Dev)), int(unix.Minor(root.Dev))) }()
	}
	await.Blocked(t, callers, "mounts.PointsOn")
	lastPoints.Unlock()
	first := await.Receive(t, "an answer", answers)
	for range callers - 1 {
		if other := await.Receive(t, "an answer", answers); len(first) == 0 || len(other) == 0 || &first[0] != &other[0] {
			t.Errorf("%d and %d paths: the tables were read once more", len(first), len(other))
		}
	}
}

func makeMany(t *testing.T, dir string) {
	try := func(err error) {
		must.OK(t, err)
	}
	at := filepath.Join(dir, "a")
	try(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	try(unix.Mount("tmpfs", dir, "tmpfs", 0, ""))
	try(os.Mkdir(at, 0o755))
	for range manyMounts {
		try(unix.Mount(dir, at, "", unix.MS_BIND, ""))
	}
	for range manyNamespaces {
		cmd := exec.Command("unshare", "-m", "--propagation", "unchanged", "sh", "-c", "echo; exec cat")
		cmd.Stdin, cmd.SysProcAttr = os.Stdin, &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
		out, err := cmd.StdoutPipe()
		try(err)
		try(cmd.Start())
		_, err = out.Read(make([]byte, 1))
		try(err)
	}
	fmt.Println("made")
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// TestOverlayOn: an overlay counts only if one of its layers is on the file system, or if the place of a layer is
// not known.
func TestOverlayOn(t *testing.T) {
	const table = `22 1 8:1 / / rw - ext4 /dev/sda1 rw
30 22 0:50 / /work rw - fuse.amberfs amberfs rw
31 30 0:60 / /work/sub rw - tmpfs tmpfs rw
`
	for options, want := range map[string]bool{
		"lowerdir=/var/l/1:/var/l/2,upperdir=/var/u,workdir=/var/w": false,
		"lowerdir=/var/l/1:/work/l,upperdir=/var/u,workdir=/var/w":  true,
		"lowerdir=/var/l,upperdir=/work/u,workdir=/work/w":          true,
		"lowerdir+=/var/l,lowerdir+=/work/l":                        true,
		"lowerdir=/var/l::/work":                                    true,
		"lowerdir=/worker/l":                                        false,
		"lowerdir=/work/sub/l":                                      false,
		"lowerdir=l/1:l/2":                                          true,
		`lowerdir=/a\040b`:                                          true,
	} {
		for at, want := range map[string]bool{"/var/merged": want, "/": false} {
			if got := tableHasOverlayOn([]byte(table+"40 22 0:70 / "+at+" rw - overlay overlay rw,"+options+"\n"), 0, 50); got != want {
				t.Errorf("%s at %s: %v", options, at, got)
			}
		}
	}
}
