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
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/plainfile"
)

// ErrNotRegular: a file that git opens is a FIFO, a device or too large. git would block on a FIFO, and
// read a device or a large file to its end.
var ErrNotRegular = errs.New(errs.Invalid, "not a regular file, or larger than 16 MiB: remove it, or the setting that names it")

// maxRulesBytes is the largest size of a file of rules or configuration. A larger .gitignore or
// .gitattributes in the tree is not read. If another such file is larger, the repository is refused with
// ErrNotRegular.
const maxRulesBytes = 16 << 20

// Names of the files of rules outside of the tree, in settings.rules.
const (
	infoAttributes = "info/attributes"
	infoExclude    = "info/exclude"
	userAttributes = "attributes"
	userIgnore     = "ignore"
)

// userFiles maps each setting of git that has the path of a rules file of the user to the key of this file in
// settings.rules. git reads copies of the files.
var userFiles = map[string]string{"core.attributesfile": userAttributes, "core.excludesfile": userIgnore}

// readRules reads the rules of the user and the repository.
func (r *repository) readRules(ctx context.Context, s *settings) error {
	files := map[string]string{"system": "/etc/gitattributes"}
	for _, name := range []string{infoAttributes, infoExclude} {
		files[name] = filepath.Join(filepath.Dir(r.objects), name) // in the git directory that worktrees share
	}

	settingPrefix := make(map[string]string)
	for key, name := range userFiles {
		files[name], settingPrefix[name] = r.userFilePath(ctx, s, key, name), key+": "
	}

	s.rules = make(map[string]string)
	for name, file := range files {
		text, err := readRegular(file)
		if errors.Is(err, ErrNotRegular) { // other errors are ignored, as git ignores them
			return fmt.Errorf("rules of git for %s: %s%w", r.dir, settingPrefix[name], err)
		}
		s.rules[name] = string(text)
	}

	return nil
}

// userFilePath returns the path of a user's own file of rules, "" for no file. The path is the value of the
// setting with the given key. If this is not set, it is the default path of a file with the given name.
func (r *repository) userFilePath(ctx context.Context, s *settings, key, name string) string {
	if _, ok := s.values[key]; ok {
		file, err := r.git(ctx, nil, "config", "--type=path", "--get", key)
		if err != nil || file == "" || filepath.IsAbs(file) {
			return file
		}
		return filepath.Join(strings.TrimSuffix(r.gitDir, "/.git"), file)
	}
	return configFilePath(name)
}

// configFilePath returns the default path of a file in the user's configuration of git, "" without a home
// directory.
func configFilePath(name string) string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "git", name)
}

// configPaths returns the paths of the machine's and the user's configuration of git.
func configPaths() []string {
	files := []string{"/etc/gitconfig", configFilePath("config")}
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

// fingerprint returns a hash of all settings and rules outside of the tree on which the result of git
// add depends. An export can start only from an earlier export with the same fingerprint.
func (r *repository) fingerprint(s *settings, gitignore bool) string {
	h := sha256.New()
	fmt.Fprintf(h, "%v %v %q\n", r.trust, gitignore, s.listing)
	names := []string{infoAttributes, userAttributes, "system"}
	if gitignore {
		names = append(names, infoExclude, userIgnore)
	}
	for _, name := range names {
		fmt.Fprintf(h, "%d\n%s", len(s.rules[name]), s.rules[name])
	}

	return hex.EncodeToString(h.Sum(nil))
}

// readRegular reads a regular file of at most maxRulesBytes bytes. A directory and /dev/null are read as
// empty. Errors: ErrNotRegular; the error of opening the file.
func readRegular(name string) ([]byte, error) {
	text, err := plainfile.Read(name, maxRulesBytes)
	if errors.Is(err, plainfile.ErrUnfit) {
		return nil, checkFile(name, maxRulesBytes)
	}
	return text, err
}

// checkFile returns nil for a regular file of at most maxBytes bytes, a directory, /dev/null, and a name that does not
// exist. For any other file it returns ErrNotRegular.
func checkFile(name string, maxBytes int64) error {
	info, err := os.Stat(name)
	if err != nil {
		return nil // git ignores a file that it cannot find
	}
	if info.IsDir() || info.Mode().IsRegular() && info.Size() <= maxBytes {
		return nil
	}
	if null, err := os.Stat(os.DevNull); err == nil && os.SameFile(info, null) {
		return nil
	}

	return fmt.Errorf("%s: %w", name, ErrNotRegular)
}

// openedPaths are paths in a git directory: files that git opens, and directories in which git opens files.
var openedPaths = []string{"HEAD", "commondir", "shallow", "packed-refs", infoAttributes, infoExclude, "info/grafts", "refs", "logs", "reftable"}

// checkFiles returns ErrNotRegular if git would block on a file of the repository at abs. It does not
// notice later changes of the repository.
func checkFiles(ctx context.Context, abs string, t trust) error {
	dirs := []string{abs}

	if info, err := os.Stat(filepath.Join(abs, ".git")); err == nil {
		dirs[0] = filepath.Join(abs, ".git")
		if !info.IsDir() {
			l := gitdir.LinkAt(abs)
			if l == nil {
				return nil // not a repository, which the caller reports
			}
			dirs = []string{l.Dir, l.Common}
		}
	}

	if text, err := readRegular(filepath.Join(dirs[0], "commondir")); err == nil {
		dirs = append(dirs, gitdir.ResolvePath(dirs[0], strings.TrimRight(string(text), "\r\n")))
	}

	seen := make(map[string]bool)
	if t != trustNone {
		for _, file := range configPaths() {
			if err := checkConfig(ctx, file, seen); err != nil {
				return err
			}
		}
	}

	for _, dir := range dirs {
		if err := checkObjects(filepath.Join(dir, "objects"), seen); err != nil {
			return err
		}

		for _, name := range openedPaths {
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

// checkBelow checks a file, or all files below a directory.
func checkBelow(dir string) error {
	return filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Type().IsRegular() {
			return nil
		}
		return checkFile(name, math.MaxInt64)
	})
}

// checkObjects checks a directory of objects, and its alternates. seen has the paths checked before.
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

// checkConfig checks a file of configuration and all files that it includes, also those under a
// condition (includeIf). seen has the paths checked before.
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

	out, err := runGit(ctx, "", trustNone.env(), nil, "config", "--file", file, "--no-includes", "--type=path", "-z",
		"--get-regexp", `^include(if\..*)?\.path$`)
	if _, ok := errors.AsType[*GitError](err); ok {
		return nil // no include, or a syntax error, which git reports later
	}
	if err != nil {
		return err
	}

	for kv := range splitNUL(string(out)) {
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
