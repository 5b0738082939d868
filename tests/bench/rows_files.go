package main

import (
	crand "crypto/rand"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func name(dir string, i int) string { return filepath.Join(dir, fmt.Sprintf("f%06d", i)) }

var block = []byte(strings.Repeat("0123456789abcdef", 256))

func createOne(path string) error {
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	if _, err := unix.Write(fd, block); err != nil {
		unix.Close(fd)
		return err
	}
	return unix.Close(fd)
}

func create(w *work) (float64, error) {
	return w.each(w.n(1000), func(i int) error { return createOne(name(w.dir, i)) })
}

// fill creates n files, outside the measured time.
func fill(dir string, n int) error {
	for i := range n {
		if err := createOne(name(dir, i)); err != nil {
			return err
		}
	}
	return nil
}

func appendSome(w *work) (float64, error) {
	f, err := os.OpenFile(name(w.dir, 0), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return w.each(w.n(10_000), func(int) error { _, err := f.Write(block[:100]); return err })
}

func readWarm(w *work) (float64, error) {
	n := w.n(300)
	if err := fill(w.dir, n); err != nil {
		return 0, err
	}
	buf := make([]byte, len(block))
	one := func(i int) error { return readOne(name(w.dir, i%n), buf) }
	if err := w.b.loop(n, one); err != nil {
		return 0, err
	}
	return w.each(60*n, one)
}

func readOne(path string, buf []byte) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if _, err := unix.Read(fd, buf); err != nil {
		unix.Close(fd)
		return err
	}
	return unix.Close(fd)
}

func statWarm(w *work) (float64, error) {
	n := w.n(300)
	if err := fill(w.dir, n); err != nil {
		return 0, err
	}
	one := func(i int) error {
		var st unix.Stat_t
		return unix.Lstat(name(w.dir, i%n), &st)
	}
	if err := w.b.loop(n, one); err != nil {
		return 0, err
	}
	return w.each(200*n, one)
}

func rename(w *work) (float64, error) {
	n := w.n(500)
	if err := fill(w.dir, n); err != nil {
		return 0, err
	}
	return w.each(n, func(i int) error { return unix.Rename(name(w.dir, i), name(w.dir, i)+"-renamed") })
}

func unlink(w *work) (float64, error) {
	n := w.n(500)
	if err := fill(w.dir, n); err != nil {
		return 0, err
	}
	return w.each(n, func(i int) error { return unix.Unlink(name(w.dir, i)) })
}

func sequentialRead(w *work) (float64, error) {
	n, path := w.n(512), name(w.dir, 0)
	if err := os.WriteFile(path, noise(n<<20), 0o644); err != nil {
		return 0, err
	}
	if err := drain(path); err != nil {
		return 0, err
	}
	const times = 3
	took, err := w.timed(n*times, func() error { return w.b.loop(times, func(int) error { return drain(path) }) })
	return times * float64(n<<20) / 1e6 / took.Seconds(), err
}

func fsyncs(w *work) (float64, error) {
	f, err := os.Create(name(w.dir, 0))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return w.each(w.n(200), func(int) error {
		if _, err := f.Write(block); err != nil {
			return err
		}
		return f.Sync()
	})
}

// noise does not compress.
func noise(n int) []byte {
	p, seed := make([]byte, n), [32]byte{}
	_, _ = crand.Read(seed[:]) // neither fails
	_, _ = rand.NewChaCha8(seed).Read(p)
	return p
}

// sqlite commits transactions of a row each.
func sqlite(w *work) (float64, error) {
	if _, err := exec.LookPath("sqlite3"); err != nil {
		return 0, &leftOut{"sqlite3 is not installed"}
	}
	n := w.n(500)
	script := "create table t(a integer primary key, b text);\n" + strings.Repeat("insert into t(b) values ('a row with some text');\n", n)
	took, err := w.timed(n+1, func() error {
		cmd := exec.CommandContext(w.b.ctx, "sqlite3", "-bail", name(w.dir, 0))
		cmd.Stdin = strings.NewReader(script)
		return cmd.Run()
	})
	return ms(took), err
}

func untar(w *work) (float64, error) {
	tarball, err := w.b.tarball("src")
	if err != nil {
		return 0, err
	}
	took, err := w.timed(w.b.files("src"), func() error { return commandIn(w.b.ctx, w.dir, nil, "tar", "xf", tarball) })
	return took.Seconds(), err
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
