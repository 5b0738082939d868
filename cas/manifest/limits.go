package manifest

// The comment of each limit names the code that enforces the limit for data that is written, and the code
// that enforces it for data that is read.
const (
	// MaxKey and MaxValue are the longest key and value in bytes.
	// Written: checkMeta of package cas. Read: readField.
	MaxKey   = 1024
	MaxValue = 4 << 20

	// maxBytes is the largest size in bytes of all keys and values together. Written: checkRoom. Read:
	// applyRecord. Both call state.fits.
	maxBytes = 512 << 20
	// maxBodySize is the largest size of a body in bytes, compressed or not. It suffices for a body with
	// maxBytes of keys and values.
	// Written: limitWriter, newBase and bodyWriter. Read: decodeHeader and decode.
	maxBodySize = 640 << 20
)

// Limits that tests lower.
var (
	// maxEntries is the largest number of keys. Written: checkRoom. Read: applyRecord.
	maxEntries = 1 << 20
	// maxFileSize is the largest size of a copy in bytes. The log of a full manifest is rewritten before a copy
	// reaches this size. Written: bodyWriter. Read: scanCopy, before it reads the file.
	maxFileSize int64 = 2 << 30
)
