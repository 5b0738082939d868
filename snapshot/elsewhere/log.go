package elsewhere

import (
	"errors"
	"sync/atomic"

	"github.com/amberfs/amberfs/snapshot/content"
)

// A Log reads bytes of unsealed files: of the journal, and behind that of what is
// still outside of the store.
type Log struct {
	Journal content.Log
	Outside atomic.Pointer[content.Log]
}

// ReadAt implements content.Log.
func (l *Log) ReadAt(p []byte, pos, begin int64) error {
	if pos < content.Outside {
		return l.Journal.ReadAt(p, pos, begin)
	}
	from := l.Outside.Load()
	if from == nil {
		return errors.New("what is outside of the store is not open")
	}
	return (*from).ReadAt(p, pos, begin)
}
