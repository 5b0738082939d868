package main

import (
	"io/fs"
	"os"
	"path/filepath"
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

// tarball is a large public tree: the source of Go's standard
// library. Its top directory is src.
func (b *bench) tarball() (string, error) {
	return b.input("tree.tar", func(path string) error {
		return command("tar", "cf", path, "-C", output("go", "env", "GOROOT"), "src")
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
