package index

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

// TestDamagedTable: a table that is damaged is an error, which has the index made again, and
// no panic in a goroutine of Badger's.
func TestDamagedTable(t *testing.T) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	for name, damage := range map[string]func(table []byte) []byte{
		"zeros":     func(b []byte) []byte { return make([]byte, len(b)) },
		"1 MiB":     func([]byte) []byte { return make([]byte, 1<<20) },
		"empty":     func([]byte) []byte { return nil },
		"three":     func(b []byte) []byte { return b[:3] },
		"half":      func(b []byte) []byte { return b[:len(b)/2] },
		"ones":      func(b []byte) []byte { return append(b[:len(b)-8], 255, 255, 255, 255, 255, 255, 255, 255) },
		"its index": func(b []byte) []byte { b[len(b)-60] ^= 1; return b },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "index")
			x, err := Open(dir, log, false)
			must.OK(t, err)
			b := x.Batch(nil)
			for i := range 1000 {
				b.Put([]byte(fmt.Sprintf("key %04d", i)), []byte("value"))
			}
			must.OK(t, errors.Join(b.Commit(), x.Close()))
			tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
			must.OK(t, err)
			if len(tables) == 0 {
				t.Fatal("there is no table")
			}
			text, err := os.ReadFile(tables[0])
			must.OK(t, err)
			must.OK(t, os.WriteFile(tables[0], damage(text), 0o600))

			if x, err := Open(dir, log, false); !errors.Is(err, ErrBroken) {
				t.Fatalf("Open: %v, %v", x, err)
			}
			x, err = Create(dir, log, false)
			must.OK(t, err)
			must.OK(t, x.Close())
		})
	}
}
