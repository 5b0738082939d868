package hooks

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/amberfs/amberfs/internal/env"
	"github.com/amberfs/amberfs/internal/gitquote"
)

// Failures is the log of failed hooks. Agents do not show what hooks print on standard error.
type Failures struct {
	dir string // "" for a user without a home
}

const (
	// logFile has a line for each failure.
	logFile = "hook.log"
	// warnedFile has a line for each warning that was shown.
	warnedFile = "hook-warned"
	// missingFile exists if the shell has warned that there is no amberfs.
	missingFile = "hook-missing"
	// maxFile is the size in bytes from which a file is begun again.
	maxFile = 1 << 20
)

// StateFailures are those in the state directory of the user.
func StateFailures() Failures {
	state, err := env.StateDir()
	if err != nil {
		return Failures{}
	}
	return Failures{state}
}

// Worked resets the shell's warning about a missing amberfs.
func (f Failures) Worked() {
	if f.dir != "" {
		_ = os.Remove(filepath.Join(f.dir, missingFile)) // mostly there is none
	}
}

// Failed writes a failure to the log, and reports whether to show it to the user: once in each
// session for each reason. It returns the name of the log, "" if nothing can be written.
func (f Failures) Failed(agent, session, dir, why string, now time.Time) (warn bool, log string) {
	if f.dir == "" || os.MkdirAll(f.dir, 0o700) != nil {
		return true, ""
	}
	log = filepath.Join(f.dir, logFile)
	line := fmt.Sprintf("%s %s %q: %s\n", now.Format(time.RFC3339), Actor(agent, session), dir, gitquote.Shown(why, ""))
	if appendTo(log, line) != nil {
		log = ""
	}
	if session == "" {
		session = now.Format(time.DateOnly)
	}

	sum := sha256.Sum256([]byte(strings.Join([]string{agent, session, dir, why}, "\x00")))
	key := hex.EncodeToString(sum[:16]) + "\n"
	file := filepath.Join(f.dir, warnedFile)
	shown, err := os.ReadFile(file)
	if err == nil && bytes.Contains(shown, []byte(key)) {
		return false, log
	}

	_ = appendTo(file, key) // else it is shown again

	return true, log
}

// appendTo adds a line to a file. One that is too large is begun again; what it had stays beside.
func appendTo(file, line string) error {
	if st, err := os.Lstat(file); err == nil && st.Size() > maxFile {
		if err := os.Rename(file, file+".1"); err != nil {
			return err
		}
	}

	w, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, fs.FileMode(0o600))
	if err != nil {
		return err
	}

	_, err = w.WriteString(line)
	if cerr := w.Close(); err == nil {
		err = cerr
	}

	return err
}

// shellCommand is the command of a hook. Its status is always 0. Where there is no amberfs, the shell shows
// that once: others may have the same settings without it.
func shellCommand(agent string) string {
	missing := encode(Warning(agent, "amberfs is not installed: no snapshots are taken"))
	return commandStart(agent) + `2>/dev/null || { d="${XDG_STATE_HOME:-$HOME/.local/state}/amberfs"; [ -e "$d/` + missingFile +
		`" ] || { echo '` + string(missing) + `'; mkdir -p "$d" && : >"$d/` + missingFile + `"; }; } 2>/dev/null || true`
}

func commandStart(agent string) string { return "amberfs hook " + agent + " " }
