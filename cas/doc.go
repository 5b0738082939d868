// Package cas is the chunk store: it keeps objects under the hash of their
// content, and a little metadata under names, in one directory.
//
//	STORE/packs/NNNN.pack   objects, one record after another
//	STORE/packs/NNNN.meta   metadata, the same way
//	STORE/packs/metadata.copy
//	                        all metadata a second time
//	STORE/packs/reserve     space kept for a full disk
//	STORE/index/            Badger: hash → place, name → metadata
//	STORE/quarantine/       damaged bytes that Repair took out of packs
//
// # Packs are the truth
//
// A pack is an append-only file of self-describing records (FORMAT.md has the
// bytes). The index holds nothing that the packs do not; lose it and Open builds
// it anew. It exists because looking up a hash in the packs would mean reading
// them all.
//
// Without the metadata nobody knows what the objects are, and it is small: it is in
// the packs, in the index, and in a copy, at most a quarter older, that serves when the
// index is lost and the packs are damaged, too.
//
// # The life of an object
//
// Put hashes the bytes (BLAKE3) and looks whether the object is there: in the
// overlay, which is what the index does not hold yet, then in the index. Of
// several Puts of one object at once, one works and the others wait for it. A
// new object is compressed (zstd, or for a Quick store S2; kept if it saves 5 %),
// written with one pwrite to the end of the newest pack and entered into the
// overlay. From then on Get finds it. Nothing has been synced.
//
// Commit syncs the packs, then appends one record with the metadata and syncs
// that. So metadata is never durable before the objects it speaks of, and it is
// all there or not at all, because a record has one checksum. The index is not
// involved: what it lacks after a kill stands in the packs behind the offset up to
// which it covers each of them, and Open reads it there.
//
// Once the overlay has some thousand entries it is flushed: first the packs are
// synced, then one Badger transaction (synced too) adds the entries and moves the
// covered offsets. Thus the index never names a place that a power cut could
// empty. A commit costs two fdatasyncs, and the index one per 16,384 objects.
//
// Get asks the overlay and the index for the place, reads, expands, and compares
// with the hash, always. If that fails, only this object is damaged. A Put of the
// same bytes stores it again, which heals it.
//
// # Collection
//
// GC needs no stop of the world. When it starts recording, it notes the end of
// every pack: records behind are new and not its business. Of those before, it
// keeps the ones that mark names and the ones that a Put or Has found meanwhile.
// The set of kept places is exact and small (see locSet). Then, pack by pack:
// hide the dead from Put; take them out of the index; turn runs of dead records
// into free records, and sync; punch holes under the free records. A pack with
// little that lives, with too much dead between the living for holes, or with
// much from Quick, is emptied instead, by appending its living records to the
// newest pack, those from Quick compressed by zstd, and removed. Each step is safe
// to be the last one.
//
// Before the first of these, GC counts itself in the metadata. That is how Open
// notices an index that was put back from an older copy: there is a collection in
// the packs that it does not cover.
//
// # What Badger cannot take, and what is done about it
//
//   - A full disk: its files are mapped, and a page without a block is a SIGBUS.
//     Every index transaction and every opening looks at the free space first;
//     objects are refused while Headroom bytes are still free; the reserve file
//     is given up for opening, for commits and for gc.
//   - A kill between truncating and unlinking a file: empty .mem and .vlog files
//     are removed before opening.
//   - A table cut short, or with a wrong checksum: the first panics beyond
//     recovery, the second is skipped silently. Both are looked for before.
//   - db.Sync does not cover rotated memtables: transactions are synced, and few.
//   - The value log: no value is large enough to get there. Metadata beyond 32 KiB
//     is cut into parts.
//
// # Failure of the disk
//
// A write that fails leaves the pack as it was. A sync that fails leaves nobody
// knowing what is on the disk, and the kernel will report it only once: from then
// on every write fails until the store is opened again, which writes the records
// in doubt a second time. Reading goes on.
package cas
