package cas

// What each limit bounds, where it is kept when something is written, and where when
// something is read that others may have written. Those of space are in space.go, those of
// the manifest in its package.
const (
	// MaxObject is the most bytes of an object, compressed or not.
	// Written: Put. Read: checkLengths, and the memory of the decoder in newCodec.
	MaxObject = 16 << 20

	// A pack takes no more records from its size on. A larger file than maxPackSize is no pack.
	// Written: newStore, appender. Read: packSet.load, decodeLoc.
	defaultPackSize = 128 << 20
	minPackSize     = 64 << 10
	maxPackSize     = 1 << 30

	// maxMarks is the most objects that are known to be damaged. Those beyond are found
	// damaged when they are read again. Written: mark. Read: loadMarks.
	maxMarks = 1 << 20

	// flushObjects and flushBytes bound what is only in packs and memory: after a kill,
	// Open reads that much again. With a full disk, which has no room for the index, it may
	// be maxUnflushed entries. Written: flushFull. There is nothing to read.
	flushObjects = 16 << 10
	flushBytes   = 64 << 20
	maxUnflushed = 1 << 20
)
