package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// input makes something once for all rows and places, on the plain disk.
func (b *bench) input(name string, create func(path string) error) (string, error) {
	if path, ok := b.inputs[name]; ok {
		return path, nil
	}
	path := filepath.Join(b.base, "input-"+name)
	if err := create(path); err != nil {
		return "", err
	}
	b.inputs[name] = path
	return path, nil
}

// tarball is a large public tree: that of -repo, or the source of Go's
// standard library. Its top directory is src.
func (b *bench) tarball() (string, error) {
	return b.input("tree.tar", func(path string) error {
		if b.repo == "" {
			return command("tar", "cf", path, "-C", output("go", "env", "GOROOT"), "src")
		}
		repo, err := b.repository()
		if err != nil {
			return err
		}
		return command("git", "-C", repo, "archive", "--prefix=src/", "-o", path, "HEAD")
	})
}

// tree is a directory that holds the tree.
func (b *bench) tree() (string, error) {
	return b.input("tree", func(path string) error {
		tarball, err := b.tarball()
		if err != nil {
			return err
		}
		if err := os.Mkdir(path, 0o755); err != nil {
			return err
		}
		return command("tar", "xf", tarball, "-C", path)
	})
}

// files is how many entries the tree has.
func (b *bench) files() (int, error) {
	path, err := b.tree()
	if err != nil {
		return 0, err
	}
	return countFiles(path)
}

func countFiles(dir string) (n int, err error) {
	err = filepath.WalkDir(dir, func(_ string, _ fs.DirEntry, err error) error {
		n++
		return err
	})
	return n, err
}

// unpack puts the tree into a row's directory.
func (w *work) unpack() (files int, err error) {
	tarball, err := w.b.tarball()
	if err != nil {
		return 0, err
	}
	files, err = w.b.files()
	if err != nil {
		return 0, err
	}
	return files, w.command("tar", "xf", tarball)
}

// repository is that of -repo, or this project's, as a bare clone.
func (b *bench) repository() (string, error) {
	return b.input("repo.git", func(path string) error {
		from := b.repo
		if from == "" {
			from = "."
		}
		return command("git", "clone", "-q", "--bare", "--no-hardlinks", from, path)
	})
}

// project is this project's repository as a bare clone.
func (b *bench) project() (string, error) {
	return b.input("project.git", func(path string) error {
		return command("git", "clone", "-q", "--bare", "--no-hardlinks", ".", path)
	})
}

// packages are what rows of npm install: well-known ones with many
// dependencies.
const packages = `{"name":"bench","version":"1.0.0","private":true,"dependencies":{
"express":"4.21.2","webpack":"5.97.1","react":"18.3.1","react-dom":"18.3.1","typescript":"5.7.2","jest":"29.7.0"%s}}
`

// npm is a directory with package.json, a lock file and the cache that makes
// installing work offline. more is a further line of dependencies.
func (b *bench) npm(name, more string) (string, error) {
	if _, err := exec.LookPath("npm"); err != nil {
		return "", &leftOut{"npm is not installed"}
	}
	return b.input(name, func(path string) error {
		if err := os.Mkdir(path, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(path, "package.json"), fmt.Appendf(nil, packages, more), 0o644); err != nil {
			return err
		}
		if err := commandIn(b.ctx, path, npmEnv, "npm", npmArgs("install", filepath.Join(b.base, "npm-cache"))...); err != nil {
			last := strings.TrimSpace(err.Error())
			return &leftOut{"the packages could not be fetched: " + last[strings.LastIndexByte(last, '\n')+1:]}
		}
		return nil
	})
}

// The lock must say where each package is, or npm asks again offline.
var npmEnv = []string{"npm_config_omit_lockfile_registry_resolved=false"}

func npmArgs(what, cache string, more ...string) []string {
	return append([]string{what, "--no-audit", "--no-fund", "--ignore-scripts", "--no-update-notifier", "--cache", cache}, more...)
}
