package main

import (
	"fmt"
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

// tarball is a large public tree: the source of Go's standard library, or a directory of it.
func (b *bench) tarball(of string) (string, error) {
	return b.input(of+".tar", func(path string) error {
		in := map[string]string{"src": "", "cmd": "/src"}[of]
		return command("tar", "cf", path, "-C", output("go", "env", "GOROOT")+in, of)
	})
}

// files is how many entries such an archive has.
func (b *bench) files(of string) (n int) {
	_, _ = fmt.Sscan(output("sh", "-c", `tar tf "$1" | wc -l`, "sh", b.inputs[of+".tar"]), &n)
	return n
}
