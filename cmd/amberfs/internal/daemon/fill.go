package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/control"
	"github.com/amberfs/amberfs/snapshot"
)

// Make makes the store of cfg, if there is none yet. It is what `run` does
// outside of its namespaces, where every user has a name.
func Make(ctx context.Context, cfg Config, show func(control.Progress)) error {
	if _, err := os.Lstat(filepath.Join(cfg.Store, "format")); !errors.Is(err, os.ErrNotExist) {
		return nil
	}
	s, err := snapshot.Open(cfg.Store, snapshot.Options{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Quiet: true})
	if err != nil {
		return openError(cfg.Store, err)
	}
	return s.Close()
}
