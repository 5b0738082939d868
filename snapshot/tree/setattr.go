package tree

import (
	"math"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// SetAttr is a change of attributes. A nil attribute is not changed. Times are in nanoseconds since 1970.
type SetAttr struct {
	Mode, UID, GID      *uint32
	Size                *int64
	Atime, Mtime, Ctime *int64
	// KillPriv clears set-user-ID, set-group-ID and file capabilities.
	KillPriv bool
}

// CountsAsChange reports whether the change is attributed to its actor: it is not if only the access and change
// times change.
func (s *SetAttr) CountsAsChange() bool {
	return s.Mode != nil || s.UID != nil || s.GID != nil || s.Size != nil || s.Mtime != nil || s.KillPriv
}

// Apply changes the attributes of an inode that epoch owns. A change of the size also sets the mtime to now.
func (s *SetAttr) Apply(src *Source, epoch uint64, n *Inode, now int64) error {
	if s.Size != nil {
		c := n.Content.VersionFor(epoch)
		if err := c.Truncate(src.Files, *s.Size); err != nil {
			return err
		}

		n.Content = c
		n.Mtime = now
	}

	if s.Mode != nil {
		n.Mode = n.Mode&unix.S_IFMT | *s.Mode&^unix.S_IFMT
	}
	if s.UID != nil {
		n.UID = *s.UID
	}
	if s.GID != nil {
		n.GID = *s.GID
	}
	if s.KillPriv {
		n.ClearPriv()
	}
	if s.Atime != nil {
		n.Atime = *s.Atime
	}
	if s.Mtime != nil {
		n.Mtime = *s.Mtime
	}
	if s.Ctime != nil {
		n.Ctime = *s.Ctime
	}

	return nil
}

const (
	setMode = 1 << iota
	setUID
	setGID
	setSize
	setAtime
	setMtime
	setCtime
	setKillPriv
)

// Encode writes a bitmap of the attributes that change, and their values.
func (s *SetAttr) Encode(e *wire.Encoder) {
	var bits uint64
	bit := func(set bool, b uint64) {
		if set {
			bits |= b
		}
	}

	bit(s.Mode != nil, setMode)
	bit(s.UID != nil, setUID)
	bit(s.GID != nil, setGID)
	bit(s.Size != nil, setSize)
	bit(s.Atime != nil, setAtime)
	bit(s.Mtime != nil, setMtime)
	bit(s.Ctime != nil, setCtime)
	bit(s.KillPriv, setKillPriv)
	e.Uvarint(bits)

	for _, p := range []*uint32{s.Mode, s.UID, s.GID} {
		if p != nil {
			e.Uvarint(uint64(*p))
		}
	}

	for _, p := range []*int64{s.Size, s.Atime, s.Mtime, s.Ctime} {
		if p != nil {
			e.Varint(*p)
		}
	}
}

// Decode reads the encoding of Encode.
func (s *SetAttr) Decode(d *wire.Decoder) {
	bits := d.Uint(setKillPriv<<1 - 1)
	u32 := func(b uint64) *uint32 {
		if bits&b == 0 {
			return nil
		}
		v := uint32(d.Uint(math.MaxUint32))
		return &v
	}

	i64 := func(b uint64) *int64 {
		if bits&b == 0 {
			return nil
		}
		v := d.Varint()
		return &v
	}

	s.Mode, s.UID, s.GID = u32(setMode), u32(setUID), u32(setGID)
	s.Size, s.Atime, s.Mtime, s.Ctime = i64(setSize), i64(setAtime), i64(setMtime), i64(setCtime)
	s.KillPriv = bits&setKillPriv != 0
}
