package extremes_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

const (
	memory = 512 << 20
	quota  = 100_000_000
)

// A world is a mount, with the inputs in main and in a fork.
type world struct {
	*harness.Mount
	t     *testing.T
	kills func() int64
	http  *http.Client
}

// patience is how long one request may take before it is taken for endless. git compresses 5 GiB
// for an export.
var patience = 3 * time.Minute

func init() {
	if harness.LongTests() {
		patience = 20 * time.Minute
	}
}

func newWorld(t *testing.T, extra ...string) *world {
	w := &world{Mount: harness.NewUnmounted(t, ""), t: t}
	kills, peak := harness.LimitMemory(t, w.Mount, memory)
	w.kills = kills
	if len(extra) > 0 {
		w.directory(extra[1], false)
	}
	w.Start(extra...)
	t.Cleanup(func() { t.Logf("the daemon and git had %d MiB at the most", peak()>>20) })
	w.http = &http.Client{Timeout: patience, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(w.Store, "socket"))
	}}}
	return w
}

// within fails the test when fn takes too long: it says what hangs.
func (w *world) within(what string, fn func()) {
	w.t.Helper()
	if testing.Verbose() {
		w.t.Log(time.Now().Format(time.TimeOnly), what)
	}
	done := make(chan struct{})
	go func() { defer close(done); fn() }()
	select {
	case <-done:
	case <-time.After(patience):
		w.t.Fatalf("%s takes more than %v", what, patience)
	}
	if n := w.kills(); n != 0 {
		w.t.Fatalf("%s: a process was killed for want of memory", what)
	}
	if _, err := os.Stat(w.Path(".snapshots", "README")); err != nil {
		w.t.Fatalf("after %s the mount does not answer: %v", what, err)
	}
}

// change makes the first or the second form of the inputs in a workspace.
func (w *world) change(ws string, second bool) {
	t := w.t
	file := func(name string, fn func(f *os.File) error) {
		w.within("writing "+name, func() {
			f, err := os.OpenFile(filepath.Join(ws, name), os.O_RDWR|os.O_CREATE, 0o644)
			if err == nil {
				err = errors.Join(fn(f), f.Close())
			}
			if err != nil && !errors.Is(err, unix.EDQUOT) {
				t.Errorf("writing %s: %v", name, err)
			}
		})
	}
	mark := func(off int64) func(f *os.File) error {
		return func(f *os.File) error { _, err := f.WriteAt([]byte("second\n"), off); return err }
	}
	text := func(name, piece string, n int) {
		file(name, func(f *os.File) error {
			if second {
				return mark(int64(n / 2))(f)
			}
			_, err := f.WriteString(strings.Repeat(piece, n/len(piece)))
			return err
		})
	}
	file("holes", func(f *os.File) error {
		if second {
			return mark(1 << 61)(f)
		}
		return errors.Join(f.Truncate(1<<62-1), mark(100)(f))
	})
	file("5GiB", func(f *os.File) error {
		if second {
			return mark(300 << 20)(f)
		}
		piece := make([]byte, 8<<20)
		for i := range piece {
			piece[i] = byte(i * i >> 7)
		}
		_, err := f.Write(piece)
		return errors.Join(err, double(f, int64(len(piece)), int64(harness.Count(t, "MIB", 16, 5<<10))<<20))
	})
	file("extents", func(f *os.File) error {
		if second {
			return mark(1 << 20)(f)
		}
		for i := range int64(2048) {
			if _, err := f.WriteAt([]byte{'x'}, 2*i); err != nil {
				return err
			}
		}
		return double(f, 4096, int64(harness.Count(t, "EXTENTS", 1<<14, 4<<20))*2)
	})
	size := harness.Count(t, "BYTES", 2_000_000, 40_000_000)
	text("newlines", "\n", size)
	text("line", "x", size)
	file(".gitattributes", func(f *os.File) error { _, err := f.WriteString("newlines text\n"); return err })
	names := harness.Count(t, "NAMES", 150, 100_000)
	must.OK(t, os.MkdirAll(filepath.Join(ws, "names"), 0o755))
	w.within("creating names", func() {
		for i := range names {
			if second && i%10 > 0 {
				continue
			}
			if err := os.WriteFile(filepath.Join(ws, "names", fmt.Sprintf("%0100d", i)), []byte(fmt.Sprint(second)), 0o644); err != nil {
				if !errors.Is(err, unix.EDQUOT) {
					t.Error(err)
				}
				break
			}
		}
	})
}

// double copies the beginning of a file to its end until it has so many bytes.
func double(f *os.File, has, most int64) error {
	for has < most {
		from, to := int64(0), has
		n, err := unix.CopyFileRange(int(f.Fd()), &from, int(f.Fd()), &to, int(min(has, most-has)), 0)
		if err != nil || n == 0 {
			return err
		}
		has += int64(n)
	}
	return nil
}

// inputs makes snapshots named first, second and empty.
func (w *world) inputs(ws string) {
	message := strings.Repeat("message ", 7<<10)
	for i, name := range []string{"empty", "first", "second"} {
		if i > 0 {
			w.change(ws, i == 2)
		}
		w.call(ws, "snapshot", map[string]any{"name": name, "message": message})
	}
}
