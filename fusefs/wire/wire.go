// Package wire has the messages of the FUSE protocol (linux/fuse.h) that amberfs reads or writes as bytes:
// the headers of requests, and the notices, which answer no request. For all other messages, amberfs uses
// go-fuse.
//
// Imported by: fusefs, fusefs/takeover.
package wire

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// Operations are the names of the operations whose requests are counted, by operation number (enum
// fuse_opcode).
var Operations = [...]string{
	1: "LOOKUP", 2: "FORGET", 3: "GETATTR", 4: "SETATTR", 5: "READLINK", 6: "SYMLINK", 8: "MKNOD", 9: "MKDIR",
	10: "UNLINK", 11: "RMDIR", 12: "RENAME", 13: "LINK", 14: "OPEN", 15: "READ", 16: "WRITE", 17: "STATFS",
	18: "RELEASE", 20: "FSYNC", 21: "SETXATTR", 22: "GETXATTR", 23: "LISTXATTR", 24: "REMOVEXATTR", 25: "FLUSH",
	27: "OPENDIR", 28: "READDIR", 29: "RELEASEDIR", 30: "FSYNCDIR", 34: "ACCESS", 35: "CREATE", 36: "INTERRUPT",
	39: "IOCTL", 42: "FORGET", 43: "FALLOCATE", 44: "READDIRPLUS", 45: "RENAME", 46: "LSEEK",
	47: "COPY_FILE_RANGE", 50: "SYNCFS", 51: "TMPFILE", 52: "STATX",
}

// Numbers in Operations.
const (
	OpForget        = 2
	OpRead          = 15
	OpWrite         = 16
	OpInterrupt     = 36
	OpBatchForget   = 42
	OpCopyFileRange = 47
)

// Sizes of the headers in bytes, and offsets in struct fuse_in_header.
const (
	InHeaderSize  = 40 // struct fuse_in_header
	OutHeaderSize = 16 // struct fuse_out_header

	NodeOffset = 16 // the node id
	PIDOffset  = 32 // the id of the client's thread
)

// ResentBit is set in the number of a request that the kernel sends again.
const ResentBit = 1 << 63

// Opcode returns the number of a request's operation, 0 if it is not in Operations.
func Opcode(request []byte) uint32 {
	if len(request) < InHeaderSize {
		return 0
	}
	op := binary.NativeEndian.Uint32(request[4:])
	if op >= uint32(len(Operations)) {
		return 0
	}

	return op
}

// Unique returns the number in the header of a request.
func Unique(message []byte) uint64 { return binary.NativeEndian.Uint64(message[8:]) }

// Read is read(2) of a request. It blocks until the kernel sends one.
func Read(fd int, b []byte) (int, error) {
	for {
		n, err := unix.Read(fd, b)
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return n, err
		}
	}
}

// Send writes a notice or an answer. It ignores ENOENT: then the kernel does not have the node or name of the
// notice, or no longer waits for the answer. It also ignores ENODEV, which write(2) returns after the unmount.
func Send(fd int, b []byte) error {
	for {
		_, err := unix.Write(fd, b)
		switch {
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV):
			return nil
		case !errors.Is(err, unix.EINTR):
			return err
		}
	}
}
