// Package index is a durable map of short keys to short values. A chunk store keeps the places
// of its objects in it. The index can be rebuilt from the packs of the store, so an index
// that does not open is removed and rebuilt. No other package uses Badger.
//
// Imported by: cas.
//
// # What Badger needs
//
// Badger is fast, and does not lose acknowledged writes. But it is made for a process of its
// own, on a disk with free space. This package works around these properties of Badger, which
// no option changes:
//
//   - It writes to files through mappings that have no blocks yet. On a full disk such a write
//     is a SIGBUS, on a goroutine of Badger's own. mapping.go replaces the mmap that Badger
//     calls, by go:linkname, and allocates the blocks first.
//   - Damage of its files causes a panic, a SIGBUS or the end of the process. recoverFaults turns
//     the first two into errors. If the process ends, the file OPENING (dir.go) remains, and the
//     next Open fails with ErrBroken, so that the index is rebuilt.
//   - Its errors have no types: openBadger searches their text for a lock.
//   - It tries forever to write a table, and reports each failure only in its log. Close fails with
//     ErrStuck after three such lines (badgerLog).
//   - Its pool of buffers wakes up every two seconds. stopPool removes it by reflection.
//   - Its compactors look for work all the time. No compactors are started: Compact does their work,
//     through a method of Badger's by go:linkname (compact.go).
//   - Values in its value log can be read back empty. All values are in tables. There, a block with
//     a wrong checksum is an error for Check, but a missing key for a look-up.
//   - It follows links. Open refuses a directory that contains one.
package index
