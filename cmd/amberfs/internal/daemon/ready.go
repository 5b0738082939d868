package daemon

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
)

// readyEnv names the descriptor of the readiness pipe in the environment of a
// daemon that was started in the background.
const readyEnv = "_AMBERFS_READY_FD"

// message is a line on the readiness pipe.
type message struct {
	Progress *service.Progress `json:"progress,omitempty"`
	Note     string            `json:"note,omitempty"`
	Ready    *Ready            `json:"ready,omitempty"`
	Error    *fail.Error       `json:"error,omitempty"`
}

// Ready is what `mount` knows once the mount can be used.
type Ready struct {
	Store      string `json:"store"`
	Mountpoint string `json:"mountpoint"`
	PID        int    `json:"pid"`
	// Created is set when the mount made the store.
	Created bool `json:"created"`
}

// Starter hears how the start goes.
type Starter interface {
	Progress(service.Progress)
	Note(string) // something that a person should know
	Ready(Ready)
	Failed(error)
}

// pipeStarter tells the process that waits at the other end of the pipe. That
// process may be gone: the daemon does not care.
type pipeStarter struct {
	mu   sync.Mutex
	w    *os.File
	last time.Time
}

// InheritedStarter gives the Starter of a daemon that Spawn started, or nil.
func InheritedStarter() Starter {
	fd, err := strconv.Atoi(os.Getenv(readyEnv))
	if err != nil {
		return nil
	}
	os.Unsetenv(readyEnv)
	unix.CloseOnExec(fd)
	return &pipeStarter{w: os.NewFile(uintptr(fd), "readiness pipe")}
}

func (p *pipeStarter) send(m message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b, err := json.Marshal(m); err == nil {
		_, _ = p.w.Write(append(b, '\n'))
	}
}

func (p *pipeStarter) Progress(m service.Progress) {
	p.mu.Lock()
	now := time.Now()
	skip := now.Sub(p.last) < 100*time.Millisecond
	if !skip {
		p.last = now
	}
	p.mu.Unlock()
	if !skip {
		p.send(message{Progress: &m})
	}
}

func (p *pipeStarter) Note(s string) { p.send(message{Note: s}) }

func (p *pipeStarter) Ready(r Ready) {
	p.send(message{Ready: &r})
	p.w.Close()
}

func (p *pipeStarter) Failed(err error) {
	p.send(message{Error: fail.Of(err)})
	p.w.Close()
}

// await reads the pipe until the daemon is ready or has failed.
func await(r io.Reader, s Starter) (Ready, error) {
	br := bufio.NewReader(r)
	for {
		line, err := br.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return Ready{}, errSilent
		}
		if err != nil {
			return Ready{}, err
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			return Ready{}, err
		}
		switch {
		case m.Progress != nil:
			s.Progress(*m.Progress)
		case m.Note != "":
			s.Note(m.Note)
		case m.Error != nil:
			return Ready{}, m.Error
		case m.Ready != nil:
			return *m.Ready, nil
		}
	}
}

// errSilent is a daemon that ended without a word.
var errSilent = errors.New("the daemon ended before the mount was ready")
