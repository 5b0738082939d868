package sandbox

import (
	"encoding/json"
	"os"

	"github.com/amberfs/amberfs/internal/fail"
)

// Config says what to run, and where.
type Config struct {
	Store      string   `json:"store"`      // absolute
	Mountpoint string   `json:"mountpoint"` // absolute
	Temp       string   `json:"temp"`       // taken away at the end; "" for none
	From       string   `json:"from"`       // what the daemon fills a new temporary store from; "" for nothing
	Fork       string   `json:"fork"`       // run in this fork, made when missing
	After      string   `json:"after"`      // capture under this name at the end
	ReadOnly   bool     `json:"read_only"`
	Options    string   `json:"options"` // as after -o
	Command    []string `json:"command"`
	// Hold has the daemon go on when the program has ended, until outer is done
	// with the workspace. The temporary directory then is outer's to take away.
	Hold bool `json:"hold"`
	// Text is the command for the event log.
	Text string `json:"text"`
	// UserNS is set by Outer when the namespaces include one for users.
	UserNS bool `json:"user_ns"`
	// Shared is the mount point of the daemon that serves Store, set by Outer. Without
	// a Temp, all that run on the store share a daemon.
	Shared string `json:"shared"`
	// Tree: the daemon has sent a copy of the mount.
	Tree bool `json:"tree"`
}

// configEnv carries the configuration from outer to inner.
const configEnv = "_AMBERFS_RUN"

// The descriptors that inner gets beside the standard ones.
const (
	lockFD = 3 // keeps the lock of the temporary directory, or nothing
	holdFD = 4 // of Config.Hold
	treeFD = 5 // of Config.Shared: a copy of the mount, if Config.Tree
	joinFD = 6 // of Config.Shared: the connection to the daemon
)

// Command is the hidden command that must call Inner.
const Command = "run-inside"

func (c Config) env() (string, error) {
	b, err := json.Marshal(c)
	return configEnv + "=" + string(b), err
}

// inherited reads the configuration, and hides it from the program.
func inherited() (Config, error) {
	var c Config
	err := json.Unmarshal([]byte(os.Getenv(configEnv)), &c)
	if err != nil || len(c.Command) == 0 {
		return c, fail.New(fail.Usage, "%s is for `amberfs run` only", Command)
	}
	return c, os.Unsetenv(configEnv)
}

// The statuses that env(1) and nohup(1) give, too.
const (
	statusCannotExecute = 126
	statusNoCommand     = 127
	statusSignal        = 128
)
