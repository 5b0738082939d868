// Package content stores the bytes of regular files. A file that is being written
// refers to the journal. A sealed file is cut into chunks. Both are read in the same way.
//
// Imported by: archive, hostdir, service, service/internal/importer, snapshot, snapshot/actors,
// snapshot/engine, snapshot/forget, snapshot/graft, snapshot/live, snapshot/threeway, snapshot/tree,
// stream.
//
// # Where bytes are
//
// A byte of a file is in one of four places: in the journal, at the position of the record that wrote it; in a
// chunk, an object of the chunk store; in a hole; or in a reservation, blocks that were reserved (fallocate) and
// never written. Holes and reservations read as zeros.
//
// A ChunkMap maps the offsets of a sealed file: it is a list of chunks and holes, inline if
// it is short, else a tree of list objects. It never changes.
//
// A layout maps the offsets of a file that was written to: it has a ChunkMap as its base, and
// extents for the parts that differ from the base. An extent is a run of bytes in the
// journal, in a ChunkMap, in a hole or in a reservation. So a write copies no bytes, and
// neither does a clone of a range of another file.
//
// # Versions
//
// A Content is one version of a file. It belongs to the epoch that made it, and is
// changed in place during that epoch. Later it is frozen, because captures
// may share it. The first change then makes the next version (VersionFor), which begins with the
// same layout: the B-tree of extents is copied in O(1).
//
//	epoch 1   Content a   layout: journal 0-900
//	epoch 2   Content b   layout: journal 0-900, but 100-200 from journal 5000 on
//	                      link to a
//
// # Sealing
//
// Sealer.Seal cuts a frozen version into chunks and stores them. Where a chunk ends
// depends on the bytes alone (FastCDC). So if a file with a base has changed, Seal reads only from the last
// chunk boundary before the change to the first boundary after the change at which old and new chunks end.
// The result is the same as if Seal had cut the whole file.
//
// Afterwards the Content reads from its ChunkMap, and the journal may drop the bytes.
// A newer version still refers to the journal for the parts that it shares with the sealed
// version. Rebase replaces these parts: where both versions had the same run in the journal, the newer
// one gets the run that the sealed version has now.
//
//	a sealed              layout: ChunkMap A
//	b rebased             layout: ChunkMap A, but 100-200 from journal 5000 on
//
// # Locking
//
// To call VersionFor and to change related contents (versions of one another, or source and target
// of CloneRange), the caller holds one lock over all of them. A frozen Content
// is read, sealed and rebased without that lock: its layout is an immutable value behind an
// atomic pointer.
//
// Content.sealMu is held by the one goroutine that seals a Content. This goroutine takes the locks of the chunk
// store and of the caches while it holds Content.sealMu. Seal releases Content.sealMu when its turn is over,
// and must not hold it while it waits for its next turn: a goroutine that waits for the lock has a turn already.
//
// # Dangers
//
//   - The journal may drop bytes that only an older layout refers to. After reading, a reader checks that the
//     layout is unchanged. If it is not, the reader reads again.
//   - A gc must mark every ChunkMap from which a Content reads now or later:
//     see EachObject.
//   - The numbers in chunkwriter.go and the rule in listBuilder are part of the format
//     (../tree/FORMAT.md).
package content
