package manifest

// What each limit bounds, where it is kept when something is written, and where when
// something is read.
const (
	// MaxKey and MaxValue are the longest key and value in bytes.
	// Written: checkMeta of package cas. Read: field.
	MaxKey   = 1024
	MaxValue = 4 << 20

	// maxBytes is the most of all keys and values. Written: admits. Read: apply, both by fits.
	maxBytes = 512 << 20
	// maxBody is the most of a record, compressed or expanded: one with all of maxBytes.
	// Written: plainWriter and bodyWriter. Read: readHead and decode.
	maxBody = 640 << 20
)

// Tests set these lower.
var (
	// maxEntries is the most keys; where, as maxBytes.
	maxEntries = 1 << 20
	// maxFile is the most bytes of a copy, more than the log of a full manifest has before it
	// is written again. Written: bodyWriter. Read: Manifest.read, before anything else.
	maxFile int64 = 2 << 30
)
