package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"

	"github.com/amberfs/amberfs/internal/mounts"
)

// Try makes the namespaces that a run needs, and mounts in them. Nothing stays. The error is that of the
// system which refuses it.
func Try(ctx context.Context) error {
	user := !mounts.Privileged()
	kind := forkMounts
	if user {
		kind = forkUser
	}

	// Nothing is mounted below it. Else the kernel would refuse a bind mount to an ordinary user.
	dir, err := os.MkdirTemp("", tempPrefix+"try-")
	if err != nil {
		return err
	}
	defer os.Remove(dir)

	cmd := exec.CommandContext(ctx, "/proc/self/exe", InForkCommand, kind, dir, dir, "/proc/self/exe", "--version")
	cmd.Args[0], cmd.Dir, cmd.SysProcAttr = "amberfs", "/", namespaces(user)

	var stderr strings.Builder
	cmd.Stderr = &stderr
	err = cmd.Run()
	if text := strings.TrimSpace(strings.TrimPrefix(stderr.String(), "amberfs: ")); err != nil && text != "" {
		return errors.New(text)
	}

	return err
}
