package daemon

import "time"

const (
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// retry calls fn, a step that a takeover can continue without. If fn fails, retry returns, and fn is called
// again in the background until it succeeds. what names the step in the log.
func (d *Daemon) retry(what string, fn func() error) {
	err := fn()
	if err == nil {
		return
	}

	d.log.Warn(what+" has to wait", "err", err)
	d.later(what, func() {
		for pause := firstPause; ; pause = min(2*pause, longestPause) {
			select {
			case <-d.life.Done():
				return
			case <-time.After(pause):
			}

			if fn() == nil {
				d.log.Info(what + " succeeded")
				return
			}
		}
	})
}
