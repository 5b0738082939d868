package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"filippo.io/age"

	"github.com/amberfs/amberfs/internal/env"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/cache"
)

const encryptedLine = "age-encryption.org/v1\n"

func isEncrypted(raw []byte) bool { return bytes.HasPrefix(raw, []byte(encryptedLine)) }

// encrypt encrypts an object or ref to the recipients of the remote, if it has any. The same
// bytes are different each time, so an interrupted push sends them again.
func (f *Format) encrypt(plain []byte) ([]byte, error) {
	if len(f.Recipients) == 0 {
		return plain, nil
	}
	var to []age.Recipient
	for _, s := range f.Recipients {
		rec, err := age.ParseX25519Recipient(s)
		if err != nil {
			return nil, fmt.Errorf("recipient of the remote: %w", err)
		}
		to = append(to, rec)
	}
	var out bytes.Buffer
	w, err := age.Encrypt(&out, to...)
	if err == nil {
		if _, err = w.Write(plain); err == nil {
			err = w.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	return out.Bytes(), nil
}

func (r *Remote) decryptAll(raw []byte) ([]byte, error) {
	keys, err := r.identities()
	if err != nil {
		return nil, err
	}
	plain, err := age.Decrypt(bytes.NewReader(raw), keys...)
	if err != nil {
		return nil, decryptFailed(err)
	}
	return io.ReadAll(io.LimitReader(plain, backend.MaxValue))
}

var errNoIdentity = errs.New(errs.Perm, "it is encrypted, and no available key decrypts it (%s names a file of keys)", identityVariable)

func (r *Remote) identities() ([]age.Identity, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.o.Identities == nil {
		keys, err := identities()
		if err != nil {
			return nil, err
		}
		r.o.Identities = keys
	}
	if len(r.o.Identities) == 0 {
		return nil, errNoIdentity
	}
	return r.o.Identities, nil
}

func decryptFailed(err error) error {
	var no *age.NoIdentityMatchError
	switch {
	case errors.As(err, &no):
		return errNoIdentity
	case errs.Of(err) != "", errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("decrypt: %w", err)
	}
	return errs.New(errs.Damaged, "decrypt: %w", err)
}

// read returns n bytes at offset off of an object, decrypted, and reads ahead. near reads
// from the cache only.
func (r *Remote) read(ctx context.Context, o backend.Object, encrypted, near bool, off, n, ahead int64) ([]byte, error) {
	if !encrypted {
		return r.o.Cache.ReadAt(ctx, o, off, n, ahead, r.fetch(o, near))
	}
	b, err := r.readDecrypted(ctx, o, near, off, n)
	if errors.Is(err, errs.Damaged) { // what is cached may be
		r.drop(o, true, 0, 0)
		b, err = r.readDecrypted(ctx, o, near, off, n)
	}
	return b, err
}

func (r *Remote) readDecrypted(ctx context.Context, o backend.Object, near bool, off, n int64) ([]byte, error) {
	ra, err := r.decrypter(ctx, o, near)
	if err != nil {
		return nil, err
	}
	buf := make([]byte, n)
	got, err := ra.ReadAt(buf, off)
	if err != nil && (err != io.EOF || got == 0) {
		return nil, fmt.Errorf("object %s: %w", o.Name, decryptFailed(err))
	}
	return buf[:got], nil
}

// fetch reads an object as it is on the remote; nil if near.
func (r *Remote) fetch(o backend.Object, near bool) cache.Fetch {
	if near {
		return nil
	}
	return func(ctx context.Context, off, n int64) (data []byte, err error) {
		err = r.health.try(ctx, func(ctx context.Context) error {
			data, err = r.b.GetRange(ctx, o.Key(), off, n)
			return err
		})
		return data, err
	}
}

// drop removes a part of an object from the cache. Of an encrypted object it removes all, because
// only age knows where the ciphertext of a part is.
func (r *Remote) drop(o backend.Object, encrypted bool, off, n int64) {
	if encrypted {
		r.readers.Delete(reader{o.Name, false})
		r.readers.Delete(reader{o.Name, true})
		off, n = 0, o.Size
	}
	r.o.Cache.Drop(o, off, n)
}

// A reader is of an encrypted object; one that is near reads from the cache only.
type reader struct {
	object string
	near   bool
}

// decrypter returns a decrypting reader of an object. Later calls use it, too, so its reads end
// by their timeout, not with the context of a caller.
func (r *Remote) decrypter(ctx context.Context, o backend.Object, near bool) (io.ReaderAt, error) {
	keys, err := r.identities()
	if err != nil {
		return nil, err
	}
	if ra, ok := r.readers.Load(reader{o.Name, near}); ok {
		return ra.(io.ReaderAt), nil
	}
	raw := rawReader{context.WithoutCancel(ctx), r.o.Cache, o, r.fetch(o, near)}
	ra, _, err := age.DecryptReaderAt(raw, o.Size, keys...)
	if err != nil {
		return nil, fmt.Errorf("object %s: %w", o.Name, decryptFailed(err))
	}
	r.readers.Store(reader{o.Name, near}, ra)
	return ra, nil
}

type rawReader struct {
	ctx   context.Context
	cache *cache.Cache
	o     backend.Object
	fetch cache.Fetch // nil: only what is cached
}

func (w rawReader) ReadAt(p []byte, off int64) (int, error) {
	b, err := w.cache.ReadAt(w.ctx, w.o, off, int64(len(p)), 0, w.fetch)
	n := copy(p, b)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// identityVariable names a file of keys that decrypt, as age-keygen writes it.
// Without it, identityFile in the user's configuration is read if it is there.
const (
	identityVariable = "AMBERFS_AGE_IDENTITY"
	identityFile     = "amberfs/age-identity.txt"
)

func identities() ([]age.Identity, error) {
	name, given := env.Lookup(identityVariable)
	if !given {
		dir, err := os.UserConfigDir()
		if err != nil {
			return nil, nil //nolint:nilerr // no home, no keys
		}
		name = filepath.Join(dir, identityFile)
	}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) && !given {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", identityVariable, err)
	}
	defer f.Close()
	ids, err := age.ParseIdentities(f)
	if err != nil {
		return nil, fmt.Errorf("%s: it contains no age key", name) // the error may quote the key
	}
	return ids, nil
}
