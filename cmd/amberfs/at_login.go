package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/runs"
	"github.com/amberfs/amberfs/internal/env"
	"github.com/amberfs/amberfs/internal/errs"
)

// writeLoginUnit writes a unit for the user's systemd that mounts a store at each login, and
// returns the name of the unit. It enables the unit by a symbolic link, because that needs no running systemd.
func writeLoginUnit(cfg daemon.Config) (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}

	configDir := env.Get("XDG_CONFIG_HOME")
	if !filepath.IsAbs(configDir) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		configDir = filepath.Join(home, ".config")
	}

	sum := sha256.Sum256([]byte(cfg.Mountpoint))
	name := fmt.Sprintf("amberfs-%s-%x.service", runs.NamePrefix(cfg.Mountpoint), sum[:4])
	line := quoteUnitWord(exe) + " mount -f"
	if o := cfg.Options.String(); o != "" {
		line += " -o " + quoteUnitWord(o)
	}

	unit := "[Unit]\nDescription=" + strings.ReplaceAll(cfg.Mountpoint, "%", "%%") + " by amberfs\n\n[Service]\nType=notify\nExecStart=" +
		line + " -- " + quoteUnitWord(cfg.Store) + " " + quoteUnitWord(cfg.Mountpoint) + "\nRestart=on-failure\nOOMPolicy=continue\n\n[Install]\nWantedBy=default.target\n"
	dir := filepath.Join(configDir, "systemd/user")
	wants := filepath.Join(dir, "default.target.wants")
	if err := os.MkdirAll(wants, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(unit), 0o644); err != nil {
		return "", err
	}

	return name, errs.Ignore(os.Symlink("../"+name, filepath.Join(wants, name)), os.ErrExist)
}

// quoteUnitWord quotes a word of a command line for systemd.
func quoteUnitWord(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$", "\n", `\n`).Replace(s) + `"`
}
