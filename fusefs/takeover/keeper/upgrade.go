package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Command is the name of the hidden command that must call Resume.
const Command = "keep"

// stateEnv is the environment variable with the descriptor from which Resume reads the keeper's state.
const stateEnv = "_AMBERFS_KEEPER_STATE_FD"

// maxTrialTime is how long the daemon of another program may take to become ready. It is short: the earlier
// daemon has written a checkpoint, so the new daemon has little to recover.
const maxTrialTime = time.Minute

// limitTrialTime has a daemon of another program killed if it is not ready after maxTrialTime. The caller calls stop
// when the daemon has ended.
func (k *keeper) limitTrialTime() (stop func()) {
	if k.triedProgram == "" {
		return func() {}
	}
	child := k.Child
	t := time.AfterFunc(maxTrialTime, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.Child == child && k.triedProgram != "" {
			_ = unix.Kill(child, unix.SIGKILL)
		}
	})

	return func() { t.Stop() }
}

// onReady is called when the daemon is ready. If the daemon runs another program than the keeper, the
// keeper executes that program, and onReady returns only if this fails.
func (k *keeper) onReady() {
	k.mu.Lock()
	k.ready = true
	program := k.triedProgram
	k.triedProgram = ""
	k.mu.Unlock()
	k.Deaths.noteReady()

	if k.ReadyPipe != nil {
		k.ReadyPipe.Close()
		k.ReadyPipe = nil
	}

	if k.Connection != nil && k.Background {
		dropStderr()
	}
	if program == "" {
		return
	}

	err := k.execute(program)
	k.Log(k.Connection.Store, "the keeper stays the old program", "program", program, "err", err)
}

// dropStderr sends the error output to /dev/null: the process that started the keeper reads it only
// until the mount is ready.
func dropStderr() {
	if null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		_ = unix.Dup3(int(null.Fd()), 2, 0)
		null.Close()
	}
}

// execute executes another program in this process. The program continues with the same daemon, see
// Resume. execute returns only if it fails.
func (k *keeper) execute(program string) error {
	b, err := json.Marshal(k)
	if err != nil {
		return err
	}

	state, err := unix.MemfdCreate("amberfs-keeper", 0)
	if err != nil {
		return err
	}
	defer unix.Close(state)

	if _, err := unix.Pwrite(state, b, 0); err != nil {
		return err
	}

	k.setCloseOnExec(false)
	err = syscall.Exec(program, []string{"amberfs", Command, k.Connection.Store, k.Connection.Mountpoint},
		append(os.Environ(), stateEnv+"="+strconv.Itoa(state)))
	k.setCloseOnExec(true)

	return fmt.Errorf("executing %s: %w", program, err)
}

// setCloseOnExec sets or clears the close-on-exec flag of all descriptors that an upgrade passes on.
func (k *keeper) setCloseOnExec(on bool) {
	flag := 0
	if on {
		flag = unix.FD_CLOEXEC
	}
	for _, fd := range []int{k.Link, k.Device, k.Lock, k.Socket} {
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFD, flag)
	}
	for _, fd := range k.Conns {
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFD, flag)
	}
}

// Resume continues Run in a process in which an earlier version of the program was the keeper. It reads the
// state that execute wrote.
func Resume(log func(store, text string, args ...any)) (status int, err error) {
	fd, err := strconv.Atoi(os.Getenv(stateEnv))
	if err != nil {
		return 0, errors.New("this command is for the keeper of a mount only")
	}

	os.Unsetenv(stateEnv)
	state := os.NewFile(uintptr(fd), "state")
	b, err := io.ReadAll(io.NewSectionReader(state, 0, math.MaxInt32))
	state.Close()
	if err != nil {
		return 0, fmt.Errorf("reading the state of the keeper: %w", err)
	}

	k := &keeper{}
	if err := json.Unmarshal(b, k); err != nil {
		return 0, fmt.Errorf("reading the state of the keeper: %w", err)
	}

	k.Log, k.ready, k.begunRequests, k.signalled = log, true, make(map[uint64]bool), make(chan struct{})
	k.Deaths.noteReady()
	k.setCloseOnExec(true)
	defer k.forwardSignals()()

	return k.loop()
}
