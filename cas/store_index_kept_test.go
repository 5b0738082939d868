package cas

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas/index"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/tests/must"
)

// TestIndexIsKept: what is no damage makes no opening read all packs again.
func TestIndexIsKept(t *testing.T) {
	const killedInTakeover = "killed while it was opened in a takeover"
	leave := map[string]func(t *testing.T, dir string, takeover bool){
		"killed while a collection counted itself": func(t *testing.T, dir string, _ bool) {
			x, err := index.Open(dir, slog.New(slog.DiscardHandler), false)
			must.OK(t, err)
			b := x.Batch(nil)
			b.Put([]byte{keyHead}, indexHead(1))
			must.OK(t, b.Commit())
			must.OK(t, x.Close())
		},
		killedInTakeover: func(t *testing.T, dir string, _ bool) {
			must.OK(t, os.WriteFile(filepath.Join(dir, "OPENING"), []byte("1"), 0o600))
		},
		"no descriptors": func(t *testing.T, dir string, takeover bool) {
			for spare := range uint64(12) {
				limit, back := limitDescriptors(t, spare)
				x, err := index.Open(dir, slog.New(slog.DiscardHandler), takeover)
				back()
				if err == nil {
					must.OK(t, x.Close())
				} else if !errs.IsShortage(err) {
					t.Errorf("with %d descriptors: %v", limit, err)
				}
			}
		},
	}
	for name, left := range leave {
		for _, takeover := range []bool{false, true} {
			if name == killedInTakeover && !takeover {
				continue // a process that ends does not come back by itself
			}
			t.Run(name, func(t *testing.T) {
				_, dir, o, blobs := damageStore(t)
				left(t, o.indexDir, takeover)
				var log bytes.Buffer
				o.Logger, o.Takeover = slog.New(slog.NewTextHandler(&log, nil)), takeover
				s := openTest(t, dir, o)
				if bytes.Contains(log.Bytes(), []byte("rebuilding")) {
					t.Errorf("the index was made again:\n%s", log.String())
				}
				for _, b := range blobs {
					wantObject(t, s, b)
				}
				collectAllBut(t, s, blobs)
				closeTest(t, s)
			})
		}
	}
}

// limitDescriptors leaves this process so many more descriptors than it has.
func limitDescriptors(t *testing.T, spare uint64) (limit uint64, back func()) {
	var was unix.Rlimit
	must.OK(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	open, err := os.ReadDir("/proc/self/fd")
	must.OK(t, err)
	limit = uint64(len(open)) + spare
	must.OK(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit, Max: was.Max}))
	return limit, func() {
		must.OK(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: was.Cur, Max: was.Max}))
	}
}
