package wire

// The first byte of an object is its kind, the second the version of its
// format. Chunks of files have neither: a chunk has only the bytes of the file.
const (
	KindState      = 1
	KindTableInner = 2
	KindTableLeaf  = 3
	KindDirInner   = 4
	KindDirLeaf    = 5
	KindList       = 6 // chunks of a file, or lists of them
	KindRecord     = 7 // a piece of a long inode record
	KindActors     = 8 // which actors changed which inodes

	formatVersion = 2
)

// Header appends the first two bytes of an object.
func (e *Encoder) Header(kind byte) {
	e.Byte(kind)
	e.Byte(formatVersion)
}

// Header reads the first two bytes of an object, and returns its kind.
func (d *Decoder) Header() (kind byte) {
	kind = d.Byte()
	if v := d.Byte(); v != formatVersion {
		d.Fail("format version %d is not known", v)
	}
	return kind
}
