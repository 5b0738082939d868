package main

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/control"
)

// progress shows how far long work has come, on a terminal only, and only once
// the work has taken half a second.
type progress struct {
	on    bool
	start time.Time
	bar   *progressbar.ProgressBar
	what  string
	total int64
}

func (a *app) newProgress() *progress {
	return &progress{on: !a.json && isTerminal(a.stderr), start: time.Now()}
}

func (p *progress) show(m control.Progress) {
	if !p.on || time.Since(p.start) < 500*time.Millisecond {
		return
	}
	if p.bar == nil || p.what != m.What {
		p.done()
		p.what, p.total = m.What, 0
		p.bar = newBar(m)
	}
	if m.Total != p.total && m.Total > 0 {
		p.total = m.Total
		p.bar.ChangeMax64(m.Total)
	}
	// An error here means that the terminal is gone; the work goes on.
	_ = p.bar.Set64(m.Done)
}

// done takes the bar off the screen.
func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}

func newBar(m control.Progress) *progressbar.ProgressBar {
	total := m.Total
	if total <= 0 {
		total = -1 // a spinner
	}
	o := []progressbar.Option{
		progressbar.OptionSetWriter(os.Stderr),
		progressbar.OptionSetDescription(m.What),
		progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionFullWidth(),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true),
	}
	if m.Unit == "bytes" {
		o = append(o, progressbar.OptionShowBytes(true))
	}
	return progressbar.NewOptions64(total, o...)
}
