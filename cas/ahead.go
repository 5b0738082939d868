package cas

import "sync"

const (
	// aheadLarge is from how many bytes on an object counts. What is smaller is read
	// ahead by the kernel while the last is expanded.
	aheadLarge = 8 << 10
	// aheadNear is how close in a pack two reads lie that belong together, in bytes,
	// and aheadSpan how much of the pack is then asked of the disk at once.
	aheadNear = 256 << 10
	aheadSpan = 1 << 20
	// aheadRuns is how many who read a pack from one end to the other can be told
	// apart.
	aheadRuns = 8
)

// ahead knows where packs are read from one end to the other: the chunks of a file lie
// together, and are read together. The kernel reads ahead too, but less, and only where
// each read begins exactly at the end of the last.
type ahead struct {
	mu   sync.Mutex // alone
	runs [aheadRuns]aheadRun
	turn int
}

// An aheadRun is somebody who reads a pack.
type aheadRun struct {
	pack  uint64
	off   int64 // of the last read
	asked int64 // the disk was asked for what lies before
}

// next takes note of a read, and returns how many bytes from its place on the disk had
// better be asked for; 0 for none.
func (a *ahead) next(l loc) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.runs {
		r := &a.runs[i]
		if r.pack != l.pack || max(r.off-l.off, l.off-r.off) > aheadNear {
			continue
		}
		r.off = l.off
		if l.off+aheadSpan/2 <= r.asked {
			return 0
		}
		r.asked = l.off + aheadSpan
		return aheadSpan
	}
	a.runs[a.turn] = aheadRun{pack: l.pack, off: l.off}
	a.turn = (a.turn + 1) % aheadRuns
	return 0
}
