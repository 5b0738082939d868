package actors

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/process"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
)

// forks is a registry in which 1 is a fork of main and 2 a fork in it.
func forks() *Registry {
	return NewRegistry(func(view uint32) (views []uint32) {
		for ; view > 0; view-- {
			views = append(views, view)
		}
		return append(views, 0)
	}, func(view uint32) string { return []string{"", "box", "inner"}[view] })
}

// shell starts a shell that tells the id of a child of it, and waits.
func shell(t *testing.T, session bool) (parent, child uint32) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "sleep 100 & echo $!; wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session, Setpgid: !session}
	out, err := cmd.StdoutPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	_, err = fmt.Fscan(out, &child)
	must.OK(t, err)
	return uint32(cmd.Process.Pid), child
}

func TestRegistry(t *testing.T) {
	r := forks()
	of := func(what string, id, view uint32, want string) {
		t.Helper()
		if got := r.ActorOf(id, 7, view); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	must := func(err error) {
		t.Helper()
		must.OK(t, err)
	}
	p1, c1 := shell(t, true)
	p2, c2 := shell(t, true)
	of("a session", p1, 0, fmt.Sprintf("sh/%d", p1))
	of("a child in it", c1, 0, fmt.Sprintf("sh/%d", p1))
	of("another session of the same ancestor", c2, 0, fmt.Sprintf("sh/%d", p2))
	of("a process that cannot be seen", 0, 0, "uid:7")
	of("a process that is gone", 1<<22+1, 0, "uid:7")

	must(r.Register(p1, 7, 0, "a"))
	of("a named process", p1, 0, "a")
	of("its child", c1, 0, "a")
	of("its child in a fork", c1, 2, "a")
	of("another process", c2, 1, fmt.Sprintf("sh/%d", p2))
	must(r.Register(c1, 7, 0, "a/1"))
	of("a child with a name", c1, 0, "a/1")
	of("the parent of one", p1, 0, "a")

	must(r.Register(p2, 7, 1, "b"))
	of("in the fork", c2, 1, "b")
	of("in a fork of it", c2, 2, "b")
	of("outside of it", c2, 0, fmt.Sprintf("sh/%d", p2))
	for _, name := range []string{"a", "a/2", "a/1"} {
		if err := r.Register(p2, 7, 1, name); !errors.Is(err, errs.Protected) {
			t.Errorf("a fork takes the name %s: %v", name, err)
		}
	}
	must(r.Register(c1, 7, 1, "a/1/x")) // it is below its own
	of("below its own name", c1, 1, "a/1/x")
	of("the same outside", c1, 0, "a/1")

	must(r.Register(0, 7, 1, "sandbox"))
	of("what cannot be seen in the fork", 0, 1, "sandbox")
	of("outside", 0, 0, "uid:7")
	if err := r.Register(p1, 7, 0, "no good"); !errors.Is(err, errs.Invalid) {
		t.Errorf("a bad name: %v", err)
	}
	if err := r.Register(1<<22+1, 7, 0, "x"); !errors.Is(err, errs.NotExist) {
		t.Errorf("a process that is gone: %v", err)
	}
}

// TestKeep: names of processes that still run outlast the registry, unless the system was
// started again.
func TestKeep(t *testing.T) {
	r, saved := forks(), []byte(nil)
	r.LoadNames(nil, func(b []byte) error { saved = b; return nil })
	p1, c1 := shell(t, true)
	p2, _ := shell(t, true)
	for id, name := range map[uint32]string{p1: "a", p2: "b"} {
		must.OK(t, r.Register(id, 7, 0, name))
	}
	other := strings.Replace(string(saved), `"start":`, `"start":1`, 1) // one of them is another process
	again := 0
	for b, want := range map[string]int{string(saved): 2, other: 1, strings.Replace(string(saved), `"boot":"`, `"boot":"x`, 1): 0, "": 0} {
		r := forks()
		r.LoadNames([]byte(b), nil)
		for id, name := range map[uint32]string{c1: "a", p2: "b"} {
			if r.ActorOf(id, 7, 0) == name && !r.IsUserName(name) {
				again++
			}
		}
		if again != want {
			t.Errorf("%d names of %s, want %d", again, b, want)
		}
		again = 0
	}
}

// TestThreads: a request has the id of a thread, whose process may have the name.
func TestThreads(t *testing.T) {
	r := forks()
	must.OK(t, r.Register(uint32(os.Getpid()), 7, 0, "me"))
	done := make(chan struct{})
	for range 4 {
		go func() {
			if got := r.ActorOf(uint32(syscall.Gettid()), 7, 0); got != "me" {
				t.Errorf("a thread is %s", got)
			}
			done <- struct{}{}
		}()
	}
	for range 4 {
		<-done
	}
}

// TestReuse: an id that another process has now is not taken for the one before.
func TestReuse(t *testing.T) {
	r := forks()
	p, c := shell(t, true)
	must.OK(t, r.Register(p, 7, 0, "a"))
	r.ActorOf(c, 7, 0)
	for _, id := range []uint32{p, c} { // as if they had been others
		key := processView{int(id), 0}
		if k := r.infoByProcess[key]; k != nil {
			k.start--
			k.checkedAt.Store(k.checkedAt.Load() - int64(time.Second))
		}
		if n, ok := r.processNames[key]; ok {
			n.start--
			r.processNames[key] = n
		}
	}
	if got := r.ActorOf(c, 7, 0); got != fmt.Sprintf("sh/%d", p) {
		t.Errorf("the actor of another process: %s", got)
	}
}

// TestOrphans: what was seen while its ancestor was there keeps the name.
func TestOrphans(t *testing.T) {
	r := forks()
	p, c := shell(t, true)
	must.OK(t, r.Register(p, 7, 0, "a"))
	r.ActorOf(c, 7, 0)
	must.OK(t, syscall.Kill(int(p), syscall.SIGKILL))
	await.True(t, "it has another parent", func() bool {
		st, err := process.StatOf(int(c))
		return err == nil && st.Parent != int(p)
	})
	r.infoByProcess[processView{int(c), 0}].checkedAt.Add(-int64(trustTime))
	if got := r.ActorOf(c, 7, 0); got != "a" {
		t.Errorf("an orphan is %s", got)
	}
}

func TestCommandName(t *testing.T) {
	for in, want := range map[string]string{"bash": "bash", "-zsh": "zsh", "a b/c": "a_b_c", "": "_", "..": "_", "(sd-pam)": "_sd-pam_", "a..b": "a__b"} {
		if got := commandName(in); got != want || Check(got+"/1") != nil {
			t.Errorf("%q gives %q, want %q", in, got, want)
		}
	}
}

func BenchmarkOf(b *testing.B) {
	r := forks()
	me := uint32(os.Getpid())
	if !strings.Contains(r.ActorOf(me, 7, 0), "/") {
		b.Skip("no session")
	}
	for b.Loop() {
		r.ActorOf(me, 7, 0)
	}
}

// TestGateway: a program that changes files for all in a sandbox has the name of the fork,
// and that with which the fork was made. The shell that started it has its own.
func TestGateway(t *testing.T) {
	r := forks()
	program := filepath.Join(t.TempDir(), "virtiofsd")
	sleep, err := exec.LookPath("sleep")
	must.OK(t, err)
	must.OK(t, os.Symlink(sleep, program))
	cmd := exec.Command("sh", "-c", program+" 1000 & echo $!; wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	var child uint32
	_, err = fmt.Fscan(out, &child)
	must.OK(t, err)
	for process.ProgramName(int(child)) != "virtiofsd" {
		runtime.Gosched() // until the child has become the program
	}
	own := fmt.Sprintf("sh/%d", cmd.Process.Pid)
	want := func(id, view uint32, actor string) {
		t.Helper()
		if got := r.ActorOf(id, 0, view); got != actor {
			t.Errorf("process %d in view %d is %q, want %q", id, view, got, actor)
		}
	}
	want(child, 1, "box")
	if got := r.GatewayCommand(1) + r.GatewayCommand(2); got != "virtiofsd" {
		t.Errorf("gateways are %q", got)
	}
	want(child, 2, "inner")
	want(child, 0, own)
	want(uint32(cmd.Process.Pid), 1, own)
	must.OK(t, r.Register(0, 0, 1, "agent"))
	again := forks()
	var saved []byte
	r.LoadNames(nil, func(b []byte) error { saved = b; return nil })
	r.saveNames()
	again.LoadNames(saved, nil)
	r = again
	want(child, 1, "agent")
	want(uint32(cmd.Process.Pid), 1, own)
	must.OK(t, r.Register(uint32(cmd.Process.Pid), 0, 1, "named"))
	want(child, 1, "named")
}
