package process

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

func TestKillPending(t *testing.T) {
	for status, want := range map[string]bool{
		"Name:\tcat\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n": true,
		"Name:\tcat\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000102\n": true,
		"Name:\tcat\nSigPnd:\t0000000000000002\nShdPnd:\t0000000000000200\n": false,
		"Name:\tSigPnd\nSigBlk:\t0000000000000100\n":                         false,
		"": false,
	} {
		if killPending(status) != want {
			t.Errorf("%q: %v", status, !want)
		}
	}
}

func TestOurselves(t *testing.T) {
	if IsKilled(os.Getpid()) {
		t.Error("we are killed")
	}
	if got := ProcessOf(syscall.Gettid()); got != os.Getpid() {
		t.Errorf("our thread is one of %d, not of %d", got, os.Getpid())
	}
}

func TestCommand(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	must.OK(t, cmd.Start())
	if got := ProgramName(cmd.Process.Pid); got != "sleep" {
		t.Errorf("the command is %q", got)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if got := ProgramName(cmd.Process.Pid); got != "" || ProcessOf(cmd.Process.Pid) != cmd.Process.Pid {
		t.Errorf("of a process that is gone: %q", got)
	}
}

func TestInGroup(t *testing.T) {
	groups, err := os.Getgroups()
	must.OK(t, err)
	for _, g := range groups {
		if !InGroup(os.Getpid(), uint32(g)) {
			t.Errorf("we are not in our group %d", g)
		}
	}
	if InGroup(os.Getpid(), 1<<32-2) || InGroup(1<<30, 0) {
		t.Error("somebody is in a group that is not theirs")
	}
}
