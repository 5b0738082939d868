package gitbridge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	s.author = identity(firstOf(os.Getenv("GIT_AUTHOR_NAME"), s.values["author.name"], s.values["user.name"]),
		firstOf(os.Getenv("GIT_AUTHOR_EMAIL"), s.values["author.email"], s.values["user.email"]))
	s.committer = identity(firstOf(os.Getenv("GIT_COMMITTER_NAME"), s.values["committer.name"], s.values["user.name"]),
		firstOf(os.Getenv("GIT_COMMITTER_EMAIL"), s.values["committer.email"], s.values["user.email"]))
	return s, nil
}

// firstOf is the first of some texts that is not empty.
func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// identity is the author of exports: the user as git knows them, or the program.
func identity(name, email string) string {
	clean := func(s string) string {
		return strings.TrimSpace(strings.Map(func(r rune) rune {
			if r == '<' || r == '>' || r < ' ' {
				return -1
			}
			return r
		}, s))
	}
	name, email = clean(name), clean(email)
	if name == "" || email == "" {
		return "amberfs <amberfs@localhost>"
	}
	return name + " <" + email + ">"
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
	dir := os.Getenv("XDG_CONFIG_HOME")
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

// fingerprint stands for everything outside of the tree that decides what git
// add makes of it. An earlier export is built upon only if it had the same.
func (r *repository) fingerprint(s *settings, gitignore bool) string {
	h := sha256.New()
	fmt.Fprintf(h, "1 %v %v %v %+v\n", r.sha256, gitignore, s.noExec, s.names)
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
		data, _ := os.ReadFile(name) // a missing one says nothing
		fmt.Fprintf(h, "%d\n%s", len(data), data)
	}
	return hex.EncodeToString(h.Sum(nil))
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
