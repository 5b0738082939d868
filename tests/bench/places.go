package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A place is a directory to work in and what it takes to have it.
type place struct {
	name  string
	kind  kind
	dir   string
	store string // of amberfs
	close func() error
}

type kind int

const (
	amber kind = iota // the mount
	plain             // a directory on the disk beside it
	peer              // another filesystem
	btrfs             // one with snapshots of its own
	git               // a plain directory with git's way of keeping states
)

// openers make the places; one that the machine cannot have is left out.
var openers = []func(*bench) (place, error){openAmber, openPlain, openLoopback, openFuseOverlay, openBtrfs, openXFS, openGit}

func openAmber(b *bench) (place, error) {
	p := place{name: "amberfs", kind: amber, dir: filepath.Join(b.base, "amberfs"), store: filepath.Join(b.base, "amberfs.store")}
	if err := os.Mkdir(p.dir, 0o755); err != nil {
		return p, err
	}
	p.close = func() error { return command(b.bin, "umount", p.dir) }
	return p, command(b.bin, "mount", p.store, p.dir)
}

func openPlain(b *bench) (place, error) {
	p := place{name: "plain", kind: plain, dir: filepath.Join(b.base, "plain"), close: func() error { return nil }}
	return p, os.Mkdir(p.dir, 0o755)
}

// git is where rows of history are compared with what agent tools do today.
func openGit(b *bench) (place, error) {
	p := place{name: "git", kind: git, dir: filepath.Join(b.base, "git"), close: func() error { return nil }}
	if _, err := exec.LookPath("git"); err != nil {
		return p, fmt.Errorf("git: %w", err)
	}
	return p, os.Mkdir(p.dir, 0o755)
}

// loopback is go-fuse's own example, built from the module that this project
// already uses.
func openLoopback(b *bench) (place, error) {
	p := place{name: "go-fuse loopback", kind: peer, dir: filepath.Join(b.base, "loopback")}
	bin, below := filepath.Join(b.base, "loopback.bin"), filepath.Join(b.base, "loopback.data")
	if err := command("go", "build", "-buildvcs=false", "-o", bin, "github.com/hanwen/go-fuse/v2/example/loopback"); err != nil {
		return p, fmt.Errorf("go-fuse loopback: %w", err)
	}
	return p, openDaemon(&p, below, bin, p.dir, below)
}

func openFuseOverlay(b *bench) (place, error) {
	p := place{name: "fuse-overlayfs", kind: peer, dir: filepath.Join(b.base, "overlay")}
	below := filepath.Join(b.base, "overlay.data")
	if _, err := exec.LookPath("fuse-overlayfs"); err != nil {
		return p, fmt.Errorf("fuse-overlayfs: %w", err)
	}
	for _, d := range []string{"lower", "upper", "work"} {
		if err := os.MkdirAll(filepath.Join(below, d), 0o755); err != nil {
			return p, err
		}
	}
	opts := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", below)
	return p, openDaemon(&p, below, "fuse-overlayfs", "-f", "-o", opts, p.dir)
}

// openDaemon starts a filesystem in a process of its own and waits for it.
func openDaemon(p *place, below string, argv ...string) error {
	for _, d := range []string{p.dir, below} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	dir := p.dir
	p.close = func() error {
		err := unmount(dir)
		return errors.Join(err, cmd.Wait())
	}
	for range 500 {
		if mounted(dir) {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return fmt.Errorf("%s: did not mount", p.name)
}

func openBtrfs(b *bench) (place, error) { return openLoop(b, "btrfs", btrfs, "mkfs.btrfs", "-q") }

func openXFS(b *bench) (place, error) {
	return openLoop(b, "xfs", peer, "mkfs.xfs", "-q", "-m", "reflink=1")
}

// openLoop makes a filesystem in a file.
func openLoop(b *bench, name string, k kind, mkfs ...string) (place, error) {
	p := place{name: name, kind: k, dir: filepath.Join(b.base, name)}
	image := filepath.Join(b.base, name+".img")
	if os.Getuid() != 0 {
		return p, fmt.Errorf("%s: needs root", name)
	}
	if _, err := exec.LookPath(mkfs[0]); err != nil {
		return p, fmt.Errorf("%s: %w", name, err)
	}
	if err := os.Mkdir(p.dir, 0o755); err != nil {
		return p, err
	}
	f, err := os.Create(image)
	if err != nil {
		return p, err
	}
	err = errors.Join(f.Truncate(16<<30), f.Close())
	if err == nil {
		err = command(mkfs[0], append(mkfs[1:], image)...)
	}
	if err == nil {
		err = command("mount", "-o", "loop", image, p.dir)
	}
	if err != nil {
		return p, fmt.Errorf("%s: %w", name, err)
	}
	p.close = func() error { return unmount(p.dir) }
	return p, nil
}

func mounted(dir string) bool {
	data, err := os.ReadFile("/proc/self/mounts")
	return err == nil && strings.Contains(string(data), " "+dir+" ")
}

func unmount(dir string) error {
	if os.Getuid() == 0 {
		return command("umount", dir)
	}
	return command("fusermount3", "-u", dir)
}

// command runs a program; its output is part of the error.
func command(name string, args ...string) error { return commandIn("", nil, name, args...) }

func commandIn(dir string, env []string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
