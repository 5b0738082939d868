package descriptors

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/must"
)

// pair returns the two ends of a connection.
func pair(t *testing.T) (*Sender, net.Conn, *Receiver) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must.OK(t, err)
	end := func(fd int) *net.UnixConn {
		f := os.NewFile(uintptr(fd), "")
		defer f.Close()
		c, err := net.FileConn(f)
		must.OK(t, err)
		return c.(*net.UnixConn)
	}
	s := &Sender{}
	out, in := s.Conn(end(fds[0])), &Receiver{UnixConn: end(fds[1])}
	t.Cleanup(func() { s.Close(); out.Close(); in.Close() })
	return s, out, in
}

// TestFilesArrive: files arrive in the order in which they were sent, at the latest with the bytes that are written
// after them.
func TestFilesArrive(t *testing.T) {
	s, out, in := pair(t)
	dir := t.TempDir()
	for i := range 3 * maxDescriptors {
		name := filepath.Join(dir, "f")
		must.OK(t, os.WriteFile(name, []byte{byte(i)}, 0o600))
		f, err := os.Open(name)
		must.OK(t, err)
		if sent := s.Add(int(f.Fd())); sent != (i < maxDescriptors) {
			t.Fatalf("file %d: %v", i, sent)
		}
		must.OK(t, f.Close())
		must.OK(t, os.Remove(name))
	}
	_, err := io.WriteString(out, "text")
	must.OK(t, err)
	b := make([]byte, 4)
	_, err = io.ReadFull(in, b)
	must.OK(t, err)
	for i := range maxDescriptors {
		f, err := in.Next()
		must.OK(t, err)
		got, err := io.ReadAll(f)
		must.OK(t, err)
		must.OK(t, f.Close())
		if len(got) != 1 || int(got[0]) != i {
			t.Errorf("file %d has %q", i, got)
		}
	}
	if _, err := in.Next(); err == nil {
		t.Error("there is one more file")
	}
}

// TestOtherFilesAreRefused: only regular files of local file systems are sent and accepted.
func TestOtherFilesAreRefused(t *testing.T) {
	for _, name := range []string{"/dev/null", "/proc/self/status", "/"} {
		s, out, in := pair(t)
		f, err := os.Open(name)
		must.OK(t, err)
		defer f.Close()
		if s.Add(int(f.Fd())) {
			t.Errorf("%s was sent", name)
		}
		_, _, err = out.(*sendingConn).WriteMsgUnix([]byte("x"), unix.UnixRights(int(f.Fd())), nil)
		must.OK(t, err)
		_, err = in.Read(make([]byte, 1))
		must.OK(t, err)
		if _, err := in.Next(); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// TestReceivedFilesAreBounded: the number of received files that wait is limited.
func TestReceivedFilesAreBounded(t *testing.T) {
	_, out, in := pair(t)
	f, err := os.Open("/dev/null")
	must.OK(t, err)
	defer f.Close()
	for i := range maxWaitingReceived + 1 {
		_, _, err = out.(*sendingConn).WriteMsgUnix([]byte("x"), unix.UnixRights(int(f.Fd())), nil)
		must.OK(t, err)
		if _, err = in.Read(make([]byte, 1)); err != nil != (i == maxWaitingReceived) {
			t.Fatalf("message %d: %v", i, err)
		}
	}
}

// TestEnd: Read returns io.EOF at the end of a connection.
func TestEnd(t *testing.T) {
	_, out, in := pair(t)
	must.OK(t, out.Close())
	if n, err := in.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("at the end: %d, %v", n, err)
	}
	must.OK(t, in.Close())
	if n, err := in.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("after it: %d, %v", n, err)
	}
}
