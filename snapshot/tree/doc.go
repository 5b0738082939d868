// Package tree has file trees as persistent values: a State can be kept, compared, sealed and shared while a
// newer version of it is changed.
//
// Imported by: archive, all of cmd, diff, fusefs, fusefs/takeover, gitbridge, hostdir, remote/handoff, all of service,
// snapshot, all of snapshot/actors, snapshot/catalogue, snapshot/engine, snapshot/events, snapshot/forget,
// snapshot/graft, snapshot/live, snapshot/repair, snapshot/threeway, stream, other modules.
//
// # States
//
// A State is a table from inode numbers to inodes, a radix tree of 64-way pages. An Inode has attributes and,
// depending on its type:
//
//   - a Dir: the entries, in a trie by the hash of the name. A small directory is
//     sealed as a part of its inode. An entry has an inode number, so a rename of a
//     directory changes no inode below it, and two entries with one number are hard
//     links;
//   - a content.Content: the bytes of a regular file;
//   - a target, for a symbolic link.
//
// Every inode also has its names (Links). A comparison of tables returns inode numbers, and the names of the
// inodes lead to the paths.
//
// # Epochs
//
// The owner of a state counts epochs. A page, inode or content belongs to the
// epoch that made it. During that epoch it is changed in place. Afterwards it is
// frozen, and the first change copies it. A capture therefore is a Clone,
// which copies a few words, and a new epoch number. State.Own follows this rule for an
// inode and the pages on the way to it; Dir.Insert and Dir.Remove follow it for
// the pages of an owned directory, Content.VersionFor for the bytes of a file.
//
// # Sealing
//
// Seal writes a frozen state to an object store, bottom-up: chunks of files, then
// directory pages, then table pages, then the state object, whose hash is the
// state's id. States with the same files, inode numbers and attributes have the same
// id, because the shape of the pages depends only on the content and not on its
// history. For the same reason a comparison of two states can skip pages of equal
// hash.
//
// A sealed page keeps its hash and drops its body. The body is loaded again from the Source, which caches bodies.
// So a state that was loaded or sealed takes almost no memory, and a state that is being changed has in memory
// only the changes since the last seal.
//
// The formats of all objects are in FORMAT.md.
//
// # What is checked
//
// The right hash of an object shows only that the object is unchanged. Its contents may
// still be malformed, because stores and pulled snapshots may come from anybody. Reading
// a malformed object fails with ErrMalformed, and every walk ends:
//
//   - a decoder accepts one encoding of each value, values in order, and numbers in
//     their range (codec.go, codec_inode.go, codec_leaf.go);
//   - a page can be at one position only: a leaf of the table has the inode numbers that it
//     is for (page.loadTable), and a page of a directory has as many entries as the page
//     above it states, with hashes that belong there (page.loadDir);
//   - the inode of an entry has the entry's type, and a directory has one name, the one
//     of the entry that led to it (State.entryInode), so a walk down from the root visits no
//     directory twice. A walk up fails with ErrTooDeep after MaxDepth names, and so ends
//     also in a ring of directories that the root does not lead to.
//
// # Locking
//
// The owner of a state has the lock for the state. A state of the current epoch is used only under the owner's
// lock. A frozen state may be used by any number of goroutines at once, including sealers, even if states that
// share pages with it change in a later epoch. The only change of a frozen page or content is that it gets its
// hash and then drops its body, both through atomic pointers.
//
// This package has three kinds of locks: in the caches; in a content, so that only one
// goroutine seals it at a time; and one that the function Again takes, before the owner's lock, for
// a call that needs many objects.
//
// # Dangers
//
// An inode that Get returned must not be changed, and after the next Own it may be an
// older version than the inode in the state. Versions share Links, Xattrs and the
// bytes of attributes: these are replaced, never changed in place. Inode numbers must never be
// used twice in states that are compared with each other.
package tree
