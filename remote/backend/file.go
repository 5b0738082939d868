package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
)

// A dir is a backend in a directory, with a file for each key. A value is written to a temporary file,
// synced, and renamed. Each call opens the directory anew: its disk may be unmounted between calls.
// Others may write to the directory, so files are opened with vfs.Root.
type dir struct{ path string }

func openDir(u *url.URL) (Backend, error) {
	if _, err := parseParameters(u); err != nil {
		return nil, err
	}
	if u.Host != "" || !path.IsAbs(u.Path) {
		return nil, errors.New("a directory is named as file:///DIR, with its absolute path")
	}
	return &dir{path: filepath.Clean(u.Path)}, nil
}

// MakeDir creates the directory of a file URL. For other URLs it does nothing. No other function creates
// the directory: the URL may come from a store that another person has made.
func MakeDir(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "file" || u.Host != "" || !path.IsAbs(u.Path) {
		return nil //nolint:nilerr // Open returns the error
	}
	if err := os.MkdirAll(filepath.Clean(u.Path), 0o777); err != nil {
		return fmt.Errorf("make remote: %w", err)
	}

	return nil
}

func (d *dir) URL() string           { return (&url.URL{Scheme: "file", Path: d.path}).String() }
func (d *dir) IsRegistry() bool      { return false }
func (d *dir) CloseIdleConnections() {}

// withDir calls fn with the open directory, and wraps its error. operation is the verb for the error text.
func (d *dir) withDir(ctx context.Context, operation, key string, fn func(b *vfs.Root) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}

	b, err := vfs.OpenRoot(d.path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("%w: there is no directory %s (is its disk mounted?)", ErrAway, d.path)
	}
	if err != nil {
		return d.wrapError(operation, key, err)
	}
	defer b.Close()

	err = fn(b)
	// If the format is missing too, the file may not be lost: perhaps the disk is not mounted, and its mount point is
	// an empty directory.
	if errors.Is(err, fs.ErrNotExist) && (operation == "look for" || strings.HasPrefix(key, "obj/")) {
		if _, ferr := b.Stat(d.keyPath("format")); errors.Is(ferr, fs.ErrNotExist) {
			return fmt.Errorf("%s %s: %w: there is no remote in %s (is its disk mounted?)", operation, key, ErrAway, d.path)
		}
	}

	return d.wrapError(operation, key, err)
}

func (d *dir) keyPath(key string) string { return filepath.Join(d.path, key) }

// wrapError converts an error of the file system to an error of this package.
func (d *dir) wrapError(operation, key string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s %s: %w", operation, key, ErrNotFound)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s %s in %s: %w: %w", operation, key, d.path, ErrDenied, err)
	}
	if errors.Is(err, vfs.ErrNotRegular) {
		return errs.New(errs.Damaged, "%s %s in %s: %w", operation, key, d.path, err)
	}

	for _, away := range []syscall.Errno{syscall.ESTALE, syscall.ETIMEDOUT, syscall.EHOSTDOWN, syscall.ENOTCONN, syscall.ENODEV, syscall.ESHUTDOWN} {
		if errors.Is(err, away) {
			return fmt.Errorf("%s %s in %s: %w: %w", operation, key, d.path, ErrAway, err)
		}
	}

	return fmt.Errorf("%s %s in %s: %w", operation, key, d.path, err)
}

func (d *dir) Put(ctx context.Context, key string, data []byte, o PutOptions) error {
	return d.withDir(ctx, "write", key, func(b *vfs.Root) error {
		rename := b.Rename
		if o.IfAbsent {
			rename = b.RenameNew
		}

		file := d.keyPath(key)
		err := b.WriteThenRename(file, data, 0o666, true, rename)
		if errors.Is(err, fs.ErrExist) && o.IfAbsent {
			return ErrChanged
		}
		if err != nil {
			return err
		}

		return errors.Join(b.SyncDir(filepath.Dir(file)), b.SyncDir(d.path))
	})
}

func (d *dir) GetRange(ctx context.Context, key string, off, n int64) (data []byte, err error) {
	err = d.withDir(ctx, "read", key, func(b *vfs.Root) error {
		f, err := b.OpenOSFile(d.keyPath(key), os.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()

		data, err = io.ReadAll(io.NewSectionReader(f, off, n))
		return err
	})
	return data, err
}

func (d *dir) Stat(ctx context.Context, key string) (info Info, err error) {
	err = d.withDir(ctx, "look for", key, func(b *vfs.Root) error {
		i, err := b.Stat(d.keyPath(key))
		info = Info{Key: key, Size: i.Size, Modified: i.Modified}
		return err
	})
	return info, err
}

func (d *dir) List(ctx context.Context, prefix string, fn func(Info) error) error {
	var entries []vfs.Info
	err := d.withDir(ctx, "list", prefix, func(b *vfs.Root) (err error) {
		entries, err = b.ReadDir(d.keyPath(strings.TrimSuffix(prefix, "/")))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}

	for _, e := range entries {
		if !isKey(prefix + e.Name) {
			continue // a temporary file
		}
		if err := fn(Info{Key: prefix + e.Name, Size: e.Size, Modified: e.Modified}); err != nil {
			return err
		}
	}

	return ctx.Err()
}

func (d *dir) Delete(ctx context.Context, key string) error {
	return d.withDir(ctx, "delete", key, func(b *vfs.Root) error {
		err := vfs.Erase(b, d.keyPath(key)) // overwritten, too: a user may delete the object to forget its contents
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}
