package takeover

import (
	"encoding/binary"

	"github.com/amberfs/amberfs/fusefs/wire"
)

// A Connection has the terms of a mount: INIT, the first request of the kernel, and the answer of the daemon.
// The terms outlive the daemon as long as a process has the device open.
type Connection struct{ Init, Answer []byte }

// Offers reports whether the kernel offers all capabilities in bits (fuse.CAP_...).
func (c *Connection) Offers(bits uint64) bool {
	in := c.Init[wire.InHeaderSize:] // struct fuse_init_in
	flags := uint64(binary.NativeEndian.Uint32(in[12:])) | uint64(binary.NativeEndian.Uint32(in[16:]))<<32
	return flags&bits == bits
}

// Minor returns x in the version 7.x of the protocol that the kernel offers.
func (c *Connection) Minor() uint32 { return binary.NativeEndian.Uint32(c.Init[wire.InHeaderSize+4:]) }

// MinInitBytes is the length of INIT up to the field flags2.
const MinInitBytes = wire.InHeaderSize + 20
