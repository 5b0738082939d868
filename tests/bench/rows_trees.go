package main

import (
	"os"
	"path/filepath"
	"time"
)

// seconds times a command.
func seconds(dir string, argv ...string) (float64, error) {
	start := time.Now()
	err := commandIn(dir, nil, argv[0], argv[1:]...)
	return time.Since(start).Seconds(), err
}

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

// tarball is the source of Go's standard library: what every machine with Go
// has, some ten thousand files.
func (b *bench) tarball() (string, error) {
	return b.input("std.tar", func(path string) error {
		return command("tar", "cf", path, "-C", output("go", "env", "GOROOT"), "src")
	})
}

func (b *bench) unpack(dir string) error {
	tarball, err := b.tarball()
	if err != nil {
		return err
	}
	return command("tar", "xf", tarball, "-C", dir)
}

func untar(w work) (float64, error) {
	tarball, err := w.b.tarball()
	if err != nil {
		return 0, err
	}
	return seconds(w.dir, "tar", "xf", tarball)
}

func (b *bench) repository() (string, error) {
	return b.input("repo.git", func(path string) error {
		return command("git", "clone", "-q", "--bare", "--no-hardlinks", ".", path)
	})
}

func clone(w work) (float64, error) {
	repo, err := w.b.repository()
	if err != nil {
		return 0, err
	}
	return seconds(w.dir, "git", "clone", "-q", "--no-hardlinks", repo, "clone")
}

// onTree times a command in an unpacked tree, the second time.
func onTree(argv ...string) func(work) (float64, error) {
	return func(w work) (float64, error) {
		if err := w.b.unpack(w.dir); err != nil {
			return 0, err
		}
		start := time.Now()
		for range 2 {
			start = time.Now()
			// grep ends with 1 when it finds nothing, as it should here.
			_ = commandIn(w.dir, nil, argv[0], argv[1:]...)
		}
		return time.Since(start).Seconds() * 1e3, nil
	}
}

func gitStatus(w work) (float64, error) {
	if err := w.b.unpack(w.dir); err != nil {
		return 0, err
	}
	for _, argv := range [][]string{{"git", "init", "-q"}, {"git", "add", "--all"}, {"git", "status"}, {"git", "status"}} {
		if err := commandIn(w.dir, nil, argv[0], argv[1:]...); err != nil {
			return 0, err
		}
	}
	s, err := seconds(w.dir, "git", "status")
	return s * 1e3, err
}

func copyTree(w work) (float64, error) {
	if err := w.b.unpack(w.dir); err != nil {
		return 0, err
	}
	return seconds(w.dir, "cp", "-r", "src", "copy")
}

func removeTree(w work) (float64, error) {
	if err := w.b.unpack(w.dir); err != nil {
		return 0, err
	}
	return seconds(w.dir, "rm", "-rf", "src")
}

func goBuild(w work) (float64, error) {
	repo, err := w.b.repository()
	if err != nil {
		return 0, err
	}
	if err := command("git", "clone", "-q", repo, filepath.Join(w.dir, "src")); err != nil {
		return 0, err
	}
	cache, err := w.b.input("gocache", func(path string) error { return os.Mkdir(path, 0o755) })
	if err != nil {
		return 0, err
	}
	dir := filepath.Join(w.dir, "src")
	took := 0.0
	for range 2 { // the second time counts: everything compiled, linked anew
		start := time.Now()
		err := commandIn(dir, []string{"GOCACHE=" + cache, "GOFLAGS=-buildvcs=false"}, "go", "build", "-o", "amberfs", "./cmd/amberfs")
		if err != nil {
			return 0, err
		}
		took = time.Since(start).Seconds()
		if err := os.Remove(filepath.Join(dir, "amberfs")); err != nil {
			return 0, err
		}
	}
	return took, nil
}
