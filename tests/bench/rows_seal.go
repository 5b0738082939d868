package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// sealRows are what the work that goes on automatically costs, and whom it holds up.
var sealRows = []row{
	{name: "create-beside", what: "99th percentile of a create, one a millisecond, beside a seal", unit: "ms", where: onlyAmber,
		named: true, run: createPaced(true), reach: "≤ 2 × create-undisturbed"},
	{name: "create-undisturbed", what: "the same when there is none", unit: "ms", where: onlyAmber, named: true, run: createPaced(false)},
}

// createPaced creates a file each millisecond, as long as 1 GiB of new data is being
// sealed or for as many seconds, and returns the 99th percentile.
func createPaced(beside bool) func(w *work) (float64, error) {
	return func(w *work) (f float64, err error) {
		h, err := newAmberHistory(w.b, filepath.Join(w.b.base, fmt.Sprintf("paced-%d", w.b.serial)))
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, h.close()) }()
		ended := make(chan error, 1)
		if beside {
			if err := newData(h.root(), w.n(1024)); err != nil {
				return 0, err
			}
			go func() { ended <- h.run("snapshot", "v") }()
		} else {
			time.AfterFunc(4*time.Second, func() { ended <- nil })
		}
		dir := filepath.Join(h.root(), "creates")
		if err := os.Mkdir(dir, 0o755); err != nil {
			return 0, err
		}
		var all []float64
		for {
			select {
			case err := <-ended:
				return quantile(all, 0.99), err
			case <-time.After(time.Millisecond):
			}
			start := time.Now()
			if err := createOne(name(dir, len(all)%1000)); err != nil {
				return 0, errors.Join(err, <-ended)
			}
			all = append(all, float64(time.Since(start).Microseconds())/1e3)
		}
	}
}

// newData writes n files of 1 MiB that have nothing in common and do not compress.
func newData(dir string, n int) error {
	buf := noise(1 << 20)
	for i := range n {
		buf[0], buf[1] = byte(i), byte(i>>8)
		for j := 0; j < len(buf); j += 4096 {
			buf[j+2], buf[j+3] = byte(i+j), byte(i>>4)
		}
		if err := os.WriteFile(name(dir, i), buf, 0o644); err != nil {
			return err
		}
	}
	return nil
}
