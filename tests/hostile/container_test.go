package hostile_test

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// The last argument of this program in a container, and in a user namespace in it.
const (
	inContainer = "in-a-container"
	inUserNS    = "in-a-user-namespace"
)

// attacks are what a program does that has a fork, whose path is ws. Each makes what it needs.
// The tests of this package run them in a fork that is a directory too.
var attacks = []struct {
	name string
	load bool // tried with one engine
	do   func(t *testing.T, ws string)
}{
	{"leave", false, func(t *testing.T, _ string) {
		if leave(inContainer) != 0 {
			t.Error("it could leave")
		}
	}},
	{"rights", false, forbidden},
	{"quota", false, func(t *testing.T, ws string) { quota(t, ws, containerBytes) }},
	{"links", false, func(t *testing.T, ws string) {
		host, err := os.ReadFile(filepath.Join(ws, "host"))
		must.OK(t, err)
		plantLinks(t, ws, string(host))
	}},
	{"names", false, func(t *testing.T, ws string) {
		must.OK(t, os.Mkdir(filepath.Join(ws, "names"), 0o755))
		everyByte(t, filepath.Join(ws, "names"))
	}},
	{"terminal", false, forTerminals},
	{"refs", false, func(t *testing.T, ws string) {
		must.OK(t, os.Mkdir(filepath.Join(ws, ".snapshots/exported"), 0o755))
		must.OK(t, export(ws, "exported"))
		foreignRefs(t, ws, "exported", ownRefs(t, ws, "exported"))
	}},
	{"garbage", false, func(t *testing.T, ws string) { garbage(t, ws, rand.New(rand.NewPCG(1, 2))) }},
	{"large diffs", true, largeDiffs},
	{"many lists", true, func(t *testing.T, ws string) { manyFiles(t, ws, 3000); manyLists(t, ws) }},
	{"many diffs", true, func(t *testing.T, ws string) {
		stop := make(chan struct{})
		asked, wait := renderings(t, ws, stop)
		defer wait()
		defer close(stop)
		harness.Eventually(t, "all have asked", func() bool { return asked.Load() > 320 })
	}},
	{"control files", true, func(_ *testing.T, ws string) { // the last: it restores snapshots
		stop := make(chan struct{})
		wait := tenants(ws, rand.Uint64(), new(atomic.Int64), stop)
		for i := range 200 {
			_ = os.WriteFile(filepath.Join(ws, "beside"), fmt.Append(nil, i), 0o644)
		}
		close(stop)
		wait()
	}},
}

// containerBytes is what a container may have that main has not.
const containerBytes = 128 << 20

// attack runs in a container whose root directory is a fork.
func attack(t *testing.T) {
	for _, a := range attacks {
		if !a.load || !testing.Short() {
			t.Run(a.name, func(t *testing.T) { a.do(t, "/") })
		}
	}
}

// leave tries to leave a container whose root directory is a fork. It prints what it could
// do, and returns the exit status.
func leave(where string) int {
	status := 0
	try := func(name string, err error) {
		if err == nil {
			fmt.Println(where+" it could", name)
			status = 1
		}
	}
	handle, err := os.ReadFile("/handle")
	if err != nil {
		fmt.Println(err)
		return 2
	}
	var kind int32
	var raw []byte
	_, err = fmt.Sscanf(string(handle), "%d %x", &kind, &raw)
	if err != nil {
		fmt.Println(err)
		return 2
	}
	root, err := os.Open("/")
	if err != nil {
		fmt.Println(err)
		return 2
	}
	defer root.Close()
	fd, err := unix.OpenByHandleAt(int(root.Fd()), unix.NewFileHandle(kind, raw), unix.O_RDONLY)
	try(fmt.Sprint("open a file outside of the fork by its number ", fd), err)
	try("unmount /proc/sys", unix.Unmount("/proc/sys", unix.MNT_DETACH))
	try("make /proc/sys writable", unix.Mount("", "/proc/sys", "", unix.MS_REMOUNT|unix.MS_BIND, ""))
	try("allow devices", unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, ""))
	try("write /proc/sys/kernel/core_pattern", write("/proc/sys/kernel/core_pattern"))
	try("write /etc/hosts of the host", write("/etc/hosts"))
	host, err := os.ReadFile("/host")
	if err != nil {
		fmt.Println(err)
		return 2
	}
	processes, _ := filepath.Glob("/proc/[0-9]*/root")
	for _, dir := range append(processes, "/..", "/proc/1/cwd/..") {
		_, err := os.Stat(dir + string(host))
		try("find a file of the host at "+dir, err)
	}
	for _, dir := range []string{"/..", "/../..", "/.snapshots/..", "/.snapshots/../..", "/.forks/../.."} {
		_, err := os.Stat(dir + "/secret")
		try("find the secret at "+dir, err)
		_, err = os.Stat(dir + "/.forks/other")
		try("find another fork at "+dir, err)
	}
	if where == inUserNS {
		return status
	}
	for _, dir := range []string{"", "/dev", "/dev/shm", "/tmp", "/run"} {
		_ = unix.Mknod(dir+"/log", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 11))) // as /dev/kmsg
		try("write the kernel's log through "+dir, write(dir+"/log"))
	}
	try("mount", unix.Mount("none", "/tmp", "tmpfs", 0, ""))
	var st unix.Statfs_t
	if err := unix.Statfs("/", &st); err != nil || st.Flags&unix.ST_NOSUID == 0 || st.Flags&unix.ST_NODEV == 0 {
		try("use devices or set-user-ID programs of the fork", nil)
	}
	cmd := exec.Command("/attack", inUserNS)
	cmd.Stdout = os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}, GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}},
	}
	var exit *exec.ExitError
	if err := cmd.Run(); errors.As(err, &exit) {
		status = 1
	}
	return status
}

func write(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		f.Close()
	}
	return err
}

// static is this program without libraries, for an empty root directory.
func static(t *testing.T) []byte {
	t.Helper()
	name, err := os.Executable()
	must.OK(t, err)
	program, err := elf.Open(name)
	must.OK(t, err)
	defer program.Close()
	if slices.ContainsFunc(program.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		if _, err := exec.LookPath("go"); err != nil && os.Getuid() != 0 {
			t.Skip("the test program has libraries, and the container has none: CGO_ENABLED=0")
		}
		name = filepath.Join(t.TempDir(), "attack")
		build := exec.Command("go", "test", "-c", "-o", name, ".")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	b, err := os.ReadFile(name)
	must.OK(t, err)
	return b
}

// TestContainer: root in a container whose root directory is a fork reaches nothing else,
// and is bounded as a program in any fork.
func TestContainer(t *testing.T) {
	if os.Args[len(os.Args)-1] == inContainer {
		attack(t)
		return
	}
	if os.Getuid() == 0 {
		_, runc := exec.LookPath("runc")
		_, bwrap := exec.LookPath("bwrap")
		if runc != nil && bwrap != nil {
			t.Fatal("neither runc nor bubblewrap is installed")
		}
	}
	program := static(t)
	for _, engine := range []string{"amberfs", "runc", "bubblewrap"} {
		t.Run(engine, func(t *testing.T) { contain(t, engine, program) })
	}
}

func contain(t *testing.T, engine string, program []byte) {
	options := []string{"-o", "handles"}
	if os.Getuid() == 0 {
		options = []string{"-o", "handles,allow_other"}
	}
	m := harness.New(t, options...)
	host := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(host, "file"), []byte("the host's"), 0o644))
	must.OK(t, os.Mkdir(m.Path(".forks", "other"), 0o755))
	must.OK(t, os.WriteFile(m.Path(".snapshots", "policy"), fmt.Appendf(nil, `{"interval_seconds":0,"forks":{"unshared_bytes":%d}}`, containerBytes), 0o644))
	fork := m.Path(".forks", "c")
	must.OK(t, os.Mkdir(fork, 0o755))
	must.OK(t, os.WriteFile(m.Path("secret"), []byte("a secret"), 0o600))
	must.OK(t, os.WriteFile(filepath.Join(fork, "attack"), program, 0o755))
	must.OK(t, os.WriteFile(filepath.Join(fork, "host"), []byte(host), 0o644))
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, m.Path("secret"), 0)
	must.OK(t, err)
	if os.Getuid() == 0 { // it would be opened with the capability
		dir, err := os.Open(fork)
		must.OK(t, err)
		defer dir.Close()
		fd, err := unix.OpenByHandleAt(int(dir.Fd()), handle, unix.O_RDONLY)
		must.OK(t, err)
		unix.Close(fd)
	}
	must.OK(t, os.WriteFile(filepath.Join(fork, "handle"), fmt.Appendf(nil, "%d %x", handle.Type(), handle.Bytes()), 0o644))
	before := harness.ReadTree(t, m.Dir)
	cmd := exec.Command(harness.Binary(t), "-C", m.Dir, "run", "--fork", "c", "--root", "--", "/attack")
	if engine != "amberfs" {
		script, err := filepath.Abs("../../examples/containers/" + engine)
		must.OK(t, err)
		harness.SkipWithout(t, map[string][]string{"runc": {"runc", "python3"}, "bubblewrap": {"bwrap"}}[engine]...)
		cmd = exec.Command(script, m.Dir, "c", "/attack")
	}
	cmd.Args = append(cmd.Args, "-test.run=^TestContainer$", "-test.v", fmt.Sprint("-test.short=", engine != "bubblewrap"), inContainer)
	memory := most(m.Pid())
	out, err := cmd.CombinedOutput()
	used := memory()
	t.Logf("the daemon %d MiB", used)
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestContainer ")) || bytes.Contains(out, []byte("it could")) {
		t.Errorf("%v: %s", err, out)
	}
	if used > controlMemory {
		t.Errorf("the daemon took %d MiB", used)
	}
	notFollowed(t, host)
	harness.CheckSameTree(t, "main", before, harness.ReadTree(t, m.Dir))
	all, err := os.ReadDir(m.Path(".forks"))
	must.OK(t, err)
	if len(all) != 2 {
		t.Errorf("main has the forks %v", all)
	}
	if list, err := os.ReadFile(m.Path(".snapshots", "list")); err != nil || string(list) != "no snapshots\n" {
		t.Errorf("main has the snapshots %q, %v", list, err)
	}
	refs, err := exec.Command("git", "-c", "safe.directory=*", "-C", filepath.Join(m.Store, "git"), "for-each-ref", "--format=%(refname)").Output()
	must.OK(t, err)
	for ref := range strings.Lines(string(refs)) {
		if !strings.HasPrefix(ref, "refs/forks/") {
			t.Errorf("there is a ref %s", ref)
		}
	}
	m.Amberfs("snapshot", "after")
}

var requests = regexp.MustCompile(`'(\{[^']*\})'`)

// forbidden asks for what root may do in main alone, and for what is done over the socket.
func forbidden(t *testing.T, ws string) {
	t.Helper()
	n := 0
	for _, r := range rights {
		request := requests.FindStringSubmatch(r.script)
		if request == nil || len(r.may[0]) > 0 && !slices.Equal(r.may[0], onlyRoot[0]) || strings.Contains(r.script, "set-policy") {
			continue
		}
		n++
		if err := os.WriteFile(filepath.Join(ws, ".snapshots/call.right"), []byte(request[1]), 0o600); err == nil {
			t.Errorf("%s is done", request[1])
		}
	}
	if n < 10 {
		t.Errorf("%d requests were tried", n)
	}
	// The limits of a fork are main's.
	_ = os.WriteFile(filepath.Join(ws, ".snapshots/policy"), []byte(`{"forks":{"unshared_bytes":0}}`), 0o644)
}
