package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/runs"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/gitquote"
)

var (
	// secretName matches names of files that mostly have secrets, notSecret those of examples and public keys.
	secretName = regexp.MustCompile(`^(\.env(\..+)?|.+\.pem|id_[^.]+|\.npmrc)$`)
	notSecret  = regexp.MustCompile(`\.(example|sample|template|dist)$`)
	npmToken   = regexp.MustCompile(`(?m)^[^#;]*_(auth|authToken|password)\s*=`)
)

// maxSecretEntries bounds how many names are looked at.
const maxSecretEntries = 200_000

// noteSecrets names the files of a directory that look like secrets and that a run can read, once for each
// directory.
func (a *app) noteSecrets(dir string, h hostdir.Hidden) {
	found := secrets(dir, h)
	if len(found) > 0 && runs.FirstNote(dir) {
		a.note("readable in the run, and named like secrets: %s\n\thide them with --hide, or lines of %s", gitquote.List(found), hideName)
	}
}

// secrets returns the paths below a directory that look like secrets, are readable and not hidden.
func secrets(dir string, h hostdir.Hidden) (found []string) {
	left := maxSecretEntries

	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if left--; left < 0 {
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

		if d.Type().IsRegular() && secretName.MatchString(d.Name()) && !notSecret.MatchString(d.Name()) && !h.Paths.Match(rel, false) && readable(name) {
			found = append(found, rel)
		}

		return nil
	})

	return found
}

// readable reports whether a file can be read. An .npmrc must have a token, too.
func readable(name string) bool {
	if filepath.Base(name) != ".npmrc" {
		return unix.Access(name, unix.R_OK) == nil
	}
	text, err := os.ReadFile(name)
	return err == nil && npmToken.Match(text)
}
