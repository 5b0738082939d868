package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// openDaemon starts a filesystem in a process of its own and waits for it.
func openDaemon(p *place, argv ...string) error {
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	// What interrupts this program from a terminal must not end it before it
	// is unmounted.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	dir := p.dir
	p.close = func() error { return errors.Join(unmount(dir), cmd.Wait()) }
	for range 500 {
		if slices.Contains(mountsBelow(filepath.Dir(dir)), dir) {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return errors.New("it did not mount")
}

// command runs a program; its output is part of the error.
func command(name string, args ...string) error {
	return commandIn(context.Background(), "", nil, name, args...)
}

func commandIn(ctx context.Context, dir string, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

func output(name string, args ...string) string {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return "?"
	}
	return strings.TrimSpace(string(out))
}

func fileText(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(data)
}
