package main

import (
	"fmt"
	"io"
	"os"
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
	return w.each(w.n(3000), func(i int) error { return createOne(name(w.dir, i)) })
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
	n := w.n(1000)
	if err := fill(w.dir, n); err != nil {
		return 0, err
	}
	buf := make([]byte, len(block))
	one := func(i int) error {
		fd, err := unix.Open(name(w.dir, i%n), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		if _, err := unix.Read(fd, buf); err != nil {
			unix.Close(fd)
			return err
		}
		return unix.Close(fd)
	}
	if err := w.b.loop(n, one); err != nil {
		return 0, err
	}
	return w.each(20*n, one)
}

func statWarm(w *work) (float64, error) {
	n := w.n(1000)
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
	return w.each(50*n, one)
}

func rename(w *work) (float64, error) {
	n := w.n(2000)
	if err := fill(w.dir, n); err != nil {
		return 0, err
	}
	return w.each(n, func(i int) error { return unix.Rename(name(w.dir, i), name(w.dir, i)+"-renamed") })
}

func unlink(w *work) (float64, error) {
	n := w.n(2000)
	if err := fill(w.dir, n); err != nil {
		return 0, err
	}
	return w.each(n, func(i int) error { return unix.Unlink(name(w.dir, i)) })
}

func sequentialRead(w *work) (float64, error) {
	const step = 1 << 20
	n := w.n(512)
	path := name(w.dir, 0)
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	buf := noise(step)
	for range n {
		if _, err := f.Write(buf); err != nil {
			f.Close()
			return 0, err
		}
	}
	if err := f.Close(); err != nil {
		return 0, err
	}
	read := func() error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, buf)
		return err
	}
	if err := read(); err != nil {
		return 0, err
	}
	const times = 3
	took, err := w.timed(n*times, func() error {
		for range times {
			if err := read(); err != nil {
				return err
			}
		}
		return nil
	})
	return times * float64(n) * step / 1e6 / took.Seconds(), err
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
	p := make([]byte, n)
	x := uint64(time.Now().UnixNano()) | 1
	for i := range p {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		p[i] = byte(x)
	}
	return p
}
