// Package content is the bytes of regular files: how a file that is being written
// refers to the journal, how it is cut into chunks, and how both are read as one.
//
// # Where bytes are
//
// A byte of a file is in the journal, at the position where a write put it; in a chunk,
// an object of the chunk store; in a hole; or in reserved blocks that were never written
// (fallocate). The last two read as zeros.
//
// A ChunkMap is the map of a sealed file: a list of chunks and holes, inline when it is
// short, else a tree of list objects. It never changes.
//
// A layout is the map of a file that was written to: a ChunkMap as its base, and above
// it extents for what is different. An extent is a run of bytes in the journal, in a
// ChunkMap, or nowhere. So a write copies nothing, and neither does a clone of a range of
// another file.
//
// # Versions
//
// A Content is one version of a file. It belongs to the epoch that made it and is
// changed in place while that is the current one. Later it is frozen, because captures
// may share it, and the first change makes the next version (Own), which begins with the
// same layout: the B-tree of extents is copied in O(1).
//
//	epoch 1   Content a   layout: journal 0-900
//	epoch 2   Content b   layout: journal 0-900, but 100-200 from journal 5000 on
//	                      link to a
//
// # Sealing
//
// Sealer.Seal cuts a frozen version into chunks and stores them. Where a chunk ends
// depends on the bytes alone (FastCDC), so above a base only the bytes from the last
// boundary before a change to the first common boundary behind it are read. The result
// is the same as if all of the file had been cut.
//
// From then on the Content reads from its ChunkMap, and the journal may drop the bytes.
// A newer version still points into the journal for all that it has in common with this
// one. Rebase replaces these parts: where its layout has the same place as the former
// layout of this one, it takes what the present one has there.
//
//	a sealed              layout: ChunkMap A
//	b rebased             layout: ChunkMap A, but 100-200 from journal 5000 on
//
// # Locking
//
// Owning and changing related contents (versions of one another, or source and target
// of CloneRange) needs one lock over all of them, which is the caller's. A frozen Content
// is read, sealed and rebased without it: its layout is an immutable value behind an
// atomic pointer. Content.sealing keeps two sealers off one Content; under it are the locks
// of the chunk store and the caches. It is held until the end of a turn at most, and the
// caller gets its next turn without it: who waits for it has a turn, too.
//
// # Dangers
//
//   - The journal may drop what only an older layout needed. A reader checks that
//     the layout is still the same when it is done, and reads again if not.
//   - A collection of objects must see every ChunkMap that a Content may come to
//     share: see EachObject.
//   - The numbers in chunk.go and the rule in listBuilder are part of the format
//     (../tree/FORMAT.md).
package content
