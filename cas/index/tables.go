package index

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/ristretto/v2/z"
)

// ErrTable is the ErrBroken of a damaged table.
var ErrTable = fmt.Errorf("%w: a table is damaged", ErrBroken)

// checkTables opens and closes each table of an index. Badger does it in goroutines of its own,
// where a panic at a malformed one ends the process, and it goes on without one whose checksum is
// wrong. Tables that the manifest does not have were left by a kill; Badger removes them.
func checkTables(o badger.Options) error {
	if o.InMemory {
		return nil
	}
	manifest, err := os.Open(filepath.Join(o.Dir, badger.ManifestFilename))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer manifest.Close()
	all, _, err := badger.ReplayManifestFile(manifest, o.ExternalMagicVersion, o)
	if err != nil {
		return err
	}
	for id := range all.Tables {
		name := table.NewFilename(id, o.Dir)
		err := mapped(func() error { return checkTable(name) })
		if err != nil && refusal(err) == nil {
			err = fmt.Errorf("%w: %s: %s", ErrTable, filepath.Base(name), brief(err))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func checkTable(name string) error {
	file, err := z.OpenMmapFile(name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close(-1)
	_, err = table.OpenTable(file, table.Options{ReadOnly: true, Compression: options.None, ChkMode: options.OnBlockRead})
	return err
}

// brief leaves out the dump of the table in a panic of Badger's.
func brief(err error) string {
	if text := strings.TrimSpace(err.Error()); !strings.Contains(text, "\n") {
		return text
	}
	return "malformed"
}
