package mounts

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMountTable(t *testing.T) {
	m, err := At("/proc")
	if err != nil || m == nil || m.FSType != "proc" {
		t.Errorf("at /proc: %+v, %v", m, err)
	}
	if m, err := At("/proc/none"); err != nil || m != nil {
		t.Errorf("where nothing is mounted: %+v, %v", m, err)
	}
}

const (
	manyIn         = "AMBERFS_TEST_MANY_MOUNTS"
	manyMounts     = 5000
	manyNamespaces = 40
)

// TestManyTables: a user without rights has many namespaces, in each of which many mounts
// lie upon each other, so that the kernel takes long for each line.
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
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip(err) // this system forbids it
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
	began, n, first := time.Now(), 0, 0
	tables(func(text []byte) {
		if n++; n == 1 {
			first = len(text)
		}
	})
	took := time.Since(began)
	t.Logf("%d tables in %v", n, took)
	if own, err := os.ReadFile("/proc/self/mountinfo"); err != nil || first != len(own) {
		t.Errorf("of this process %d bytes of %d, %v", first, len(own), err)
	}
	if took > 2*maxTables {
		t.Errorf("reading took %v", took)
	}
	for range 8 { // at once
		go On(0, 0)
	}
	if On(0, 0); time.Since(began) > took+3*maxTables {
		t.Errorf("waited %v", time.Since(began)-took)
	}
}

func makeMany(t *testing.T, dir string) {
	try := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
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
