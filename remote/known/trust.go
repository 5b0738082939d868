package known

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/amberfs/amberfs/internal/env"
)

// A trustStore has the URLs that this user has agreed to contact. They are stored in the user's state
// directory, with a file for each URL, and not in the store: another user may have made the store, with a
// remotes.json that names a host to which this user's credentials would be sent.
type trustStore struct {
	dir string // empty if the user has no home

	mu          sync.Mutex
	trustedURLs map[string]bool // results of isTrusted, by URL
}

func newTrustStore() *trustStore {
	t := &trustStore{trustedURLs: map[string]bool{}}
	if state, err := env.StateDir(); err == nil {
		t.dir = filepath.Join(state, "remotes")
	}
	return t
}

// filePath returns the path of the file for a URL.
func (t *trustStore) filePath(url string) string {
	sum := sha256.Sum256([]byte(url))
	return filepath.Join(t.dir, hex.EncodeToString(sum[:]))
}

// isTrusted reports whether the user has agreed to a URL, in this process or another.
func (t *trustStore) isTrusted(url string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()

	if !t.trustedURLs[url] && t.dir != "" {
		_, err := os.Lstat(t.filePath(url))
		t.trustedURLs[url] = err == nil
	}

	return t.trustedURLs[url]
}

// add records that the user agrees to a URL. If it returns an error, the URL is trusted only until this process ends.
func (t *trustStore) add(url string) error {
	if t.isTrusted(url) {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()

	t.trustedURLs[url] = true
	if t.dir == "" {
		return fmt.Errorf("remember that %s is trusted: this user has no home directory", url)
	}
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return fmt.Errorf("remember that %s is trusted: %w", url, err)
	}
	if err := os.WriteFile(t.filePath(url), []byte(url+"\n"), 0o600); err != nil {
		return fmt.Errorf("remember that %s is trusted: %w", url, err)
	}

	return nil
}
