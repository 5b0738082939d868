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
	"sync"
	"syscall"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// dir keeps each key in a file of its own. A value is written to a temporary file,
// synced, and renamed; conditional Puts have the lock file to themselves, which
// holds on a network file system, too.
type dir struct {
	root *os.Root
	path string
	mu   sync.Mutex // flock knows processes, not goroutines
}

const dirLock = "lock"

func openDir(u *url.URL) (Backend, error) {
	if _, err := parameters(u); err != nil {
		return nil, err
	}
	if u.Host != "" || !path.IsAbs(u.Path) {
		return nil, errors.New("a directory is named as file:///DIR, with its absolute path")
	}
	p := filepath.Clean(u.Path)
	root, err := os.OpenRoot(p)
	if err != nil {
		return nil, fmt.Errorf("open remote: %w", err)
	}
	return &dir{root: root, path: p}, nil
}

// MakeDir makes the directory that a file URL names; of others there is nothing to
// make. Open makes none: the URL may come from a store that somebody else has made.
func MakeDir(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "file" || u.Host != "" || !path.IsAbs(u.Path) {
		return nil //nolint:nilerr // Open says what is wrong with it
	}
	if err := os.MkdirAll(filepath.Clean(u.Path), 0o777); err != nil {
		return fmt.Errorf("make remote: %w", err)
	}
	return nil
}

func (d *dir) URL() string       { return (&url.URL{Scheme: "file", Path: d.path}).String() }
func (d *dir) Conditional() bool { return true }
func (d *dir) Collects() bool    { return false }
func (d *dir) Close() error      { return d.root.Close() }

// sorted puts an error of the disk among those of this package.
func (d *dir) sorted(what, key string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s %s: %w", what, key, ErrNotFound)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s %s in %s: %w: %w", what, key, d.path, ErrDenied, err)
	case errors.Is(err, syscall.ESTALE), errors.Is(err, syscall.ETIMEDOUT), errors.Is(err, syscall.EHOSTDOWN):
		return fmt.Errorf("%s %s in %s: %w: %w", what, key, d.path, ErrAway, err)
	}
	return fmt.Errorf("%s %s in %s: %w", what, key, d.path, err)
}

func (d *dir) Put(ctx context.Context, key string, data []byte, o PutOptions) (string, error) {
	if err := errors.Join(checkKey(key), ctx.Err()); err != nil {
		return "", err
	}
	tmp, err := d.write(key, data)
	if err == nil {
		err = d.install(tmp, key, o)
	}
	if err != nil {
		return "", d.sorted("write", key, err)
	}
	return version(data), nil
}

// write leaves data, synced, in a temporary file beside the key's.
func (d *dir) write(key string, data []byte) (tmp string, err error) {
	if err := d.root.MkdirAll(path.Dir(key), 0o777); err != nil {
		return "", err
	}
	tmp = path.Join(path.Dir(key), ".tmp-"+uuid.NewString())
	f, err := d.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, d.root.Remove(tmp))
	}
	return tmp, nil
}

func (d *dir) install(tmp, key string, o PutOptions) error {
	err := d.locked(o.conditional(), func() error {
		if err := d.holds(key, o); err != nil {
			return err
		}
		return d.root.Rename(tmp, key)
	})
	if err != nil {
		return errors.Join(err, d.root.Remove(tmp))
	}
	return errors.Join(d.sync(path.Dir(key)), d.sync("."))
}

// holds returns ErrChanged if the condition of a Put does not hold.
func (d *dir) holds(key string, o PutOptions) error {
	if !o.conditional() {
		return nil
	}
	old, err := d.root.ReadFile(key)
	absent := errors.Is(err, fs.ErrNotExist)
	if err != nil && !absent {
		return err
	}
	if o.IfAbsent != absent || o.IfMatch != "" && version(old) != o.IfMatch {
		return ErrChanged
	}
	return nil
}

// locked calls fn with the lock file to itself, if it is needed.
func (d *dir) locked(needed bool, fn func() error) error {
	if !needed {
		return fn()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := d.root.OpenFile(dirLock, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	return fn()
}

func (d *dir) sync(name string) error {
	f, err := d.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (d *dir) Get(ctx context.Context, key string) ([]byte, string, error) {
	data, err := d.GetRange(ctx, key, 0, MaxValue)
	if err != nil {
		return nil, "", err
	}
	return data, version(data), nil
}

func (d *dir) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	if err := errors.Join(checkKey(key), ctx.Err()); err != nil {
		return nil, err
	}
	f, err := d.root.Open(key)
	if err != nil {
		return nil, d.sorted("read", key, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.NewSectionReader(f, off, n))
	return data, d.sorted("read", key, err)
}

func (d *dir) Stat(ctx context.Context, key string) (Info, error) {
	if err := errors.Join(checkKey(key), ctx.Err()); err != nil {
		return Info{}, err
	}
	fi, err := d.root.Stat(key)
	if err != nil {
		return Info{}, d.sorted("look for", key, err)
	}
	return Info{key, fi.Size(), fi.ModTime()}, nil
}

func (d *dir) List(ctx context.Context, prefix string, fn func(Info) error) error {
	if err := checkPrefix(prefix); err != nil {
		return err
	}
	entries, err := fs.ReadDir(d.root.FS(), strings.TrimSuffix(prefix, "/"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d.sorted("list", prefix, err)
	}
	for _, e := range entries {
		if checkKey(prefix+e.Name()) != nil {
			continue // a temporary file
		}
		info, err := d.Stat(ctx, prefix+e.Name())
		if errors.Is(err, ErrNotFound) {
			continue // removed meanwhile
		}
		if err == nil {
			err = fn(info)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (d *dir) Delete(ctx context.Context, key string) error {
	if err := errors.Join(checkKey(key), ctx.Err()); err != nil {
		return err
	}
	err := d.root.Remove(key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return d.sorted("delete", key, err)
}
