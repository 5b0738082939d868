package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

// TestSocketOfThePage: the socket of the page is accessible to its user alone, from its creation on.
func TestSocketOfThePage(t *testing.T) {
	dir := t.TempDir()
	for i := range 300 {
		path := filepath.Join(dir, fmt.Sprint(i))
		stop, seen := make(chan struct{}), make(chan fs.FileMode, 1)
		go func() {
			defer close(seen)
			for {
				select {
				case <-stop:
					return
				default:
				}
				if st, err := os.Lstat(path); err == nil && st.Mode().Perm() != 0o600 {
					seen <- st.Mode()
					return
				}
			}
		}()
		l, err := listenUI("unix:" + path)
		must.OK(t, err)
		st, err := os.Lstat(path)
		close(stop)
		if mode, bad := <-seen; bad || err != nil || st.Mode().Perm() != 0o600 {
			t.Fatalf("round %d: the mode is %v, and was %v: %v", i, st.Mode(), mode, err)
		}
		l.Close()
	}
}

func TestListenAddresses(t *testing.T) {
	for where, ok := range map[string]bool{"127.0.0.1:0": true, "localhost:0": true, "0.0.0.0:0": false, ":0": false, "127.0.0.2:0": false, "127.0.0.1": false} {
		l, err := listenUI(where)
		if (err == nil) != ok {
			t.Errorf("%s: %v", where, err)
		}
		if err == nil {
			l.Close()
		}
	}
}
