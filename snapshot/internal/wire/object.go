package wire

// The first byte of an object tells its kind, the second the version of its
// format. Chunks of files have neither: they are their plain bytes.
const (
	KindState      = 1
	KindTableInner = 2
	KindTableLeaf  = 3
	KindDirInner   = 4
	KindDirLeaf    = 5
	KindList       = 6 // of the chunks of a file
	KindRecord     = 7 // a piece of a long inode record
	KindActors     = 8 // which actors changed which inodes

	formatVersion = 2
)

// Header appends the two bytes that an object begins with.
func (e *Encoder) Header(kind byte) {
	e.Byte(kind)
	e.Byte(formatVersion)
}

// Header reads what Encoder.Header wrote.
func (d *Decoder) Header() (kind byte) {
	kind = d.Byte()
	if v := d.Byte(); v != formatVersion {
		d.Fail("format version %d is not known", v)
	}
	return kind
}
