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
	// secretName matches the names of files that mostly have secrets. notSecret matches the names of examples
	// and public keys among them.
	secretName = pattern.New(`^(\.env(\..+)?|.+\.pem|id_[^.]+|\.npmrc)$`)
	notSecret  = pattern.New(`\.(example|sample|template|dist)$`)
	npmToken   = pattern.New(`(?m)^[^#;]*_(auth|authToken|password)\s*=`)
)

// Bounds of the names that are looked at, and of the bytes of an .npmrc.
const (
	maxSecretEntries = 200_000
	maxHookEntries   = 20_000 // while an agent waits
	maxNpmrc         = 64 << 10
)

// noteSecrets names the files of a directory that look like secrets and that a run can read, once for each
// directory.
func noteSecrets(a *app, dir string, h hostdir.Hidden) {
	if text := secretsText(dir, h, maxSecretEntries); text != "" {
		a.note("%s\n\thide them with --hide, or lines of %s", text, hideName)
	}
}

// warnSecrets is noteSecrets for the workspace of an agent, which shows the text to its user.
func warnSecrets(a *app, agent string, p locate.Location) {
	root, ok := p.Root()
	if !ok {
		return
	}
	text := secretsText(root, hostdir.Hidden{}, maxHookEntries)
	if w := hooks.Warning(agent, "amberfs: "+text); text != "" && w != nil {
		_ = a.printJSON(w) // an error of the output is found at the end
	}
}

// secretsText is "" if no file looks like a secret, or if the text was returned before.
func secretsText(dir string, h hostdir.Hidden, most int) string {
	found := secrets(dir, h, most)
	if len(found) == 0 || !runs.FirstNote(dir) {
		return ""
	}
	return "readable, and named like secrets: " + gitquote.List(found)
}

// secrets returns the paths below a directory that look like secrets, are readable and not hidden. It looks at
// most names.
func secrets(dir string, h hostdir.Hidden, most int) (found []string) {
	left := most

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

		if d.Type().IsRegular() && secretName().MatchString(d.Name()) && !notSecret().MatchString(d.Name()) && !h.Paths.Match(rel, false) && readable(name) {
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
	text, err := plainfile.Read(name, maxNpmrc)
	return err == nil && npmToken().Match(text)
}
