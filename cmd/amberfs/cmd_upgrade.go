package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
)

func upgradeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "upgrade [BINARY]",
		Short: "Replace the daemon while programs run",
		Long: `BINARY (default: this program) becomes the daemon. Programs wait and go on. One with
other formats is refused, one that does not start is rolled back.`,
		Example: `  amberfs -C ~/work upgrade`,
		Args:    argumentCountCheck(0, 1, "at most one BINARY"),
		RunE:    func(cmd *cobra.Command, argv []string) error { return upgrade(cmd.Context(), a, argv) },
	}
}

// upgrade replaces the daemon of the workspace by the program that words name or, without words, by this program.
func upgrade(ctx context.Context, a *app, words []string) error {
	program, err := os.Executable()
	if err == nil && len(words) == 1 {
		program, err = a.absPath(words[0])
	}
	if err != nil {
		return err
	}

	store, err := storeOfMount(a)
	if err != nil {
		return err
	}

	done, err := service.RequestUpgrade(ctx, store, program)
	if err != nil {
		return err
	}

	return a.print(done, func() {
		a.printf("upgraded to %s, process %d; programs waited %s\n", done.Version, done.PID,
			time.Duration(done.Pause*float64(time.Second)).Round(time.Millisecond))
	})
}

// storeOfMount returns the store of the workspace in which the command runs. The directory may also be a mount point,
// whose daemon need not answer, or a store.
func storeOfMount(a *app) (string, error) {
	dir, err := a.commandDir()
	if err != nil {
		return "", err
	}

	mounts, err := locate.Mounts()
	if err != nil {
		return "", err
	}
	if m, ok := locate.MountOf(mounts, locate.Resolve(mounts, dir)); ok && m.FSType == locate.FSType {
		return m.Source, nil
	}
	if _, err := os.Lstat(filepath.Join(dir, service.SocketName)); err == nil {
		return dir, nil
	}

	return "", errs.Fail(errs.NotExist, "%s is in no mount of amberfs", dir).WithHint("use -C with a directory of the mount")
}

// termsCommand returns a hidden command with the arguments of mount. It reads the
// kernel's INIT request from the standard input, and prints the terms with which a daemon would answer it.
func termsCommand(a *app) *cobra.Command {
	cmd := mountLikeCommand(a, func(_ context.Context, a *app, cfg daemon.Config, _ bool) error {
		init, err := io.ReadAll(io.LimitReader(a.stdin, 1<<16))
		if err != nil {
			return err
		}

		terms, err := cfg.Terms(init)
		if err != nil {
			return err
		}

		a.printf("%s", terms)

		return nil
	})

	cmd.Use, cmd.Hidden = daemon.TermsCommand, true
	return cmd
}
