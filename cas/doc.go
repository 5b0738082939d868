// Package cas is the chunk store: it keeps objects under the hash of their
// content, and a little metadata under names, in one directory.
//
//	STORE/packs/NNNN.pack   objects, one record after another (FORMAT.md)
//	STORE/packs/reserve     space kept for a full disk
//	STORE/manifest          metadata, see package manifest
//	STORE/manifest.copy     the same again
//	STORE/index/            Badger: hash → place
//	STORE/quarantine/       damaged bytes that a repair took away
//
// # The life of an object
//
// Put hashes the bytes (BLAKE3) and looks for the object in memory, then in Badger. A
// new object is compressed (zstd at its fastest, kept if it saves 5 %), appended to the
// newest pack with one pwrite, and entered into memory. From then on Get finds it.
// Nothing has been synced.
//
// Commit syncs the packs, then appends one record to the manifest and syncs that. So
// metadata is never durable before the objects that it refers to. The record also has
// the place up to which the packs are durable.
//
// When memory has some thousand places, the packs are synced, then a Badger transaction
// adds the places and moves the offsets up to which the index covers each pack. So the
// index never has a place that a power cut could empty. After a kill, Open reads the
// packs from these offsets on.
//
// Get asks memory and Badger for the place, reads, expands, and always compares with the
// hash. If that fails, only this object is damaged. The index keeps a mark of that, and of
// what Verify finds, so that a Put of the same bytes stores it again.
//
// # Collection
//
// When GC begins to record, it notes the end of every pack: later records are new and
// stay. Of the others it keeps those that mark names and those that a Put or Has found
// meanwhile. Then, pack by pack, it takes the dead out of the index while no Put runs,
// turns runs of dead records into free records, syncs, and punches holes under
// the free records. A pack with little that lives, or with too much dead between the
// living for holes, is emptied by appending its living records to the newest pack, and
// removed. Each step is safe to be the last one.
//
// Before the first of these, GC counts itself in the index, then in the manifest. An
// index that was put back from an older copy has seen fewer collections, and is rebuilt.
//
// # Badger is a cache
//
// Packs and manifest have all that the index has, so an index that does not open is made
// again from them. Package index says what Badger needs. No compaction runs in the
// background: a flush merges the levels that are over their size, and gc merges all.
//
// Objects are refused while Headroom bytes are still free. The reserve is given up for
// opening, for commits and for gc.
//
// # What others wrote
//
// All files are opened beneath the store's directory, without following links, and
// only regular ones (vfs.Beneath). Badger takes paths: its directory is checked before
// it opens. Lengths are bounded before anything is read.
//
// # Failure of the disk
//
// A write that fails leaves the pack as it was. After a sync that fails, every write
// fails until the store is opened again, which writes the records in doubt a second
// time: the kernel reports such an error only once. Reading works.
//
// # Locks
//
// Outermost first. Store.life is taken before all of them, shared.
//
//	collection.recording           one collection at a time, from when it begins to record
//	  collection.running           one collection or verification at a time
//	    collection.gate            shared by each Put and Has, alone by gc when it decides
//	      Store.puts               one Put of an object at a time
//	      Store.commits            one Commit at a time
//	        manifest.writing       the files of the manifest
//	          manifest.data        its entries
//	        index.writing          the database
//	          appender.mu          the end of the newest pack
//	            index.mu           places in memory, figures of packs
//	              packSet.mu       open files
//	              collector.mu     places kept
//	              space.mu         the reserve
package cas
