package gitbridge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/env"
)

// settings are what a repository's configuration makes git add do.
type settings struct {
	all               string            // as git lists them
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
	s := &settings{all: out, values: make(map[string]string)}
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

// userFile is the file of the user's own ignores or attributes.
func (s *settings) userFile(key, name string) string {
	file, ok := s.values[key]
	if !ok {
		file = "~/.config/git/" + name
		if dir := env.Get("XDG_CONFIG_HOME"); dir != "" {
			file = filepath.Join(dir, "git", name)
		}
	}
	if rest, ok := strings.CutPrefix(file, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return file
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
	fmt.Fprintf(h, "%v %v %q\n", r.trust, gitignore, s.all)
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
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > largestRules {
		return ""
	}
	data, _ := io.ReadAll(io.LimitReader(f, largestRules)) // git, too, takes what can be read
	return string(data)
}

// largestRules is how many bytes of rules, as in .gitignore, are read. A larger file has none.
const largestRules = 16 << 20
