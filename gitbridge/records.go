package gitbridge

import (
	"bufio"
	"encoding/gob"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/stream"
)

// exported describes an export, so that the next one can start from it.
type exportRecord struct {
	Fingerprint string
	Tree        string
	Files       int
	Links       []string // nested repositories
	Skipped     []stream.Omission
	Reduced     []stream.Omission
}

// records is a directory with a file for each export, named by its commit. It can be deleted at any
// time: then the next export reads everything.
type records struct{ dir string }

const (
	maxRecords = 64       // that are kept
	maxRecord  = 64 << 20 // bytes
)

// load returns the record of an exported commit. It follows no links and reads only regular files.
func (r records) load(commit string) (e exportRecord, ok bool) {
	if r.dir == "" {
		return e, false
	}
	above, err := vfs.OpenBeneath(filepath.Dir(r.dir))
	if err != nil {
		return e, false
	}
	defer above.Close()

	f, err := above.File(filepath.Join(r.dir, commit), os.O_RDONLY, 0)
	if err != nil {
		return e, false
	}
	defer f.Close()

	err = gob.NewDecoder(bufio.NewReader(io.LimitReader(f, maxRecord))).Decode(&e)
	return e, err == nil
}

func (r records) save(commit string, e exportRecord) error {
	if r.dir == "" {
		return nil
	}
	above, err := vfs.OpenBeneath(filepath.Dir(r.dir))
	if err != nil {
		return err
	}
	defer above.Close()

	if err := above.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}

	// An export mostly starts from the one before it, so all older records are removed at once.
	if old, err := above.ReadDir(r.dir); err == nil && len(old) >= maxRecords {
		for _, e := range old {
			_ = above.Remove(filepath.Join(r.dir, e.Name))
		}
	}

	name := filepath.Join(r.dir, commit)
	f, err := above.File(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}

	w := bufio.NewWriter(f)
	if err := errors.Join(gob.NewEncoder(w).Encode(e), w.Flush(), f.Close()); err != nil {
		return err
	}

	return above.Rename(name+".new", name)
}
