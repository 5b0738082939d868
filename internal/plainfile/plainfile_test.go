package plainfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/must"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must.OK(t, os.WriteFile(at("small"), []byte("text"), 0o600))
	must.OK(t, os.WriteFile(at("large"), nil, 0o600))
	must.OK(t, os.Truncate(at("large"), 1<<40))
	must.OK(t, unix.Mkfifo(at("pipe"), 0o600))

	if b, err := Read(at("small"), 4); err != nil || string(b) != "text" {
		t.Errorf("%q, %v", b, err)
	}
	for _, name := range []string{"large", "pipe", "."} {
		if b, err := Read(at(name), 1<<20); !errors.Is(err, ErrUnfit) {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
	if _, err := Read(at("none"), 1); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
