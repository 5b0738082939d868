package gitbridge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/env"
)

// settings are what a repository's configuration makes git add do.
type settings struct {
	values            map[string]string // by lower-case key; the last one counts
	noExec            bool              // core.fileMode=false: every file is 100644
	autoCRLF          bool              // line ends are converted without attributes
	names             nameRules
	author, committer string // "Name <mail>"
}

func (r *repository) settings(ctx context.Context) (*settings, error) {
	out, err := r.git(ctx, nil, "config", "--list", "-z")
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of %s: %w", r.dir, err)
	}
	s := &settings{values: make(map[string]string)}
	for _, kv := range strings.Split(strings.TrimSuffix(out, "\x00"), "\x00") {
		key, value, ok := strings.Cut(kv, "\n")
		if !ok {
			value = "true" // a key alone
		}
		s.values[key] = value
	}
	s.noExec = !s.flag("core.filemode", true)
	s.autoCRLF = s.values["core.autocrlf"] == "input" || s.flag("core.autocrlf", false)
	s.names = nameRules{ntfs: s.flag("core.protectntfs", true), hfs: s.flag("core.protecthfs", false)}
	s.author, s.committer = r.identity(ctx, "GIT_AUTHOR_IDENT"), r.identity(ctx, "GIT_COMMITTER_IDENT")
	return s, nil
}

// identity is the user as the settings of git have it, or the program.
func (r *repository) identity(ctx context.Context, which string) string {
	out, err := r.git(ctx, nil, "-c", "user.useConfigOnly=true", "var", which)
	if err != nil {
		return "amberfs <amberfs@localhost>"
	}
	return out[:strings.LastIndexByte(out, '>')+1]
}

// flag reads a boolean as git does.
func (s *settings) flag(key string, unset bool) bool {
	v, ok := s.values[key]
	if !ok {
		return unset
	}
	switch strings.ToLower(v) {
	case "true", "yes", "on":
		return true
	case "", "false", "no", "off":
		return false
	}
	return strings.Trim(v, "0") != ""
}

// path returns a setting that is a file name, with ~ replaced.
func (s *settings) path(key string) string {
	v := s.values[key]
	if rest, ok := strings.CutPrefix(v, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return v
}

// userFile is the file of the user's own ignores or attributes.
func (s *settings) userFile(key, name string) string {
	if _, ok := s.values[key]; ok {
		return s.path(key)
	}
	dir := env.Get("XDG_CONFIG_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "git", name)
}

// infoFile is a file of the repository's info directory, which the worktrees of
// a repository share.
func (r *repository) infoFile(name string) string {
	return filepath.Join(filepath.Dir(r.objects), "info", name)
}

// ignoreFiles and attributeFiles are the files outside of the tree that say
// what is ignored and converted.
func (r *repository) ignoreFiles(s *settings) []string {
	return []string{r.infoFile("exclude"), s.userFile("core.excludesfile", "ignore")}
}

func (r *repository) attributeFiles(s *settings) []string {
	return []string{r.infoFile("attributes"), s.userFile("core.attributesfile", "attributes"), "/etc/gitattributes"}
}

// plainKeys are settings that matter to what git makes of a file, and that name
// no program.
var plainKeys = []string{"core.autocrlf", "core.eol", "core.ignorecase", "core.attributesfile", "core.excludesfile",
	"core.checkroundtripencoding", "core.sharedrepository"}

// writeGitDir makes a git directory that has only the plain settings and rules
// of a repository.
func (s *settings) writeGitDir(r *repository, dir string) error {
	config := "[core]\n\trepositoryformatversion = 0\n"
	if r.sha256 {
		config = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n"
	}
	for _, key := range plainKeys {
		if value, ok := s.values[key]; ok {
			config += fmt.Sprintf("[core]\n\t%s = %s\n", strings.TrimPrefix(key, "core."), configValue(value))
		}
	}
	files := map[string]string{"HEAD": "ref: refs/heads/main\n", "config": config}
	for _, name := range []string{"attributes", "exclude"} {
		if r.trust != trustNone {
			files["info/"+name] = readRules(r.infoFile(name))
		}
	}
	for _, sub := range []string{"objects", "refs", "info"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// configValue quotes a value for a configuration file.
func configValue(v string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(v) + `"`
}

// fingerprint stands for everything outside of the tree that decides what git
// add makes of it. An earlier export is built upon only if it had the same.
func (r *repository) fingerprint(s *settings, gitignore bool) string {
	h := sha256.New()
	fmt.Fprintf(h, "%v %v %v %v %+v\n", r.trust, r.sha256, gitignore, s.noExec, s.names)
	var keys []string
	for k := range s.values {
		if k == "core.autocrlf" || k == "core.eol" || k == "core.ignorecase" || strings.HasPrefix(k, "filter.") {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		fmt.Fprintf(h, "%s=%q\n", k, s.values[k])
	}
	files := r.attributeFiles(s)
	if gitignore {
		files = append(files, r.ignoreFiles(s)...)
	}
	for _, name := range files {
		text := readRules(name)
		fmt.Fprintf(h, "%d\n%s", len(text), text)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// readRules reads a file of rules. A missing one says nothing; neither does what
// is no regular file, nor one that is larger than a user writes.
func readRules(name string) string {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	const largest = 16 << 20
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > largest {
		return ""
	}
	data, err := io.ReadAll(io.LimitReader(f, largest))
	if err != nil {
		return ""
	}
	return string(data)
}

// exist reports whether any of the files does and is not empty.
func exist(files []string) bool {
	for _, name := range files {
		if info, err := os.Stat(name); err == nil && info.Size() > 0 {
			return true
		}
	}
	return false
}
