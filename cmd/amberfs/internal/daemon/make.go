package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/storedir"
)

// Make makes the store of cfg, if there is none yet, and fills it. It is what
// `run` does outside of its namespaces, where every user has a name.
func Make(ctx context.Context, cfg Config, s Starter) error {
	return WhenFree(ctx, cfg.Store, func() error { return makeStore(ctx, cfg, s) })
}

func makeStore(ctx context.Context, cfg Config, s Starter) error {
	_, err := os.Lstat(filepath.Join(cfg.Store, "format"))
	if err == nil && cfg.From != "" {
		return usedAgain(cfg, s.Note)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return nil
	}
	c := &service.Connection{From: cfg.Remote, OrEmpty: cfg.OrEmpty, Log: slog.New(slog.DiscardHandler)}
	defer c.Close()
	store, err := openStore(cfg.Store, snapshot.Options{
		UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Quiet: true, Filling: cfg.From, Connect: c.Connect(ctx),
	})
	if err != nil {
		return openError(cfg.Store, err)
	}
	switch {
	case cfg.From == "":
	case store.Created():
		err = fill(ctx, store, cfg, s)
	default: // another process has made it since
		err = usedAgain(cfg, s.Note)
	}
	if err != nil {
		return errors.Join(service.Explain(err), store.Discard())
	}
	return service.Explain(store.Close())
}

// usedAgain is for --from with a store that exists. One that was filled from the same
// directory is used as it is.
func usedAgain(cfg Config, note func(string)) error {
	from, err := storedir.FilledFrom(cfg.Store)
	if err != nil {
		return err
	}
	if from == cfg.From {
		note("the store " + cfg.Store + " exists and is used as it is: " + from + " is not read again")
		return nil
	}
	of := "is not one that --from made"
	if from != "" {
		of = "was filled from " + from
	}
	return fail.New(fail.Exists, "the store %s exists and %s", cfg.Store, of).
		WithHint("leave --from out, and bring %s in with `amberfs import`", cfg.From)
}

// fill makes the workspace of a new store equal to cfg.From. A mount point inside
// of the directory is not read, but one that is the directory itself is.
func fill(ctx context.Context, s *snapshot.Store, cfg Config, st Starter) error {
	exclude := []string{cfg.Store}
	if cfg.Mountpoint != cfg.From {
		exclude = append(exclude, cfg.Mountpoint)
	}
	if mounts, err := locate.Mounts(); err != nil {
		return err
	} else if _, ok := locate.On(mounts, cfg.From); ok {
		exclude = append(exclude, filepath.Join(cfg.From, naming.SnapshotsDir), filepath.Join(cfg.From, naming.ForksDir))
	}
	n, first := 0, ""
	o := service.FillOptions{Exclude: exclude, Show: st.Progress, Skip: func(path string, reason error) {
		if n++; n == 1 {
			first = reason.Error()
		}
	}}
	defer func() {
		if n > 0 {
			st.Note(fmt.Sprintf("%d path(s) of %s cannot be read and are left out: %s", n, cfg.From, first))
		}
	}()
	if cfg.Later { // see Daemon.bringIn
		return service.FillLater(ctx, s, cfg.From, o)
	}
	if err := service.Fill(ctx, s, cfg.From, o); err != nil {
		return err
	}
	if err := s.Sync(); err != nil {
		return err
	}
	return storedir.Filled(cfg.Store)
}
