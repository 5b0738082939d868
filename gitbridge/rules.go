package gitbridge

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/amberfs/amberfs/gitbridge/gitdir"
	"github.com/amberfs/amberfs/internal/env"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/plainfile"
)

// ErrNotRegular: git would wait for a FIFO, and read a device or a very large file to its end.
var ErrNotRegular = errs.New(errs.Invalid, "not a regular file, or larger than 16 MiB: remove it, or the setting that names it")

// largestRules is how many bytes of rules or configuration are read. A larger .gitignore has
// none, and a repository with another such file is refused.
const largestRules = 16 << 20

// Names of the files outside of the tree that say what is ignored and converted.
const (
	infoAttributes = "info/attributes"
	infoExclude    = "info/exclude"
	userAttributes = "attributes"
	userIgnore     = "ignore"
)

// userFiles are the settings with the user's own files. git is given copies of these.
var userFiles = map[string]string{"core.attributesfile": userAttributes, "core.excludesfile": userIgnore}

// readRules reads the rules of the user and the repository.
func (r *repository) readRules(ctx context.Context, s *settings) error {
	files := map[string]string{"system": "/etc/gitattributes"}
	for _, name := range []string{infoAttributes, infoExclude} {
		files[name] = filepath.Join(filepath.Dir(r.objects), name) // worktrees share it
	}

	setting := make(map[string]string)
	for key, name := range userFiles {
		files[name], setting[name] = r.userFile(ctx, s, key, name), key+": "
	}

	s.rules = make(map[string]string)
	for name, file := range files {
		text, err := readRegular(file)
		if errors.Is(err, ErrNotRegular) { // git, too, goes on without a file that it cannot read
			return fmt.Errorf("rules of git for %s: %s%w", r.dir, setting[name], err)
		}
		s.rules[name] = string(text)
	}

	return nil
}

// userFile is the file of the user's own ignores or attributes, "" if there is none.
func (r *repository) userFile(ctx context.Context, s *settings, key, name string) string {
	if _, ok := s.values[key]; ok {
		file, err := r.git(ctx, nil, "config", "--type=path", "--get", key)
		if err != nil || file == "" || filepath.IsAbs(file) {
			return file
		}
		return filepath.Join(strings.TrimSuffix(r.gitDir, "/.git"), file)
	}
	return configFile(name)
}

// configFile is the path of one of the user's own files of git, "" if there is none.
func configFile(name string) string {
	if dir := env.Get("XDG_CONFIG_HOME"); dir != "" {
		return filepath.Join(dir, "git", name)
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".config/git", name)
	}

	return ""
}

// configs are the files of configuration of the machine and the user.
func configs() []string {
	files := []string{"/etc/gitconfig", configFile("config")}
	if home, err := os.UserHomeDir(); err == nil {
		files = append(files, filepath.Join(home, ".gitconfig"))
	}

	for _, kv := range environment() {
		if name, file, _ := strings.Cut(kv, "="); name == "GIT_CONFIG_SYSTEM" || name == "GIT_CONFIG_GLOBAL" {
			files = append(files, file)
		}
	}

	return files
}

// fingerprint is a hash of everything outside of the tree on which the result of git add depends. A
// new export can start from an earlier one only if that had the same fingerprint.
func (r *repository) fingerprint(s *settings, gitignore bool) string {
	h := sha256.New()
	fmt.Fprintf(h, "%v %v %q\n", r.trust, gitignore, s.all)
	names := []string{infoAttributes, userAttributes, "system"}
	if gitignore {
		names = append(names, infoExclude, userIgnore)
	}
	for _, name := range names {
		fmt.Fprintf(h, "%d\n%s", len(s.rules[name]), s.rules[name])
	}

	return hex.EncodeToString(h.Sum(nil))
}

// readRegular reads a regular file. A directory and /dev/null are empty.
func readRegular(name string) ([]byte, error) {
	text, err := plainfile.Read(name, largestRules)
	if errors.Is(err, plainfile.ErrUnfit) {
		return nil, checkFile(name, largestRules)
	}
	return text, err
}

// checkFile refuses anything but regular files of at most most bytes, directories and /dev/null.
func checkFile(name string, most int64) error {
	info, err := os.Stat(name)
	if err != nil {
		return nil // git, too, finds nothing there
	}
	if info.IsDir() || info.Mode().IsRegular() && info.Size() <= most {
		return nil
	}
	if null, err := os.Stat(os.DevNull); err == nil && os.SameFile(info, null) {
		return nil
	}

	return fmt.Errorf("%s: %w", name, ErrNotRegular)
}

// Files and directories of a git directory that git opens.
var (
	opened = []string{"HEAD", "commondir", "shallow", "packed-refs", infoAttributes, infoExclude, "info/grafts"}
	walked = []string{"refs", "logs", "reftable"}
)

// checkFiles refuses a repository at abs with a file on which git would hang. Later changes of the
// repository are not noticed.
func checkFiles(ctx context.Context, abs string, t trust) error {
	dirs := []string{abs}

	if info, err := os.Stat(filepath.Join(abs, ".git")); err == nil {
		dirs[0] = filepath.Join(abs, ".git")
		if !info.IsDir() {
			l := gitdir.LinkAt(abs)
			if l == nil {
				return nil // no repository
			}
			dirs = []string{l.Dir, l.Common}
		}
	}

	if text, err := readRegular(filepath.Join(dirs[0], "commondir")); err == nil {
		dirs = append(dirs, gitdir.Resolved(dirs[0], strings.TrimRight(string(text), "\r\n")))
	}

	seen := make(map[string]bool)
	if t != trustNone {
		for _, file := range configs() {
			if err := checkConfig(ctx, file, seen); err != nil {
				return err
			}
		}
	}

	for _, dir := range dirs {
		if err := checkObjects(filepath.Join(dir, "objects"), seen); err != nil {
			return err
		}

		for _, name := range opened {
			if err := checkFile(filepath.Join(dir, name), math.MaxInt64); err != nil {
				return err
			}
		}

		for _, name := range walked {
			if err := checkBelow(filepath.Join(dir, name)); err != nil {
				return err
			}
		}

		for _, name := range []string{"config", "config.worktree"} {
			if err := checkConfig(ctx, filepath.Join(dir, name), seen); err != nil {
				return err
			}
		}
	}

	return nil
}

func checkBelow(dir string) error {
	return filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Type().IsRegular() {
			return nil
		}
		return checkFile(name, math.MaxInt64)
	})
}

// checkObjects checks a directory of objects, and those that it names as alternates.
func checkObjects(dir string, seen map[string]bool) error {
	if seen[dir] {
		return nil
	}
	seen[dir] = true
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if name := e.Name(); len(name) == 2 || name == "pack" || name == "info" {
			if err := checkBelow(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}

	list := filepath.Join(dir, "info/alternates")
	text, err := readRegular(list)
	if errors.Is(err, ErrNotRegular) {
		return err
	}

	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if name, err := strconv.Unquote(line); err == nil {
			line = name
		}
		if line == "" || line[0] == '#' {
			continue
		}
		if !filepath.IsAbs(line) {
			line = filepath.Join(dir, line)
		}
		if err := checkObjects(filepath.Clean(line), seen); err != nil {
			return fmt.Errorf("%s: %w", list, err)
		}
	}

	return nil
}

// checkConfig checks a file of configuration, and all that it includes, under whatever condition.
func checkConfig(ctx context.Context, file string, seen map[string]bool) error {
	if seen[file] {
		return nil
	}
	seen[file] = true
	text, err := readRegular(file)
	if errors.Is(err, ErrNotRegular) {
		return err
	}
	if !bytes.Contains(bytes.ToLower(text), []byte("include")) {
		return nil
	}

	out, err := run(ctx, "", trustNone.env(), nil, "config", "--file", file, "--no-includes", "--type=path", "-z",
		"--get-regexp", `^include(if\..*)?\.path$`)
	var g *GitError
	if errors.As(err, &g) {
		return nil // none, or git says what is wrong when it reads it
	}
	if err != nil {
		return err
	}

	for _, kv := range strings.Split(string(out), "\x00") {
		key, path, _ := strings.Cut(kv, "\n")
		if path != "" && !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(file), path)
		}
		if err := checkConfig(ctx, path, seen); err != nil {
			return fmt.Errorf("%s in %s: %w", key, file, err)
		}
	}

	return nil
}
