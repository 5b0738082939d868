package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// copyRows are how long a program waits for a copy of a directory: from the start of the command
// until the program in the copy has done its work.
var copyRows = []row{
	copyRow("copy-files", "the first instruction in a copy of 100,000 files of 4 KiB", "true", 100_000),
	copyRow("copy-large", "the first instruction in a copy of 2 GB in four files", "true", 0),
	copyRow("copy-status", "git status in a copy of a repository with 100,000 files of 4 KiB", "git status --porcelain", 100_000),
	copyRow("copy-tar", "a whole run that reads a copy of 100,000 files of 4 KiB", "tar c . | cat >/dev/null", 100_000),
	copyRow("copy-million", "the first instruction in a copy of 1,000,000 files of 4 KiB", "true", 1_000_000),
}

// copyRow is a row with a command of the shell that runs in a copy of so many files, or of four
// large ones.
func copyRow(name, what, program string, files int) row {
	return row{name: name, what: what, unit: "s", where: copies, named: files > 100_000, run: func(w *work) (float64, error) {
		return w.inCopy(program, files)
	}, how: func(p place) string {
		return copyCommands[p.kind] + " " + program
	}}
}

func copies(p place) bool { return p.kind == amber || p.kind == plain || p.kind == overlay }

// copyCommands run a program in a copy of the directory DIR, by place.
var copyCommands = map[kind]string{
	amber:   `amberfs run --discard --from DIR --`,
	plain:   `cp -a --reflink=never DIR COPY; cd COPY;`,
	overlay: `bwrap --bind / / --overlay-src DIR --tmp-overlay DIR --chdir DIR`,
}

// inCopy runs a program in a copy, and returns when it had ended.
func (w *work) inCopy(program string, files int) (float64, error) {
	isRepository := strings.HasPrefix(program, "git ")
	dir, err := w.b.input(fmt.Sprintf("copied-%d-%v", files, isRepository), func(path string) error {
		return w.b.makeCopied(path, files, isRepository)
	})
	if err != nil {
		return 0, err
	}

	script := program + " && date +%s.%N"
	argv := []string{"sh", "-c", script}
	switch w.place.kind {
	case amber:
		argv = append([]string{w.b.bin, "run", "--discard", "--from", dir, "--"}, argv...)
	case plain:
		argv = []string{"sh", "-c", `cp -a --reflink=never "$0" "$1" && cd "$1" && ` + script, dir, filepath.Join(w.dir, "copy")}
	case overlay:
		argv = append([]string{"bwrap", "--bind", "/", "/", "--overlay-src", dir, "--tmp-overlay", dir, "--chdir", dir}, argv...)
	}

	var stderr bytes.Buffer
	cmd := exec.CommandContext(w.b.ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "AMBERFS_RUNS="+filepath.Join(w.b.base, "runs"))
	cmd.Stderr = &stderr
	start := time.Now()
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("%v: %w: %s", argv, err, stderr.String())
	}

	fields := bytes.Fields(out)
	var end float64
	if _, err := fmt.Sscan(string(fields[len(fields)-1]), &end); err != nil {
		return 0, err
	}
	return end - float64(start.UnixNano())/1e9, nil
}

// makeCopied makes a directory of so many files of 4 KiB, or of four files of 512 MiB.
func (b *bench) makeCopied(dir string, files int, isRepository bool) error {
	n, size := b.n(files), 4096
	if files == 0 {
		n, size = 4, b.n(512)<<20
	}

	data := noise(size + n)
	err := b.loop(n, func(i int) error {
		path := filepath.Join(dir, pathOf(i))
		contents := data[i : i+size]
		if files == 0 { // large files must not share chunks
			for j := range contents {
				contents[j] = contents[j]*5 + byte(i)
			}
		}
		return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, contents, 0o644))
	})
	if isRepository {
		err = errors.Join(err, commandIn(b.ctx, dir, nil, "sh", "-c",
			"git init -q && git add . && git -c user.name=bench -c user.email=bench commit -qm 1 && git repack -adq"))
	}
	return err
}
