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
	name    string
	kind    kind
	dir     string
	metrics string // address of the daemon's figures
	options string // of the mount, after a comma
	close   func() error
	// archive keeps a directory as backups do and mounts it at a path. It
	// returns where to read it and how to take it away.
	archive func(b *bench, dir, at string) (read string, end func() error, err error)
}

type kind int

const (
	amber   kind = iota // the mount
	plain               // a directory on the disk beside it
	peer                // another filesystem
	btrfs               // one with snapshots of its own
	reflink             // one that copies files by sharing their blocks
	git                 // a plain directory with git's way of keeping states
	archive             // a backup that can be mounted
	floor               // a FUSE server that keeps no bytes
	overlay             // an overlay over each directory that is to be copied
)

// openers make the places; one that the machine cannot have is left out.
var openers = []struct {
	name string
	kind kind
	open func(*bench, *place) error
}{
	{"amberfs", amber, openAmber},
	{"plain", plain, openPlain},
	{"go-fuse loopback", peer, openLoopback},
	{"fuse-overlayfs", peer, openFuseOverlay},
	{"FUSE server without bytes", floor, openNothing},
	{"btrfs", btrfs, openBtrfs},
	{"xfs", reflink, openXFS},
	{"git", git, openPlain},
	{"restic", archive, openRestic},
	{"borg", archive, openBorg},
	{"bwrap's overlay", overlay, openOverlay},
}

func notGit(p place) bool {
	return p.kind != git && p.kind != archive && p.kind != floor && p.kind != overlay
}
func onlyAmber(p place) bool { return p.kind == amber }

// keepsStates is where a whole tree can be captured and brought back.
func keepsStates(p place) bool {
	return p.kind == amber || p.kind == git || p.kind == btrfs || p.kind == reflink
}

func openAmber(b *bench, p *place) error { return b.mount(p, p.dir+".store") }

// mount mounts a store as a place, with figures.
func (b *bench) mount(p *place, store string) error {
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return err
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	p.metrics = address
	if err := command(b.bin, "mount", "-o", "metrics="+address+p.options, store, p.dir); err != nil {
		return err
	}
	dir := p.dir
	p.close = func() error { return patient(func() error { return command(b.bin, "umount", dir) }) }
	return nil
}

func openPlain(_ *bench, p *place) error { return os.Mkdir(p.dir, 0o755) }

// openLoopback is go-fuse's own example, built from the module that this
// project already uses.
func openLoopback(_ *bench, p *place) error {
	bin, below := p.dir+".bin", p.dir+".data"
	if err := command("go", "build", "-buildvcs=false", "-o", bin, "github.com/hanwen/go-fuse/v2/example/loopback"); err != nil {
		return err
	}
	if err := os.MkdirAll(below, 0o755); err != nil {
		return err
	}
	return openDaemon(p, bin, p.dir, below)
}

func openFuseOverlay(_ *bench, p *place) error {
	if _, err := exec.LookPath("fuse-overlayfs"); err != nil {
		return err
	}
	data := p.dir + ".data"
	for _, d := range []string{"lower", "upper", "work"} {
		if err := os.MkdirAll(filepath.Join(data, d), 0o755); err != nil {
			return err
		}
	}
	return openDaemon(p, "fuse-overlayfs", "-f", "-o", fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", data), p.dir)
}

// openOverlay checks that this bwrap can make an overlay.
func openOverlay(_ *bench, p *place) error {
	return errors.Join(os.Mkdir(p.dir, 0o755), command("bwrap", "--overlay-src", p.dir, "--tmp-overlay", "/", "true"))
}

func openBtrfs(_ *bench, p *place) error { return openLoop(p, "mkfs.btrfs", "-q") }

func openXFS(_ *bench, p *place) error { return openLoop(p, "mkfs.xfs", "-q", "-m", "reflink=1") }

// openLoop makes a filesystem in a file. The loop device goes with the mount.
func openLoop(p *place, mkfs ...string) error {
	image := p.dir + ".img"
	if os.Getuid() != 0 {
		return errors.New("it needs root")
	}
	if _, err := exec.LookPath(mkfs[0]); err != nil {
		return err
	}
	if err := os.Mkdir(p.dir, 0o755); err != nil {
		return err
	}
	f, err := os.Create(image)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(16<<30), f.Close()); err != nil {
		return err
	}
	if err := command(mkfs[0], append(mkfs[1:], image)...); err != nil {
		return err
	}
	dir := p.dir
	p.close = func() error { return unmount(dir) }
	return command("mount", "-o", "loop", image, dir)
}

func mountsBelow(dir string) []string {
	var below []string
	for line := range strings.Lines(fileText("/proc/self/mountinfo")) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], dir+"/") {
			below = append(below, f[4])
		}
	}
	return below
}

func unmount(dir string) error {
	if os.Getuid() == 0 {
		return patient(func() error { return command("umount", dir) })
	}
	return patient(func() error { return command("fusermount3", "-u", dir) })
}

// patient tries for a while: a program that was interrupted may still be there
// for a moment.
func patient(try func() error) (first error) {
	for range 50 {
		err := try()
		if err == nil {
			return nil
		}
		if first == nil { // a second attempt may fail for what the first did
			first = err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return first
}
