package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	"lukechampine.com/blake3"
)

// diskUsage is what the files below a directory take on the disk, in bytes.
func diskUsage(dir string) (total float64, err error) {
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &st)
		}
		total += float64(st.Blocks * 512)
		return err
	})
	return total, err
}

// A keeper keeps the states of a directory in its own way.
type keeper struct {
	name string
	open func(dir string) error              // makes a repository
	keep func(dir, tree, state string) error // adds the tree as it is now
	size func(dir string) (float64, error)   // on disk; diskUsage of dir if nil
	end  func(dir string) error

	collect func() error // what makes it smaller; nil if nothing does, or size does it
}

const states = 10

// tenStates is the space that ten states of a repository, with what npm
// installs in it, take in each way of keeping them.
func tenStates(b *bench) ([]result, error) {
	repo, err := b.repository()
	if err != nil {
		return nil, err
	}
	commits := strings.Fields(output("git", "-C", repo, "rev-list", "--first-parent", "HEAD"))
	if len(commits) < states {
		return nil, &leftOut{"the repository has too few commits"}
	}
	// A hundred commits lie between two states where there are so many.
	step := min(100, len(commits)/states)
	var modules [2]string
	for i, more := range []string{"", `,"eslint":"9.17.0"`} {
		if modules[i], err = b.npm(fmt.Sprintf("npm-%d", i), more); err != nil {
			return nil, err
		}
	}
	return b.keepStates("space-states", func(tree string, i int) error {
		return checkout(repo, commits[(states-1-i)*step], modules[i*2/states], tree)
	})
}

// goStates is the same for source files of Go's standard library, of which every tenth
// gets a line from one state to the next.
func goStates(b *bench) ([]result, error) {
	files, err := goFiles(filepath.Join(output("go", "env", "GOROOT"), "src"), 2900)
	if err != nil {
		return nil, err
	}
	return b.keepStates("space-go", func(tree string, i int) error {
		for j, name := range files {
			path := filepath.Join(tree, fmt.Sprintf("d%03d", j/40), fmt.Sprintf("f%05d.go", j))
			switch {
			case i == 0:
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					return err
				}
				if err := command("cp", name, path); err != nil {
					return err
				}
			case j%10 == i:
				if err := addLine(path, fmt.Sprintf("// changed in state %d, file %d\n", i, j)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// goFiles returns the first n source files below a directory.
func goFiles(dir string, n int) (files []string, err error) {
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && len(files) < n && e.Type().IsRegular() && strings.HasSuffix(path, ".go") {
			files = append(files, path)
		}
		return err
	})
	return files, err
}

// addLine puts a line in the middle of a file.
func addLine(path, line string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	at := len(data)/2 + 1 + bytes.IndexByte(data[len(data)/2:], '\n')
	return os.WriteFile(path, slices.Concat(data[:at], []byte(line), data[at:]), 0o644)
}

// keepStates makes states of a tree one after another and tells what each way of
// keeping them takes.
func (b *bench) keepStates(row string, make func(tree string, i int) error) (out []result, err error) {
	tree := filepath.Join(b.base, "states")
	defer os.RemoveAll(tree)
	unique := map[[32]byte]bool{}
	sum := 0.0
	var at []string
	kept := b.keepers()
	for i, k := range kept {
		dir := filepath.Join(b.base, "keep-"+strings.ReplaceAll(k.name, " ", "-"))
		if err := k.open(dir); err != nil {
			fmt.Fprintf(os.Stderr, "without %s: %v\n", k.name, err)
			kept[i].keep, kept[i].end = nil, nil
		}
		defer os.RemoveAll(dir)
		if kept[i].end != nil {
			defer func() { err = errors.Join(err, k.end(dir)) }()
		}
		at = append(at, dir)
	}
	for i := range states {
		if b.ctx.Err() != nil {
			return nil, b.ctx.Err()
		}
		if err := make(tree, i); err != nil {
			return nil, err
		}
		n, err := newContents(tree, unique)
		if err != nil {
			return nil, err
		}
		sum += n
		for j, k := range kept {
			if k.keep == nil {
				continue
			}
			if err := k.keep(at[j], tree, fmt.Sprintf("state%d", i)); err != nil {
				return nil, fmt.Errorf("%s: %w", k.name, err)
			}
		}
	}
	add := func(name string, bytes float64) {
		fmt.Fprintf(os.Stderr, "%-18s %-16s %.4g MB\n", row, name, bytes/1e6)
		out = append(out, result{Place: name, Median: bytes / 1e6, All: []float64{bytes / 1e6}})
	}
	add("unique contents", sum)
	for j, k := range kept {
		if k.keep == nil {
			continue
		}
		measure := diskUsage
		if k.size != nil {
			measure = k.size
		}
		n, err := measure(at[j])
		if err != nil {
			return nil, err
		}
		add(k.name, n)
		if k.collect == nil {
			continue
		}
		if err := k.collect(); err != nil {
			return nil, err
		}
		if n, err = measure(at[j]); err != nil {
			return nil, err
		}
		add(k.name+" after gc", n)
	}
	return out, nil
}

// checkout makes a directory equal to a commit, with installed packages.
func checkout(repo, commit, modules, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	tarball := to + ".tar"
	defer os.Remove(tarball)
	return errors.Join(
		command("git", "-C", repo, "archive", "-o", tarball, commit),
		command("tar", "xf", tarball, "-C", to),
		command("cp", "-a", filepath.Join(modules, "node_modules"), to))
}

// newContents adds up the files that were not seen before.
func newContents(dir string, seen map[[32]byte]bool) (sum float64, err error) {
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if h := blake3.Sum256(data); !seen[h] {
			seen[h] = true
			sum += float64(len(data))
		}
		return err
	})
	return sum, err
}

func (b *bench) keepers() []keeper {
	var mount *amberHistory
	tool := func(name string) error {
		_, err := exec.LookPath(name)
		return err
	}
	run := func(dir string, argv ...string) error { return commandIn(b.ctx, dir, archiveEnv, argv[0], argv[1:]...) }
	return []keeper{
		{
			name: "amberfs",
			open: func(dir string) (err error) {
				mount, err = newAmberHistory(b, dir)
				return err
			},
			keep: func(_, tree, state string) error {
				entries, err := os.ReadDir(mount.root())
				for _, e := range entries {
					err = errors.Join(err, os.RemoveAll(filepath.Join(mount.root(), e.Name())))
				}
				return errors.Join(err, run("", "cp", "-a", tree+"/.", mount.root()), mount.run("snapshot", state))
			},
			size: func(string) (float64, error) { return mount.stored() },
			end:  func(string) error { return mount.close() },

			collect: func() error { return mount.run("gc") },
		},
		{
			name: "git packs",
			open: func(dir string) error { return command("git", "init", "-q", "--bare", dir) },
			keep: func(dir, tree, state string) error {
				return run(tree, "sh", "-ec", `export GIT_DIR="$1" GIT_WORK_TREE="$2"
					git add --all --force
					git -c user.name=a -c user.email=a@b commit -q -m "$3"`, "sh", dir, tree, state)
			},
			size: func(dir string) (float64, error) {
				if err := command("git", "-C", dir, "gc", "-q"); err != nil {
					return 0, err
				}
				return diskUsage(filepath.Join(dir, "objects"))
			},
		},
		{
			name: "restic",
			open: func(dir string) error { return errors.Join(tool("restic"), run("", "restic", "init", "-q", "-r", dir)) },
			keep: func(dir, tree, _ string) error {
				return run("", "restic", "backup", "-q", "--no-cache", "-r", dir, tree)
			},
		},
		{
			name: "borg",
			open: func(dir string) error { return errors.Join(tool("borg"), run("", "borg", "init", "-e", "none", dir)) },
			keep: func(dir, tree, state string) error {
				return run("", "borg", "create", "-C", "zstd", dir+"::"+state, tree)
			},
		},
	}
}
