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

// ErrDamagedTable is the ErrBroken error for an index with a damaged table.
var ErrDamagedTable = fmt.Errorf("%w: a table is damaged", ErrBroken)

// checkTables opens and closes each table of an index, before Badger opens them. Badger opens tables in
// goroutines of its own, where a panic at a malformed table ends the process. Badger ignores a table with
// a wrong checksum. checkTables skips tables that are not in Badger's manifest: they remain after a kill,
// and Badger removes them.
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
		err := recoverFaults(func() error { return checkTable(name) })
		if err != nil && systemError(err) == nil {
			err = fmt.Errorf("%w: %s: %s", ErrDamagedTable, filepath.Base(name), shortText(err))
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

// shortText returns the text of an error without the dump of the table, which a panic of Badger
// contains.
func shortText(err error) string {
	if text := strings.TrimSpace(err.Error()); !strings.Contains(text, "\n") {
		return text
	}
	return "malformed"
}
