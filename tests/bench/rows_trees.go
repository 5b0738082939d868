package main

import (
	"time"
)

func untar(w *work) (float64, error) {
	tarball, err := w.b.tarball()
	if err != nil {
		return 0, err
	}
	files, err := w.b.files()
	if err != nil {
		return 0, err
	}
	return w.seconds(files, "tar", "xf", tarball)
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
