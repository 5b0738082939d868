package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/amberfs/amberfs/tests/harness"
)

// asDriver makes the test binary the driver.
const asDriver = "AMBERFS_TEST_AS_DRIVER"

func TestMain(m *testing.M) {
	if os.Getenv(asDriver) != "" {
		main()
		return
	}
	os.Exit(harness.Run(m))
}

// A plugin is a driver in a process of its own, with its daemon.
type plugin struct {
	*harness.Mount
	Endpoint string
	Conn     *grpc.ClientConn

	t    testing.TB
	node string
	cmd  *exec.Cmd
	logs string // where it logs
}

// start mounts a store and starts a driver for it.
func start(t testing.TB, node string) *plugin {
	t.Helper()
	return startAt(t, harness.New(t, "-o", "allow_other"), node, "csi")
}

// startAt starts a driver for a mounted store, with a socket and a log of a name.
func startAt(t testing.TB, m *harness.Mount, node, name string) *plugin {
	t.Helper()
	p := &plugin{Mount: m, t: t, node: node, logs: filepath.Join(filepath.Dir(m.Store), name+".log")}
	p.Endpoint = "unix://" + filepath.Join(filepath.Dir(p.Store), name+".sock")
	conn, err := grpc.NewClient(p.Endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	p.Conn = conn
	t.Cleanup(func() { conn.Close() })
	p.run()
	t.Cleanup(func() {
		p.kill()
		if log, _ := os.ReadFile(p.logs); t.Failed() {
			t.Logf("the driver's log:\n%s", log)
		}
	})
	return p
}

// run starts the driver and waits for its socket. The driver listens on a new one each time.
func (p *plugin) run() {
	p.t.Helper()
	os.Remove(p.Endpoint[len("unix://"):])
	p.cmd = exec.Command(os.Args[0], "-store", p.Store, "-node", p.node, "-endpoint", p.Endpoint, "-register", filepath.Dir(p.Store))
	p.cmd.Env = append(os.Environ(), asDriver+"=1")
	log, err := os.OpenFile(p.logs, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	p.cmd.Stderr = log
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	harness.Eventually(p.t, "the driver listens", func() bool { // the socket is there before it listens
		c, err := net.Dial("unix", p.Endpoint[len("unix://"):])
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	p.Conn.ResetConnectBackoff()
}

// kill kills the driver at once.
func (p *plugin) kill() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}

func (p *plugin) ctx() context.Context { return p.t.Context() }
