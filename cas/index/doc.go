// Package index is a durable map of short keys to short values: the cache of where the
// objects of a chunk store lie. All that it has can be made again from the packs, so an index
// that does not open is removed and made anew. It is the only package that knows Badger,
// which is opened once and closed once.
//
// # What Badger needs
//
// Badger is fast and keeps what it acknowledged, but it is made for a process of its own, on
// a disk with room. Each of these is here because Badger has no option for it:
//
//   - It writes to files through mappings that have no blocks yet. On a full disk such a write
//     is a SIGBUS, on a goroutine of Badger's own. mapping.go takes the place of the mmap that
//     Badger calls, by go:linkname, and allocates the blocks first.
//   - It gives damage back as a panic, a SIGBUS or an end of the process. Reads run in mapped,
//     where the first two are errors. The file OPENING (dir.go) stays if the process ends, and
//     the next opening makes the index again.
//   - It does not say why it does not open: its text tells a lock from damage (openBadger).
//   - It tries forever to write a table, and tells only its log. A closing that finds three
//     such lines gives up with ErrStuck (badgerLog).
//   - Its pool of buffers wakes up every two seconds. stopPool takes it away by reflection.
//   - Its compactors look for work all the time. There are none; Flush does their work, through
//     a method of Badger's by go:linkname (compact.go).
//   - Values in its value log can come back empty. All values are in tables, where a block with
//     a wrong checksum is an error for Check, and for a lookup a missing key.
//   - It follows links. Open refuses a directory with one.
package index
