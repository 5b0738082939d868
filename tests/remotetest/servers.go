package remotetest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/amberfs/amberfs/tests/must"
)

// Required reports whether make test-remote runs the tests: a server that is not installed
// is a failure then.
func Required() bool { return os.Getenv("AMBERFS_TEST_REMOTE") != "" }

// find returns the path of a server, from bin/ or the path.
func find(t testing.TB, name string) string {
	if _, err := os.Stat(own(name)); err == nil {
		return own(name)
	}
	p, err := exec.LookPath(name)
	if err != nil && Required() {
		t.Fatalf("%s is not installed: run scripts/setup remote", name)
	}
	if err != nil {
		t.Skip("make test-remote runs it")
	}
	return p
}

// own is where scripts/setup puts what it builds: bin/ of a directory above this one, which has
// modules of their own between.
func own(name string) string {
	for dir, _ := os.Getwd(); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		p := filepath.Join(dir, "bin", name)
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	return filepath.Join("bin", name)
}

// start runs a server until the test ends, waits until it accepts connections, and
// returns where. Another program may take the address before the server does, which then
// ends: it is started again at another one.
func start(t testing.TB, server func(addr string) *exec.Cmd) (addr string) {
	t.Helper()
	for range 3 {
		addr = freeAddr(t)
		cmd := server(addr)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		log, err := os.Create(filepath.Join(t.TempDir(), "log"))
		must.OK(t, err)
		cmd.Stdout, cmd.Stderr = log, log
		must.OK(t, cmd.Start())
		ended := make(chan struct{})
		go func() {
			_ = cmd.Wait()
			close(ended)
		}()
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			<-ended
			log.Close()
		})
		if listens(addr, ended) {
			return addr
		}
		b, _ := os.ReadFile(log.Name())
		t.Logf("%s does not listen at %s: %s", cmd.Path, addr, b)
	}
	t.Fatal("it does not listen anywhere")
	return ""
}

// listens waits until a server accepts connections, unless it has ended.
func listens(addr string, ended <-chan struct{}) bool {
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return true
		}
		select {
		case <-ended:
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return false
}

func freeAddr(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer l.Close()
	return l.Addr().String()
}

// S3 starts an S3 service (versitygw on a directory) with a bucket called amber,
// puts its keys into the environment, and returns its endpoint.
func S3(t testing.TB) (endpoint string) {
	bin := find(t, "versitygw")
	dir := t.TempDir()
	must.OK(t, os.Mkdir(filepath.Join(dir, "amber"), 0o755))
	addr := start(t, func(addr string) *exec.Cmd {
		return exec.Command(bin, "--port", addr, "--access", "testkey", "--secret", "testsecret",
			"--keep-alive", "--quiet", "posix", "--versioning-dir", t.TempDir(), dir)
	})
	t.Setenv("AWS_ACCESS_KEY_ID", "testkey")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "testsecret")
	return "http://" + addr
}

// S3Prefix is the URL of a remote in the bucket of S3.
func S3Prefix(endpoint, prefix string) string {
	return "s3://amber/" + prefix + "?endpoint=" + endpoint
}

// Registry starts an OCI registry (Debian's docker-registry) and returns its address.
func Registry(t testing.TB, htpasswd ...string) (addr string) {
	bin := find(t, "docker-registry")
	dir := t.TempDir()
	return start(t, func(addr string) *exec.Cmd {
		config := filepath.Join(t.TempDir(), "config.yml")
		text := fmt.Sprintf("version: 0.1\nlog: {level: error}\nstorage:\n  filesystem: {rootdirectory: %s}\n  delete: {enabled: true}\nhttp: {addr: %s}\n", dir, addr)
		if len(htpasswd) > 0 {
			users := filepath.Join(dir, "htpasswd")
			must.OK(t, os.WriteFile(users, []byte(strings.Join(htpasswd, "\n")), 0o644))
			text += fmt.Sprintf("auth:\n  htpasswd: {realm: test, path: %s}\n", users)
		}
		must.OK(t, os.WriteFile(config, []byte(text), 0o644))
		return exec.Command(bin, "serve", config)
	})
}

// Lying starts an S3 service that does not know conditions and says nothing about
// it (s3rver of npm), with a bucket called amber, and returns its endpoint.
func Lying(t testing.TB) (endpoint string) {
	bin := own("s3rver/node_modules/s3rver/bin/s3rver.js")
	if _, err := os.Stat(bin); err != nil && Required() {
		t.Fatal("s3rver is not installed: run scripts/setup remote")
	} else if err != nil {
		t.Skip("make test-remote runs it")
	}
	addr := start(t, func(addr string) *exec.Cmd {
		host, port, _ := net.SplitHostPort(addr)
		return exec.Command("node", bin, "-d", t.TempDir(), "-a", host, "-p", port, "--configure-bucket", "amber")
	})
	t.Setenv("AWS_ACCESS_KEY_ID", "S3RVER")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "S3RVER")
	return "http://" + addr
}
