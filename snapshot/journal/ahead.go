package journal

const (
	aheadSize   = 256 << 10 // bytes of zeros written at a time
	smallCommit = 64 << 10  // bytes between two syncs that count as few
)

var aheadZeros [aheadSize]byte

// ahead writes zeros where the next records will go, if the log is being synced
// after every few bytes. The first write into a preallocated block changes the
// file's metadata, and fdatasync then waits for the filesystem's own journal as
// well; this way it does so once in a while instead of every time.
//
// j.mu is held; a record of size bytes is about to be written.
func (j *Journal) ahead(size int64) {
	end := j.end.Load()
	if j.durable.Load() != end {
		return // not synced since the last record
	}
	few := end-j.lastSync < smallCommit
	j.lastSync = end
	from := j.off + size
	if !few || from <= j.zeroed {
		return
	}
	n := min(aheadSize, j.cur.size-from)
	if n <= 0 {
		return
	}
	// Only for speed: if the disk fails, the record will tell.
	if _, err := j.cur.f.WriteAt(aheadZeros[:n], from); err == nil {
		j.zeroed = from + n
	}
}
