package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	"lukechampine.com/blake3"
)

// diskUsage is what the files below a directory take.
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
			kept[i].keep = nil
		}
		defer os.RemoveAll(dir)
		if k.end != nil {
			defer func() { err = errors.Join(err, k.end(dir)) }()
		}
		at = append(at, dir)
	}
	for i := range states {
		if b.ctx.Err() != nil {
			return nil, b.ctx.Err()
		}
		if err := checkout(repo, commits[(states-1-i)*step], modules[i*2/states], tree); err != nil {
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
	out := []result{{Place: "unique contents", Median: sum / 1e6, All: []float64{sum / 1e6}}}
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
		fmt.Fprintf(os.Stderr, "%-18s %-16s %.4g MB\n", "space-states", k.name, n/1e6)
		out = append(out, result{Place: k.name, Median: n / 1e6, All: []float64{n / 1e6}})
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
