package cas

// The comment of each limit names the code that enforces the limit for data that is written, and the code
// that enforces it for data that is read and may be forged. The limits of free space are in space.go, the
// limits of the manifest in package manifest.
const (
	// MaxObject is the largest size of an object in bytes, compressed or not.
	// Written: Put. Read: checkLengths, and the memory of the decoder in newCodec.
	MaxObject = 16 << 20

	// No record is appended to a pack that has the size of Options.PackSize. A file larger than
	// maxPackSize is not accepted as a pack.
	// Written: newStore, appender. Read: packSet.load, decodeLoc.
	defaultPackSize = 128 << 20
	minPackSize     = 64 << 10
	maxPackSize     = 1 << 30

	// maxMarks is the largest number of objects that are marked as damaged. Further damaged objects
	// are not marked.
	// Written: markDamaged. Read: loadMarks.
	maxMarks = 1 << 20

	// flushObjects and flushBytes are the largest number and size in bytes of objects whose places are
	// only in memory. After a kill, Open reads the packs of these objects. If the disk has no space for
	// the index, the largest number is maxUnflushed. Written: flushIfDue.
	flushObjects = 16 << 10
	flushBytes   = 64 << 20
	maxUnflushed = 1 << 20
)
