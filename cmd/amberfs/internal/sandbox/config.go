package sandbox

import (
	"encoding/json"
	"os"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
)

// Config says what to run, and where.
type Config struct {
	Store      string   `json:"store"`      // absolute
	Mountpoint string   `json:"mountpoint"` // absolute
	Temp       string   `json:"temp"`       // taken away at the end; "" for none
	Fork       string   `json:"fork"`       // run in this fork, made when missing
	After      string   `json:"after"`      // capture under this name at the end
	ReadOnly   bool     `json:"read_only"`
	Options    string   `json:"options"` // as after -o
	Command    []string `json:"command"`
	// Text is the command for the event log.
	Text string `json:"text"`
	// UserNS is set by Outer when the namespaces include one for users.
	UserNS bool `json:"user_ns"`
}

// workspace is the one that the program runs in, as the daemon's socket names
// it.
func (c Config) workspace() []string {
	if c.Fork == "" {
		return nil
	}
	return []string{c.Fork}
}

// configEnv carries the configuration from outer to inner.
const configEnv = "_AMBERFS_RUN"

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
