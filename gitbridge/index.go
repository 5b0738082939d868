package gitbridge

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// StampIndex fills in, in a git index, what stat tells of each path, relative to
// the working tree: what lstat(2) says to those who will use it. Git compares
// these numbers, of the inode number and the device the low 32 bits.
func StampIndex(index []byte, sha256Repo bool, stat func(path string) (Stat, error)) error {
	if err := stampIndex(index, sha256Repo, stat); err != nil {
		return fmt.Errorf("making the index: %w", err)
	}
	return nil
}

// The fixed part of an entry in an index of version 2:
// https://git-scm.com/docs/index-format
const (
	indexHead    = 12
	entryCtime   = 0
	entryMtime   = 8
	entryDev     = 16
	entryIno     = 20
	entryMode    = 24
	entryUID     = 28
	entryGID     = 32
	entrySize    = 36
	entryID      = 40
	flagExtended = 0x4000
)

var errIndex = errors.New("git wrote an index of another format")

// stampIndex fills in the stat data of every entry and makes the checksum anew.
func stampIndex(index []byte, sha256Repo bool, stat func(string) (Stat, error)) error {
	idLen := sha1.Size
	if sha256Repo {
		idLen = sha256.Size
	}
	if len(index) < indexHead+idLen || string(index[:4]) != "DIRC" || binary.BigEndian.Uint32(index[4:]) != 2 {
		return errIndex
	}
	body := index[:len(index)-idLen]
	at := indexHead
	for range binary.BigEndian.Uint32(index[8:]) {
		nameAt := at + entryID + idLen + 2
		if nameAt >= len(body) {
			return errIndex
		}
		n := bytes.IndexByte(body[nameAt:], 0)
		if n < 0 || binary.BigEndian.Uint16(body[nameAt-2:])&flagExtended != 0 {
			return errIndex
		}
		if err := stampEntry(body[at:], string(body[nameAt:nameAt+n]), stat); err != nil {
			return err
		}
		at += (nameAt - at + n + 8) &^ 7
	}
	if at > len(body) {
		return errIndex
	}
	if sha256Repo {
		sum := sha256.Sum256(body)
		copy(index[len(body):], sum[:])
	} else {
		sum := sha1.Sum(body)
		copy(index[len(body):], sum[:])
	}
	return nil
}

func stampEntry(e []byte, path string, stat func(string) (Stat, error)) error {
	put := func(at int, v uint64) { binary.BigEndian.PutUint32(e[at:], uint32(v)) }
	if binary.BigEndian.Uint32(e[entryMode:])&unix.S_IFMT == modeGitlink {
		return nil // of a submodule git compares the commit
	}
	st, err := stat(path)
	if err != nil {
		return fmt.Errorf("looking at %q: %w", path, err)
	}
	const second = 1e9
	put(entryCtime, uint64(st.Ctime/second))
	put(entryCtime+4, uint64(st.Ctime%second))
	put(entryMtime, uint64(st.Mtime/second))
	put(entryMtime+4, uint64(st.Mtime%second))
	put(entryDev, st.Dev)
	put(entryIno, st.Ino)
	put(entryUID, uint64(st.UID))
	put(entryGID, uint64(st.GID))
	put(entrySize, uint64(st.Size))
	return nil
}
