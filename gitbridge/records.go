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

// exportRecord describes a finished export, so that a later export can start from it.
type exportRecord struct {
	Fingerprint string
	Tree        string
	Files       int
	Links       []string // paths of nested repositories
	Skipped     []stream.Omission
	Reduced     []stream.Omission
}

// records is a directory with a file for each export. The name of the file is the id of the commit. The
// directory can be deleted at any time: then the next export reads all files.
type records struct{ dir string }

const (
	maxRecords     = 64       // records in the directory
	maxRecordBytes = 64 << 20 // bytes of a record
)

// load returns the record of an exported commit, and whether it could be read. It follows no links and
// reads only regular files.
func (r records) load(commit string) (e exportRecord, ok bool) {
	if r.dir == "" {
		return e, false
	}
	above, err := vfs.OpenRoot(filepath.Dir(r.dir))
	if err != nil {
		return e, false
	}
	defer above.Close()

	f, err := above.OpenOSFile(filepath.Join(r.dir, commit), os.O_RDONLY, 0)
	if err != nil {
		return e, false
	}
	defer f.Close()

	err = gob.NewDecoder(bufio.NewReader(io.LimitReader(f, maxRecordBytes))).Decode(&e)
	return e, err == nil
}

func (r records) save(commit string, e exportRecord) error {
	if r.dir == "" {
		return nil
	}
	above, err := vfs.OpenRoot(filepath.Dir(r.dir))
	if err != nil {
		return err
	}
	defer above.Close()

	if err := above.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}

	// An export usually starts from the latest export, so when the directory is full, all earlier records
	// are removed.
	if old, err := above.ReadDir(r.dir); err == nil && len(old) >= maxRecords {
		for _, e := range old {
			_ = above.Remove(filepath.Join(r.dir, e.Name))
		}
	}

	name := filepath.Join(r.dir, commit)
	f, err := above.OpenOSFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}

	w := bufio.NewWriter(f)
	if err := errors.Join(gob.NewEncoder(w).Encode(e), w.Flush(), f.Close()); err != nil {
		return err
	}

	return above.Rename(name+".new", name)
}
