package gitbridge

import (
	"bufio"
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/amberfs/amberfs/internal/vfs"
)

// exported is what has to be known of an export to build the next one on it.
type exported struct {
	Fingerprint string
	Tree        string
	Files       int
	Links       []string // nested repositories, recorded as a link
	Skipped     []Omission
	Reduced     []Omission
}

// records is a directory with a file for each export, named by its commit. It
// can be deleted at any time: the next export then looks at everything.
type records struct{ dir string }

// maxRecords is how many are kept. An export builds on a recent one.
const maxRecords = 64

// maxRecord is the size of the largest, in bytes.
const maxRecord = 64 << 20

// open opens the folder above the directory, which it makes if it is missing. Links and
// what is no regular file lead nowhere.
func (r records) open() (*vfs.Beneath, error) {
	above, err := vfs.OpenBeneath(filepath.Dir(r.dir))
	if err != nil {
		return nil, err
	}
	if err := above.MkdirAll(r.dir, 0o700); err != nil {
		return nil, errors.Join(err, above.Close())
	}
	return above, nil
}

// load returns what is known of an exported commit.
func (r records) load(commit string) (e exported, ok bool) {
	if r.dir == "" {
		return e, false
	}
	above, err := r.open()
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

// save keeps what is known of an exported commit.
func (r records) save(commit string, e exported) error {
	if r.dir == "" {
		return nil
	}
	var data bytes.Buffer
	if err := gob.NewEncoder(&data).Encode(e); err != nil {
		return fmt.Errorf("remembering the export: %w", err)
	}
	above, err := r.open()
	if err != nil {
		return fmt.Errorf("remembering the export: %w", err)
	}
	defer above.Close()
	name := filepath.Join(r.dir, commit)
	f, err := above.File(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("remembering the export: %w", err)
	}
	_, err = f.Write(data.Bytes())
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("remembering the export: %w", err)
	}
	return errors.Join(above.Rename(name+".new", name), r.prune(above))
}

// prune removes the oldest records.
func (r records) prune(above *vfs.Beneath) error {
	entries, err := above.ReadDir(r.dir)
	if err != nil || len(entries) <= maxRecords {
		return err
	}
	written := make(map[string]time.Time)
	for _, e := range entries {
		f, err := above.File(filepath.Join(r.dir, e.Name), os.O_RDONLY, 0)
		if err != nil {
			continue // it went away, or is none
		}
		if info, err := f.Stat(); err == nil {
			written[e.Name] = info.ModTime()
		}
		_ = f.Close()
	}
	slices.SortFunc(entries, func(a, b vfs.Info) int { return written[a.Name].Compare(written[b.Name]) })
	for _, e := range entries[:len(entries)-maxRecords] {
		_ = above.Remove(filepath.Join(r.dir, e.Name))
	}
	return nil
}
