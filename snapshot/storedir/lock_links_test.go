package storedir_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/storedir"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
)

// TestFilesThatAreNone: what should be a file of the store and is a link, or a pipe,
// is neither followed nor waited for.
func TestFilesThatAreNone(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	for what, place := range map[string]func(name string) error{
		"link": func(name string) error { return os.Symlink(outside, name) },
		"pipe": func(name string) error { return unix.Mkfifo(name, 0o600) },
	} {
		for _, file := range []string{"lock", "format"} {
			dir := filepath.Join(t.TempDir(), "store")
			s := stores.Open(t, dir)
			must.OK(t, s.Close())
			must.OK(t, os.WriteFile(outside, []byte("amberfs store 4\n"), 0o600))
			name := filepath.Join(dir, file)
			must.OK(t, os.Remove(name))
			must.OK(t, place(name))
			done := make(chan error, 1)
			go func() {
				s, err := snapshot.Open(dir, snapshot.Options{Quiet: true})
				if err == nil {
					s.Close()
				}
				_, _ = storedir.ReadHolder(dir) // must come back
				done <- err
			}()
			if err := await.Receive(t, "opening with a "+what+" in place of "+file, done); err == nil {
				t.Errorf("with a %s in place of %s the store opens", what, file)
			}
			if b, err := os.ReadFile(outside); err != nil || string(b) != "amberfs store 4\n" {
				t.Errorf("what the %s in place of %s leads to holds %q, %v", what, file, b, err)
			}
		}
	}
}
