package runs

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
)

// notedDir is beside the stores. It has a file for each directory whose secrets were named.
const notedDir = "noted"

// FirstNote reports whether it is called for a directory the first time. Without a place to record that, it
// always is.
func FirstNote(dir string) bool {
	root, err := Root()
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
	_ = f.Close() // it is empty

	return true
}
