package main

import (
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/hooks"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/runs"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/internal/pattern"
	"github.com/amberfs/amberfs/internal/plainfile"
)

var (
	// secretNamePattern matches the names of files that usually contain secrets. Files whose names exampleNamePattern
	// matches are only examples.
	secretNamePattern  = pattern.New(`^(\.env(\..+)?|.+\.pem|id_[^.]+|\.npmrc)$`)
	exampleNamePattern = pattern.New(`\.(example|sample|template|dist)$`)
	npmTokenPattern    = pattern.New(`(?m)^[^#;]*_(auth|authToken|password)\s*=`)
)

// Limits of a search for secrets: the number of names that are examined, and the number of bytes that are read from
// an .npmrc.
const (
	maxSecretEntries = 200_000
	maxHookEntries   = 20_000 // few, because an agent waits for the hook
	maxNpmrcBytes    = 64 << 10
)

// noteSecrets searches a directory for files that look like secrets and are readable in a run, and prints their
// paths. It does so once for each directory.
func noteSecrets(a *app, dir string, h hostdir.Hidden) {
	if text := newSecretsText(dir, h, maxSecretEntries); text != "" {
		a.note("%s\n\thide them with --hide, or lines of %s", text, hideFile)
	}
}

// warnSecrets is noteSecrets for the workspace of an agent, which shows the text to its user.
func warnSecrets(a *app, agent string, p locate.Location) {
	root, ok := p.Root()
	if !ok {
		return
	}
	text := newSecretsText(root, hostdir.Hidden{}, maxHookEntries)
	if w := hooks.WarningOutput(agent, "amberfs: "+text); text != "" && w != nil {
		_ = a.printJSON(w) // endCommand reports a failed write
	}
}

// newSecretsText returns a text with the files that look like secrets. It returns "" if there are none, or if it has
// returned the text for the directory before.
func newSecretsText(dir string, h hostdir.Hidden, maxEntries int) string {
	found := findSecrets(dir, h, maxEntries)
	if len(found) == 0 || !runs.MarkNoted(dir) {
		return ""
	}
	return "readable, and named like secrets: " + gitquote.ListNames(found)
}

// findSecrets searches a directory for files that look like secrets, are readable and are not hidden. It returns
// their paths. It examines at most the given number of names.
func findSecrets(dir string, h hostdir.Hidden, maxEntries int) (found []string) {
	remaining := maxEntries

	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if remaining--; remaining < 0 {
			return fs.SkipAll
		}

		rel, rerr := filepath.Rel(dir, name)
		if err != nil || rerr != nil || rel == "." {
			return nil
		}
		if d.IsDir() {
			if d.Name() == ".git" || d.Name() == "node_modules" || h.Paths.Match(rel, true) {
				return fs.SkipDir
			}
			return nil
		}

		if d.Type().IsRegular() && secretNamePattern().MatchString(d.Name()) && !exampleNamePattern().MatchString(d.Name()) && !h.Paths.Match(rel, false) && hasReadableSecret(name) {
			found = append(found, rel)
		}

		return nil
	})

	return found
}

// hasReadableSecret reports whether a file is readable and, for an .npmrc, whether it has a token.
func hasReadableSecret(name string) bool {
	if filepath.Base(name) != ".npmrc" {
		return unix.Access(name, unix.R_OK) == nil
	}
	text, err := plainfile.Read(name, maxNpmrcBytes)
	return err == nil && npmTokenPattern().Match(text)
}
