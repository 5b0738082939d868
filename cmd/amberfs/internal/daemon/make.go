package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
)

// Make makes the store of cfg, if there is none yet, and fills it. It is what
// `run` does outside of its namespaces, where every user has a name.
func Make(ctx context.Context, cfg Config, show func(service.Progress)) error {
	mounts, err := locate.Mounts()
	if err != nil {
		return err
	}
	if err := checkStorePath(&cfg, mounts); err != nil {
		return err
	}
	if err := checkFrom(&cfg); err != nil {
		return err
	}
	_, err = os.Lstat(filepath.Join(cfg.Store, "format"))
	if err == nil && cfg.From != "" {
		return filledAlready(cfg)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return nil
	}
	c := &service.Connection{From: cfg.Remote, OrEmpty: cfg.OrEmpty, Log: slog.New(slog.DiscardHandler)}
	defer c.Close()
	s, err := openStore(cfg.Store, snapshot.Options{
		UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Quiet: true, Filling: cfg.From, Connect: c.Connect(ctx),
	})
	if err != nil {
		return openError(cfg.Store, err)
	}
	if cfg.From != "" {
		// Another process may have made it since.
		if err = filledAlready(cfg); s.Created() {
			err = fill(ctx, s, cfg, show)
		}
	}
	if err != nil {
		return errors.Join(service.Explain(err), s.Discard())
	}
	return service.Explain(s.Close())
}

// filledAlready is the error for --from with a store that exists.
func filledAlready(cfg Config) error {
	return fail.New(fail.Exists, "the store %s exists already, so it cannot be filled by --from", cfg.Store).
		WithHint("leave --from out, and bring %s in with `amberfs import`", cfg.From)
}

// fill makes the workspace of a new store equal to cfg.From. A mount point inside
// of the directory is not read, but one that is the directory itself is.
func fill(ctx context.Context, s *snapshot.Store, cfg Config, show func(service.Progress)) error {
	exclude := []string{cfg.Store}
	if cfg.Mountpoint != cfg.From {
		exclude = append(exclude, cfg.Mountpoint)
	}
	if cfg.Later { // see Daemon.bringIn
		return service.FillLater(ctx, s, cfg.From, exclude, show)
	}
	if err := service.Fill(ctx, s, cfg.From, exclude, show); err != nil {
		return err
	}
	if err := s.Sync(); err != nil {
		return err
	}
	return snapshot.Filled(cfg.Store)
}
