package hooks

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/amberfs/amberfs/internal/env"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/service"
)

// Failures is the log of failed hooks. It is needed because agents do not show the error output of hooks.
type Failures struct {
	dir string // "" for a user without a home directory
}

const (
	// logFile has a line for each failure.
	logFile = "hook.log"
	// warningsFile has a line for each warning that was shown.
	warningsFile = "hook-warned"
	// notInstalledFile exists if the shell has warned that amberfs is not installed.
	notInstalledFile = "hook-missing"
	// maxLogSize is the size in bytes above which a file is renamed and a new one begins.
	maxLogSize = 1 << 20
)

// UserFailures returns the log in the state directory of the user.
func UserFailures() Failures {
	state, err := env.StateDir()
	if err != nil {
		return Failures{}
	}
	return Failures{state}
}

// RecordSuccess records that a hook ran. If amberfs is removed later, the shell warns again: see shellCommand.
func (f Failures) RecordSuccess() {
	if f.dir != "" {
		_ = os.Remove(filepath.Join(f.dir, notInstalledFile)) // usually the file does not exist
	}
}

// RecordFailure writes a failure to the log. warn reports whether to show the failure to the user: each reason is
// shown once in a session. log is the path of the log, "" if it cannot be written.
func (f Failures) RecordFailure(agent, session, dir, reason string, now time.Time) (warn bool, log string) {
	if f.dir == "" || os.MkdirAll(f.dir, 0o700) != nil {
		return true, ""
	}
	log = filepath.Join(f.dir, logFile)
	line := fmt.Sprintf("%s %s %q: %s\n", now.Format(time.RFC3339), service.SessionActor(agent, session), dir, gitquote.EscapeControls(reason, ""))
	if appendLine(log, line) != nil {
		log = ""
	}
	if session == "" {
		session = now.Format(time.DateOnly)
	}

	sum := sha256.Sum256([]byte(strings.Join([]string{agent, session, dir, reason}, "\x00")))
	key := hex.EncodeToString(sum[:16]) + "\n"
	file := filepath.Join(f.dir, warningsFile)
	shown, err := os.ReadFile(file)
	if err == nil && bytes.Contains(shown, []byte(key)) {
		return false, log
	}

	_ = appendLine(file, key) // if it fails, the warning is shown again

	return true, log
}

// appendLine adds a line to a file. A file of more than maxLogSize bytes is renamed to file.1 first.
func appendLine(file, line string) error {
	if st, err := os.Lstat(file); err == nil && st.Size() > maxLogSize {
		if err := os.Rename(file, file+".1"); err != nil {
			return err
		}
	}

	w, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}

	_, err = w.WriteString(line)
	return errors.Join(err, w.Close())
}

// shellCommand returns the command of a hook. Its exit status is always 0. If amberfs is not installed, the shell
// prints one warning. Users without amberfs run the command if they have the settings from a repository.
func shellCommand(agent string) string {
	missing := encodeJSON(WarningOutput(agent, "amberfs is not installed: no snapshots are taken"))
	return commandStart(agent) + `2>/dev/null || { d="${XDG_STATE_HOME:-$HOME/.local/state}/amberfs"; [ -e "$d/` + notInstalledFile +
		`" ] || { echo '` + string(missing) + `'; mkdir -p "$d" && : >"$d/` + notInstalledFile + `"; }; } 2>/dev/null || true`
}

// commandStart returns the beginning of the command of a hook, by which isAmberfsHook recognizes the hook.
func commandStart(agent string) string { return "amberfs hook " + agent + " " }

// LastFailure returns the path of the log and its last line, the newest failure. Without a failure, both are "".
func (f Failures) LastFailure() (log, line string) {
	if f.dir == "" {
		return "", ""
	}

	log = filepath.Join(f.dir, logFile)
	b, err := os.ReadFile(log)
	if err != nil || len(b) == 0 {
		return "", ""
	}

	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return log, lines[len(lines)-1]
}
