package gitbridge

import (
	"context"
	"fmt"
	"strings"
)

// settings are the configuration of a repository that git add depends on.
type settings struct {
	listing           string            // the output of git config --list -z
	rules             map[string]string // texts of the files of rules outside of the tree, by the names in rules.go
	values            map[string]string // last values, by lower-case key
	noExec            bool              // core.fileMode=false: every file is 100644
	autoCRLF          bool              // core.autocrlf: line ends are converted without attributes
	names             nameRules
	author, committer string // "Name <mail>"
}

func (r *repository) settings(ctx context.Context) (*settings, error) {
	out, err := r.git(ctx, nil, "config", "--list", "-z")
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of %s: %w", r.dir, err)
	}

	s := &settings{listing: out, values: make(map[string]string)}
	for key, values := range parseSettings(out) {
		s.values[key] = values[len(values)-1]
	}

	s.noExec = !s.flag("core.filemode", true)
	s.autoCRLF = s.values["core.autocrlf"] == "input" || s.flag("core.autocrlf", false)
	s.names = nameRules{ntfs: s.flag("core.protectntfs", true), hfs: s.flag("core.protecthfs", false)}
	if err := r.readRules(ctx, s); err != nil {
		return nil, err
	}

	s.author, s.committer = r.identity(ctx, "GIT_AUTHOR_IDENT"), r.identity(ctx, "GIT_COMMITTER_IDENT")
	return s, nil
}

// parseSettings returns the values of each key in the output of git config --list -z. Keys are in lower case.
func parseSettings(out string) map[string][]string {
	settings := make(map[string][]string)
	for setting := range splitNUL(out) {
		key, value, ok := strings.Cut(setting, "\n")
		if !ok {
			value = "true" // a key without a value
		}
		settings[key] = append(settings[key], value)
	}
	return settings
}

// identity returns the user's identity from the settings of git, or amberfs if the user has not set
// one. The argument names the variable of git: GIT_AUTHOR_IDENT or GIT_COMMITTER_IDENT.
func (r *repository) identity(ctx context.Context, which string) string {
	out, err := r.git(ctx, nil, "-c", "user.useConfigOnly=true", "var", which)
	if err != nil {
		return "amberfs <amberfs@localhost>"
	}
	return out[:strings.LastIndexByte(out, '>')+1]
}

// flag returns the value of a boolean setting, parsed as by git; byDefault if the key is not set.
func (s *settings) flag(key string, byDefault bool) bool {
	v, ok := s.values[key]
	if !ok {
		return byDefault
	}

	switch strings.ToLower(v) {
	case "true", "yes", "on":
		return true
	case "", "false", "no", "off":
		return false
	}

	return strings.Trim(v, "0") != ""
}
