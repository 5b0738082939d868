package control

import (
	"context"
	"time"

	"github.com/amberfs/amberfs/internal/process"
)

// killedTick is how often it is looked whether a client that got a signal was
// killed.
const killedTick = 50 * time.Millisecond

// Context returns a context that ends when the caller is killed, who cannot die before
// the answer, which may take long.
//
// The kernel cancels a request at the first signal that the caller gets, whatever the
// caller does about it, and does not tell of a later one. Nobody expects of open(2) and
// stat(2) that they end then.
func (r Request) Context() (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		select {
		case <-r.Cancel:
		case <-ctx.Done():
			return
		}
		for !process.Killed(int(r.PID)) {
			select {
			case <-time.After(killedTick):
			case <-ctx.Done():
				return
			}
		}
		stop()
	}()
	return ctx, stop
}
