package main

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/amberfs/amberfs/service"
)

// progress shows the progress of long work on a terminal, after progressDelay.
type progress struct {
	enabled   bool
	screen    *screen
	startedAt time.Time
	isDone    atomic.Bool

	mu            sync.Mutex
	bar           *progressbar.ProgressBar
	label         string
	total         int64
	expectedFiles int64 // the expected number of files, 0 if it is unknown
}

const progressDelay = 500 * time.Millisecond

func (a *app) newProgress() *progress {
	return &progress{screen: a.screen, enabled: !a.json && !a.quiet && a.closePager == nil && isTerminal(a.stderr), startedAt: time.Now()}
}

// expectFilesOf counts the files of a directory in the background, to estimate the remaining time.
func (p *progress) expectFilesOf(dir string) {
	if !p.enabled || dir == "" {
		return
	}
	go func() {
		n := int64(0)
		err := filepath.WalkDir(dir, func(string, fs.DirEntry, error) error {
			if n++; p.isDone.Load() {
				return fs.SkipAll
			}
			return nil
		})

		p.mu.Lock()
		defer p.mu.Unlock()

		if err == nil {
			p.expectedFiles = n
		}
	}()
}

func (p *progress) show(m service.Progress) {
	if p.enabled {
		p.screen.mu.Lock()
		p.screen.bar = p
		p.screen.mu.Unlock()
	}

	p.mu.Lock()
	defer p.mu.Unlock()

	if !p.enabled || p.isDone.Load() || time.Since(p.startedAt) < progressDelay {
		return
	}
	if m.Unit == "files" && m.Total == 0 && p.expectedFiles > 0 {
		m.Total = max(p.expectedFiles, m.Done)
	}

	if p.bar == nil || p.label != m.What || p.total == 0 && m.Total > 0 {
		p.clearBar()
		p.label, p.total = m.What, 0
		p.bar = newBar(m)
	}

	if m.Total != p.total && m.Total > 0 {
		p.total = m.Total
		p.bar.ChangeMax64(m.Total)
	}

	if m.Unit != "bytes" && m.Bytes > 0 {
		p.bar.Describe(m.What + " " + service.BytesText(m.Bytes) + ", " + m.Unit)
	}

	// Set64 fails if the terminal has ended. Then the work continues without a bar.
	_ = p.bar.Set64(m.Done)
}

func (p *progress) clearBar() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}

// done removes the bar from the screen.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isDone.Store(true)
	p.clearBar()
}

// byteCounter returns a writer that shows the number of bytes written to it. total is the number of all bytes, 0 if it
// is unknown.
func (p *progress) byteCounter(label string, total int64) io.Writer {
	shown := service.Progress{What: label, Total: total, Unit: "bytes"}
	return writerFunc(func(b []byte) (int, error) {
		shown.Done += int64(len(b))
		p.show(shown)
		return len(b), nil
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func newBar(m service.Progress) *progressbar.ProgressBar {
	total := m.Total
	o := []progressbar.Option{
		progressbar.OptionSetWriter(os.Stderr),
		progressbar.OptionSetDescription(m.What),
		progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionFullWidth(),
		progressbar.OptionSetSpinnerChangeInterval(0), // with another interval, a goroutine draws the bar, even after Clear
	}
	if total > 0 {
		o = append(o, progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true))
	} else {
		total = -1 // a spinner in place of a bar
	}

	if m.Unit == "bytes" {
		o = append(o, progressbar.OptionShowBytes(true))
	}

	return progressbar.NewOptions64(total, o...)
}
