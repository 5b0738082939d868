package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"

	"github.com/amberfs/amberfs/internal/mounts"
)

// TryNamespaces tests whether this system allows runs: it creates the namespaces of a run, mounts a directory in them,
// and ends them. If one of these steps fails, the error has the text that the step printed.
func TryNamespaces(ctx context.Context) error {
	needsUserNS := !mounts.Privileged()
	kind := newMountNS
	if needsUserNS {
		kind = newUserNS
	}

	// The kernel refuses an ordinary user a bind mount of a directory with mounts below it. A new directory has none.
	dir, err := os.MkdirTemp("", tempPrefix+"try-")
	if err != nil {
		return err
	}
	defer os.Remove(dir)

	cmd := exec.CommandContext(ctx, "/proc/self/exe", MainInForkCommand, kind, dir, dir, "/proc/self/exe", "--version")
	cmd.Args[0], cmd.Dir, cmd.SysProcAttr = "amberfs", "/", namespaceAttrs(needsUserNS)

	var stderr strings.Builder
	cmd.Stderr = &stderr
	err = cmd.Run()
	if text := strings.TrimSpace(strings.TrimPrefix(stderr.String(), "amberfs: ")); err != nil && text != "" {
		return errors.New(text)
	}

	return err
}
