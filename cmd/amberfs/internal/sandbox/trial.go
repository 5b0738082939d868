package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"

	"github.com/amberfs/amberfs/internal/mounts"
)

// Try makes the namespaces that a run needs, mounts in them, and ends them. The error has the message of the
// system that refuses them.
func Try(ctx context.Context) error {
	user := !mounts.Privileged()
	kind := forkMounts
	if user {
		kind = forkUser
	}

	// The kernel refuses an ordinary user's bind mount of a directory with mounts below it. A new one has none.
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
