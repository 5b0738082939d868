package runs

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
)

// notedDir is a directory next to the stores. It has a file for each directory for which MarkNoted was called.
const notedDir = "noted"

// MarkNoted records that the user got a note about a directory. It reports whether this is the first note. If it cannot
// record the note, it reports true.
func MarkNoted(dir string) bool {
	root, err := StoresDir()
	if err != nil {
		return true
	}
	if err := os.MkdirAll(filepath.Join(root, notedDir), 0o700); err != nil {
		return true
	}

	f, err := os.OpenFile(filepath.Join(root, notedDir, fmt.Sprintf("%x", sha256.Sum256([]byte(dir)))), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return !os.IsExist(err)
	}
	_ = f.Close() // Close can lose no data, because the file is empty

	return true
}
