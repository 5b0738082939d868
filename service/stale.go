package service

import "time"

// staleTick is the time between two reports of showStale.
const staleTick = 200 * time.Millisecond

// showStale reports as progress of a request that changes the workspace, until stop is called, how many
// changed names the kernel has dropped from its cache. A restore, a merge or an import waits for that.
func showStale(r *Request, o *Op, stale func() int64) (stop func()) {
	if !o.Mutates || r.Progress == nil {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(staleTick)
		defer tick.Stop()

		var most int64

		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}

			left := stale()
			if most = max(most, left); left > 0 {
				r.progress(Progress{What: "dropping names from the kernel's cache", Done: most - left, Total: most})
			}
		}
	}()

	return func() { close(done) }
}
