package image

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/opencontainers/go-digest"

	"github.com/amberfs/amberfs/internal/vfs"
)

// Blobs is a folder of a store with the manifests, configurations and layers of imported images, unchanged,
// so that an export can contain the same blobs.
type Blobs struct {
	FS  vfs.FS
	Dir string
}

func (b Blobs) path(d digest.Digest) string {
	return filepath.Join(b.Dir, d.Algorithm().String()+"-"+d.Encoded())
}

// Put stores a blob. It syncs the blob, but not the folder: after a power cut the blob may be missing. If the bytes
// in r do not have the digest, Put returns ErrDigest and stores no blob.
func (b Blobs) Put(d digest.Digest, r io.Reader) error {
	if err := cmp.Or(d.Validate(), b.FS.MkdirAll(b.Dir, 0o700)); err != nil {
		return err
	}

	part := filepath.Join(b.Dir, rand.Text()+".part")
	f, err := vfs.Create(b.FS, part)
	if err != nil {
		return err
	}

	v := d.Verifier()
	_, err = io.Copy(io.NewOffsetWriter(f, 0), io.TeeReader(r, v))
	if err == nil && !v.Verified() {
		err = fmt.Errorf("%s: %w", d, ErrDigest)
	}
	if err = cmp.Or(err, f.Sync()); err == nil {
		err = b.FS.Rename(part, b.path(d))
	}
	if err = cmp.Or(err, f.Close()); err != nil {
		b.FS.Remove(part)
	}

	return err
}

// Open opens a blob. Errors: fs.ErrNotExist.
func (b Blobs) Open(d digest.Digest) (io.ReadCloser, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}

	f, err := vfs.Open(b.FS, b.path(d))
	if err != nil {
		return nil, err
	}

	size, err := f.Size()
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, 0, size), f}, err
}

// Decode reads a blob of JSON. Errors: as Open.
func (b Blobs) Decode(d digest.Digest, into any) error {
	r, err := b.Open(d)
	if err != nil {
		return err
	}
	defer r.Close()
	return decodeJSON(r, into)
}

// RemoveExcept removes all blobs but the needed ones. It also removes files that an interrupted Put has left.
func (b Blobs) RemoveExcept(needed map[digest.Digest]bool) error {
	names := make(map[string]bool)
	for d := range needed {
		names[filepath.Base(b.path(d))] = true
	}

	all, err := b.FS.ReadDir(b.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	for _, i := range all {
		if !names[i.Name] {
			err = errors.Join(err, b.FS.Remove(filepath.Join(b.Dir, i.Name)))
		}
	}

	return err
}
