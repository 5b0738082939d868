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

// ageHeader is the beginning of every value that is encrypted with age.
const ageHeader = "age-encryption.org/v1\n"

// isEncrypted reports whether a value of the remote is encrypted with age.
func isEncrypted(raw []byte) bool { return bytes.HasPrefix(raw, []byte(ageHeader)) }

// encrypt encrypts a value to the recipients of the remote, if it has any. The result differs at each
// call, so a push that is run again does not find its encrypted objects on the remote.
func (f *Format) encrypt(plain []byte) ([]byte, error) {
	if len(f.Recipients) == 0 {
		return plain, nil
	}
	var recipients []age.Recipient
	for _, s := range f.Recipients {
		rec, err := age.ParseX25519Recipient(s)
		if err != nil {
			return nil, fmt.Errorf("recipient of the remote: %w", err)
		}
		recipients = append(recipients, rec)
	}

	var out bytes.Buffer
	w, err := age.Encrypt(&out, recipients...)
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	if _, err := w.Write(plain); err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}

	return out.Bytes(), nil
}

// PutObject stores a value as an object without records. The caller writes a ref that names the object, so that
// collections do not remove it.
func PutObject(ctx context.Context, r *Remote, plain []byte) (backend.Object, error) {
	f, err := r.Format(ctx)
	if err != nil {
		return backend.Object{}, err
	}

	raw, err := f.encrypt(plain)
	if err != nil {
		return backend.Object{}, err
	}

	o := backend.ObjectOf(raw)
	return o, r.b.Put(ctx, o.Key(), raw, backend.PutOptions{})
}

// GetObject returns the value that PutObject stored.
func GetObject(ctx context.Context, r *Remote, o backend.Object) ([]byte, error) {
	raw, err := backend.Get(ctx, r.b, o.Key())
	if err != nil || !isEncrypted(raw) {
		return raw, err
	}
	return r.decryptAll(raw)
}

// decryptAll decrypts a whole value. It returns at most backend.MaxValueSize bytes.
func (r *Remote) decryptAll(raw []byte) ([]byte, error) {
	keys, err := r.identities()
	if err != nil {
		return nil, err
	}

	plain, err := age.Decrypt(bytes.NewReader(raw), keys...)
	if err != nil {
		return nil, decryptError(err)
	}

	return io.ReadAll(io.LimitReader(plain, backend.MaxValueSize))
}

var errNoIdentity = errs.New(errs.Perm, "it is encrypted, and no available key decrypts it (%s names a file of keys)", identityVariable)

// identities returns the keys that decrypt: Options.Identities, or the keys of the user, which are read
// once. It returns errNoIdentity if there are none.
func (r *Remote) identities() ([]age.Identity, error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.o.Identities == nil {
		keys, err := readIdentities()
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

// decryptError converts an error of age. If the ciphertext could not be read, the kind of the error stays. Any other
// error means that the ciphertext is damaged.
func decryptError(err error) error {
	var no *age.NoIdentityMatchError
	switch {
	case errors.As(err, &no):
		return errNoIdentity
	case errs.KindOf(err) != "", errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("decrypt: %w", err)
	}

	return errs.New(errs.Damaged, "decrypt: %w", err)
}

// read returns n decrypted bytes of an object from offset off on. If the object is not encrypted, read also reads the
// aheadBytes bytes that follow into the cache. If cachedOnly is set, read makes no request, and fails for bytes that
// are not in the cache.
func (r *Remote) read(ctx context.Context, o backend.Object, encrypted, cachedOnly bool, off, n, aheadBytes int64) ([]byte, error) {
	if !encrypted {
		return r.o.Cache.ReadAt(ctx, o, off, n, aheadBytes, r.fetchFunc(o, cachedOnly))
	}
	b, err := r.readDecrypted(ctx, o, cachedOnly, off, n)
	if errors.Is(err, errs.Damaged) { // perhaps only the cached bytes: fetch them again
		r.dropCached(o, true, 0, 0)
		b, err = r.readDecrypted(ctx, o, cachedOnly, off, n)
	}

	return b, err
}

// readDecrypted does what Remote.read does, for an encrypted object.
func (r *Remote) readDecrypted(ctx context.Context, o backend.Object, cachedOnly bool, off, n int64) ([]byte, error) {
	ra, err := r.decrypter(ctx, o, cachedOnly)
	if err != nil {
		return nil, err
	}

	buf := make([]byte, n)
	got, err := ra.ReadAt(buf, off)
	if err != nil && (err != io.EOF || got == 0) {
		return nil, fmt.Errorf("object %s: %w", o.Name, decryptError(err))
	}

	return buf[:got], nil
}

// fetchFunc returns the function with which the cache reads the stored bytes of an object from the remote. It returns
// nil if cachedOnly is set.
func (r *Remote) fetchFunc(o backend.Object, cachedOnly bool) cache.FetchFunc {
	if cachedOnly {
		return nil
	}
	return func(ctx context.Context, off, n int64) (data []byte, err error) {
		err = r.health.retry(ctx, func(ctx context.Context) error {
			data, err = r.b.GetRange(ctx, o.Key(), off, n)
			return err
		})
		return data, err
	}
}

// dropCached removes a range of an object from the cache. It removes an encrypted object as a whole:
// off and n count plain bytes, and only age knows where their ciphertext is.
func (r *Remote) dropCached(o backend.Object, encrypted bool, off, n int64) {
	if encrypted {
		r.readers.Delete(readerKey{o.Name, false})
		r.readers.Delete(readerKey{o.Name, true})
		off, n = 0, o.Size
	}
	r.o.Cache.Drop(o, off, n)
}

// A readerKey is the key of Remote.readers: an object, and whether its reader makes no requests.
type readerKey struct {
	object     string
	cachedOnly bool
}

// decrypter returns a reader of the plain bytes of an object. Later callers get the same reader, so the end of one
// caller's context must not end the reads: only Options.Timeout ends them.
func (r *Remote) decrypter(ctx context.Context, o backend.Object, cachedOnly bool) (io.ReaderAt, error) {
	keys, err := r.identities()
	if err != nil {
		return nil, err
	}
	if ra, ok := r.readers.Load(readerKey{o.Name, cachedOnly}); ok {
		return ra.(io.ReaderAt), nil
	}

	raw := ciphertextReader{context.WithoutCancel(ctx), r.o.Cache, o, r.fetchFunc(o, cachedOnly)}
	ra, _, err := age.DecryptReaderAt(raw, o.Size, keys...)
	if err != nil {
		return nil, fmt.Errorf("object %s: %w", o.Name, decryptError(err))
	}

	r.readers.Store(readerKey{o.Name, cachedOnly}, ra)

	return ra, nil
}

// A ciphertextReader reads an encrypted object through the cache.
type ciphertextReader struct {
	ctx   context.Context
	cache *cache.Cache
	o     backend.Object
	fetch cache.FetchFunc // if nil, only cached bytes are read
}

func (w ciphertextReader) ReadAt(p []byte, off int64) (int, error) {
	b, err := w.cache.ReadAt(w.ctx, w.o, off, int64(len(p)), 0, w.fetch)
	n := copy(p, b)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// identityVariable is the environment variable that names a file with the keys that decrypt, as age-keygen writes it.
// If the variable is not set, the keys are in identityFile, in the user's configuration directory. That file need not
// exist.
const (
	identityVariable = "AMBERFS_AGE_IDENTITY"
	identityFile     = "amberfs/age-identity.txt"
)

// readIdentities reads the keys of the user. Without a file of keys it returns none.
func readIdentities() ([]age.Identity, error) {
	name, isSet := env.Lookup(identityVariable)
	if !isSet {
		dir, err := os.UserConfigDir()
		if err != nil {
			return nil, nil //nolint:nilerr // no home, no keys
		}
		name = filepath.Join(dir, identityFile)
	}

	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) && !isSet {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", identityVariable, err)
	}
	defer f.Close()

	ids, err := age.ParseIdentities(f)
	if err != nil {
		return nil, fmt.Errorf("%s: it contains no age key", name) // err is not wrapped, because it may quote the key
	}

	return ids, nil
}
