// Package cas is the chunk store: it keeps objects under the hash of their
// content, and a little metadata under names, in one directory.
//
// Imported by: all of cmd, all of fusefs, gitbridge, hostdir, all of remote, all of service, all of snapshot, stream.
//
//	STORE/packs/NNNN.pack   objects, one record after another (FORMAT.md)
//	STORE/packs/reserve     space kept for a full disk
//	STORE/manifest          metadata, see package manifest
//	STORE/manifest.copy     a second copy of the manifest
//	STORE/index/            Badger: hash → place
//	STORE/quarantine/       damaged bytes that Repair moved out of the packs
//
// # The life of an object
//
// Put hashes the bytes (BLAKE3) and looks for the object in memory, then in Badger. A
// new object is compressed (zstd at its fastest, used if it saves 5 %), appended to the
// newest pack with one pwrite, and its place is entered into memory. From then on Get finds
// the object, but the pack has not been synced.
//
// Commit syncs the packs, then appends one record to the manifest and syncs the manifest.
// So metadata is never durable before the objects that it refers to. The record also
// contains the place up to which the packs are durable.
//
// When some thousand places are in memory, the index is flushed: the packs are synced, then a Badger
// transaction adds the places, and for each pack the offset before which the index has all records.
// So the index never refers to a record that a power cut could lose. After a kill, Open reads the
// packs from these offsets on.
//
// Get looks the place up in memory and Badger, reads the record, expands the bytes, and always
// compares them with the hash. If they differ, only this object is damaged. The index keeps
// a mark for each object that Get or Verify found damaged, so that a Put of the same bytes
// stores it again.
//
// # Collection
//
// A Collection (gc) begins with BeginCollection, which records the end of every pack: later records are
// new and are kept. gc keeps an older record if the caller's mark function names it, or if a Put
// or Has finds it during the Collection. All other records are dead. Then, pack by pack, gc
// deletes the dead records from the index while no Put runs, turns runs of dead records into free
// records, syncs, punches holes under the free records, and overwrites the bytes of free records that no
// hole covers. A pack with few live records, or with dead records in pieces too small for holes, is emptied:
// gc appends its live records to the newest pack and removes the file. After each step a kill or a power cut
// leaves a working store. With Collection.Wipe, gc overwrites removed records before it frees their space.
//
// The mark function remembers roots (Marker.Remember), because the objects below a root never change:
// the places of these objects are stored in the index, and later collections need not mark them
// again, see generation.
//
// Before the first step, gc increments the number of collections in the index, then in the
// manifest. An index that was restored from an older copy has a smaller number, and is rebuilt.
//
// # Badger is a cache
//
// Packs and manifest contain all that the index contains, so an index that does not open is
// rebuilt from them. The doc comment of package index lists the requirements of Badger. No compaction runs in the
// background: a flush compacts the levels that exceed their sizes, and gc compacts all levels.
//
// # Full disk
//
// Put fails with ErrNoSpace when no more than Headroom bytes are free. Open, commits and gc delete the
// reserve file if they need its space.
//
// # Untrusted files
//
// All files are opened beneath the store's directory, without following links, and
// only regular files (vfs.Root). Badger opens files by their paths, so its directory is checked
// before Badger opens it. A length is checked against its limit before the bytes are read.
//
// # Failure of the disk
//
// A write that fails leaves the pack as it was. After a sync that fails, every write
// fails until the store is opened again: the kernel reports such an error only once. Open
// writes the records that may not be on disk a second time. Reading works.
//
// # Locks
//
// Outermost first. Store.lifeMu is taken, shared, before all of these locks.
//
//	gcState.collectionLock         one Collection at a time
//	  gcState.runLock              one collection or verification at a time
//	    gcState.gate               shared by each Put and Has, exclusively by gc in dropDeadRecords
//	      Store.puts               one Put of an object at a time
//	      Store.commitMu           one Commit at a time
//	        Manifest.writeMu       the files of the manifest
//	          Manifest.dataMu      its entries
//	        locator.writeMu        the database
//	          appender.mu          the end of the newest pack
//	            locator.mu         places in memory, numbers of objects and bytes of packs
//	              packSet.mu       open files
//	              keepSet.mu       places of the records that gc keeps
//	              space.mu         the reserve
package cas
