package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/runs"
	"github.com/amberfs/amberfs/internal/env"
)

// mountAtLogin writes a unit of the user's systemd that mounts a store at each login, and
// returns its name. It is enabled by a link, which needs no systemd that runs.
func mountAtLogin(cfg daemon.Config) (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}

	config := env.Get("XDG_CONFIG_HOME")
	if !filepath.IsAbs(config) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		config = filepath.Join(home, ".config")
	}

	sum := sha256.Sum256([]byte(cfg.Mountpoint))
	name := fmt.Sprintf("amberfs-%s-%x.service", runs.Base(cfg.Mountpoint), sum[:4])
	line := unitWord(exe) + " mount -f"
	if o := cfg.Options.String(); o != "" {
		line += " -o " + unitWord(o)
	}

	unit := "[Unit]\nDescription=" + strings.ReplaceAll(cfg.Mountpoint, "%", "%%") + " by amberfs\n\n[Service]\nType=notify\nExecStart=" +
		line + " -- " + unitWord(cfg.Store) + " " + unitWord(cfg.Mountpoint) + "\nRestart=on-failure\nOOMPolicy=continue\n\n[Install]\nWantedBy=default.target\n"
	dir := filepath.Join(config, "systemd/user")
	wants := filepath.Join(dir, "default.target.wants")
	err = os.MkdirAll(wants, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name), []byte(unit), 0o644)
	}

	if err == nil {
		if err = os.Symlink("../"+name, filepath.Join(wants, name)); errors.Is(err, os.ErrExist) {
			err = nil
		}
	}

	return name, err
}

// unitWord quotes a word of a command line for systemd.
func unitWord(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$", "\n", `\n`).Replace(s) + `"`
}
