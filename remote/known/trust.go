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

// trust is the remotes that this user has agreed to contact. They are kept in the user's
// own state directory, one file a URL, because a store may come from another user: its
// remotes.json names endpoints to which the user's credentials would be sent.
type trust struct {
	dir string // empty if the user has no home

	mu     sync.Mutex
	agreed map[string]bool
}

func newTrust() *trust {
	t := &trust{agreed: map[string]bool{}}
	if state, err := env.StateDir(); err == nil {
		t.dir = filepath.Join(state, "remotes")
	}
	return t
}

func (t *trust) file(url string) string {
	sum := sha256.Sum256([]byte(url))
	return filepath.Join(t.dir, hex.EncodeToString(sum[:]))
}

// has reports whether the user has agreed to a URL, here or in another process.
func (t *trust) has(url string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.agreed[url] && t.dir != "" {
		_, err := os.Lstat(t.file(url))
		t.agreed[url] = err == nil
	}
	return t.agreed[url]
}

// add agrees to a URL. An error means that this is not kept beyond this process.
func (t *trust) add(url string) error {
	if t.has(url) {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.agreed[url] = true
	if t.dir == "" {
		return fmt.Errorf("remember that %s is trusted: this user has no home directory", url)
	}
	err := os.MkdirAll(t.dir, 0o700)
	if err == nil {
		err = os.WriteFile(t.file(url), []byte(url+"\n"), 0o600)
	}
	if err != nil {
		return fmt.Errorf("remember that %s is trusted: %w", url, err)
	}
	return nil
}
