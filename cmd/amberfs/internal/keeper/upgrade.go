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

// Command is the hidden command that must call Resume.
const Command = "keep"

// stateEnv names the descriptor with the state of a keeper in its environment.
const stateEnv = "_AMBERFS_KEEPER_STATE_FD"

// tryTime is how long another program may take to become ready: it starts after a checkpoint.
const tryTime = time.Minute

// limitTry kills a daemon of another program that does not become ready, until stop is called.
func (k *keeper) limitTry() (stop func()) {
	if k.trying == "" {
		return func() {}
	}
	child := k.Child
	t := time.AfterFunc(tryTime, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.Child == child && k.trying != "" {
			_ = unix.Kill(child, unix.SIGKILL)
		}
	})

	return func() { t.Stop() }
}

func (k *keeper) becameReady() {
	k.mu.Lock()
	k.ready = true
	program := k.trying
	k.trying = ""
	k.mu.Unlock()
	k.Deaths.ready()

	if k.Ready != nil {
		k.Ready.Close()
		k.Ready = nil
	}

	if k.Connection != nil && k.Background {
		silence()
	}
	if program == "" {
		return
	}

	err := k.become(program)
	k.Log(k.Connection.Store, "the keeper stays the old program", "program", program, "err", err)
}

// silence leaves the error output to the process that has started this one.
func silence() {
	if null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		_ = unix.Dup3(int(null.Fd()), 2, 0)
		null.Close()
	}
}

// become executes another program, which keeps the same daemon. It returns if that fails.
func (k *keeper) become(program string) error {
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

	k.closeOnExec(false)
	err = syscall.Exec(program, []string{"amberfs", Command, k.Connection.Store, k.Connection.Mountpoint},
		append(os.Environ(), stateEnv+"="+strconv.Itoa(state)))
	k.closeOnExec(true)

	return fmt.Errorf("executing %s: %w", program, err)
}

func (k *keeper) closeOnExec(on bool) {
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

// Resume is Run for a keeper that another program was.
func Resume(log func(store, text string, args ...any)) (status int, err error) {
	fd, err := strconv.Atoi(os.Getenv(stateEnv))
	if err != nil {
		return 0, errors.New("this command is for the keeper of a mount only")
	}

	os.Unsetenv(stateEnv)
	state := os.NewFile(uintptr(fd), "state")
	b, err := io.ReadAll(io.NewSectionReader(state, 0, math.MaxInt32))
	state.Close()
	k := &keeper{}
	if err == nil {
		err = json.Unmarshal(b, k)
	}
	if err != nil {
		return 0, fmt.Errorf("reading the state of the keeper: %w", err)
	}

	k.Log, k.ready, k.begun, k.signalled = log, true, make(map[uint64]bool), make(chan struct{})
	k.Deaths.ready()
	k.closeOnExec(true)
	defer k.forward()()

	return k.loop()
}
