// Package cas is the chunk store: it keeps objects under the hash of their
// content, and a little metadata under names, in one directory.
//
//	STORE/packs/NNNN.pack   objects, one record after another
//	STORE/packs/reserve     space kept for a full disk
//	STORE/manifest          metadata, see package manifest
//	STORE/manifest.copy     the same again
//	STORE/index/            Badger: hash → place
//	STORE/quarantine/       damaged bytes that a repair took away
//
// # Packs and manifest are the truth
//
// A pack is an append-only file of self-describing records (FORMAT.md has the
// bytes). The index holds nothing that the packs do not; lose it and Open rebuilds it. It exists because looking up a hash in the packs would mean reading
// them all.
//
// # The life of an object
//
// Put hashes the bytes (BLAKE3) and looks whether the object is there: in memory,
// which has what Badger does not hold yet, then in Badger. Of several Puts of one
// object at once, one works and the others wait for it. A new object is compressed
// (zstd at its fastest, kept if it saves 5 %), written with one pwrite to
// the end of the newest pack and entered into memory. From then on Get finds it.
// Nothing has been synced.
//
// Commit syncs the packs, then appends one record to the manifest and syncs that.
// So metadata is never durable before the objects it speaks of. The record also
// tells up to where the packs are durable. The index is not involved: what it lacks
// after a kill stands in the packs behind the offset up to which it covers each of
// them, and Open reads it there.
//
// Once memory has some thousand places they are flushed: first the packs are
// synced, then one Badger transaction (synced too) adds the places and moves the
// covered offsets. Thus the index never names a place that a power cut could
// empty.
//
// Get asks memory and Badger for the place, reads, expands, and compares with the
// hash, always. If that fails, only this object is damaged. A Put of the same bytes
// stores it again, which heals it.
//
// # Collection
//
// GC needs no stop of the world. When it starts recording, it notes the end of
// every pack: records behind are new and not its business. Of those before, it
// keeps the ones that mark names and the ones that a Put or Has found meanwhile.
// The set of kept places is exact and small (see locSet). Then, pack by pack:
// hide the dead from Put; take them out of the index; turn runs of dead records
// into free records, and sync; punch holes under the free records. A pack with
// little that lives, or with too much dead between the living for holes, is emptied
// instead, by appending its living records to the newest pack, and removed.
// Each step is safe to be the last one.
//
// Before the first of these, GC counts itself in the manifest, then in the index.
// That is how Open notices an index that was put back from an older copy: the two
// counts differ.
//
// # What comes from elsewhere
//
// All files are opened beneath the store's directory, without following links, and
// only regular ones (vfs.Beneath). Badger takes paths: that its directory is none
// but a directory of regular files is checked before it opens. Lengths are bounded
// before anything is read, and what was read is compared with its hash.
//
// # Badger is a cache
//
// It is opened once and closed once. Should opening end the process, it leaves the file
// OPENING behind, and the next start rebuilds the index, as it does if Badger does not
// open. No value is large enough for the value log. No compaction runs by itself:
// a flush merges the tables when there are many, and so does gc.
//
// Badger writes through mappings, where a full disk is a fault: mapBacked has the blocks
// allocated first. Objects are refused while Headroom bytes are still free. The reserve
// file is given up for opening, for commits and for gc.
//
// # Failure of the disk
//
// A write that fails leaves the pack as it was. A sync that fails leaves nobody
// knowing what is on the disk, and the kernel will report it only once: from then
// on every write fails until the store is opened again, which writes the records
// in doubt a second time. Reading goes on.
//
// # Locks
//
// Outermost first; a lock is only taken while holding ones further out.
//
//	collection.recording           one collection at a time, from when it begins to record
//	  collection.running           one collection or verification at a time
//	    collection.gate            held shared by each Put and Has, alone by gc when it decides
//	      Store.puts               one Put of an object at a time
//	      Store.commits            one Commit at a time
//	        manifest.writing       the files of the manifest
//	          manifest.data        its entries
//	        index.writing          the database
//	          appender.mu          the end of the newest pack
//	            index.mu           places in memory, figures of packs
//	              packSet.mu       open files
//	              collector.mu     places kept
//	              space.file       the reserve
//	                space.mu
//
// Store.life is taken first, shared, and never waited for but by Close.
package cas
