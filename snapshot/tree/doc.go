// Package tree holds file trees as persistent values: a State can be kept,
// compared, sealed and shared while its successor goes on changing.
//
// # What a state is
//
// A State is a table from inode numbers to inodes, a radix tree of 64-way pages.
// An Inode has the attributes, and by its type
//
//   - a Dir: the entries, in a trie by the hash of the name, of which a small one is
//     sealed as a part of its inode. An entry leads to an inode number, so a rename
//     touches two directories and one inode, whatever is below it, and two names of
//     one number are a hard link;
//   - a content.Content: the bytes of a regular file;
//   - a target, for a symbolic link.
//
// Every inode also knows its names (Links). That is how a change, which is found
// as an inode number, gets its path.
//
// # Epochs
//
// The owner of a state counts epochs. A page, inode or content belongs to the
// epoch that made it: while that is the current one it is changed in place, later
// it is frozen and the first change copies it. A capture therefore is a Clone,
// which copies a few words, and a new epoch number. Own follows this rule for an
// inode and the pages on the way to it; Dir.Insert and Dir.Remove follow it for
// the pages of an owned directory, content.Own for the bytes of a file.
//
// # Sealing
//
// Seal writes a frozen state to an object store, bottom-up: chunks of files, then
// directory pages, then table pages, then the state object, whose hash is the
// state's id. The same files, numbers and attributes have the same id, whatever
// happened before: pages have one shape for one content, which is also what lets
// two states be compared by skipping pages of equal hash.
//
// A sealed page keeps its hash and lets its body go; later it is loaded
// from the Source, which keeps what was used last. So a state that was loaded, or
// sealed, takes next to no memory, and a state that is being changed holds in
// memory what was changed since the last seal and nothing else.
//
// The formats of all objects are in FORMAT.md.
//
// # What is checked
//
// That an object has the hash it is asked for says that it was written so, not that
// it makes sense: a store may come from anywhere, and so does what is pulled. What
// does not fit is ErrMalformed at the place where it is met, and every walk ends:
//
//   - a decoder takes one encoding of each value, in order, and no number out of
//     range (codec.go, codec_inode.go, codec_leaf.go);
//   - a page is at one place only: a leaf of the table says which numbers it is for
//     (page.loadTable), and a page of a directory has as many entries as is said
//     above it, with the hashes that belong there (page.loadDir);
//   - an entry leads to an inode of its type, and a directory has one name, the one
//     that led to it (State.child), so that no directory is met twice on the way
//     down. Rings that do not hang on the root, and paths of more than MaxDepth
//     names, are ErrTooDeep on the way up.
//
// # Locking
//
// There is no lock in here but those inside the caches, one that keeps two
// sealers off one content, and one of calls that lack many objects, which is taken before the
// owner's lock (Again). A state of the current epoch belongs to the one that holds
// the owner's lock. A frozen state may be used by any number of goroutines at
// once, among them sealers, and also while states that share pages with it change
// in a later epoch: all that ever happens to a frozen page or content is that it
// gets its hash and that its body is dropped, through atomic pointers.
//
// # Dangers
//
// An inode that Get returned must not be changed, and may be an older version of
// what Get returns after the next Own. Links and Xattrs are shared between
// versions: they are replaced, never changed in place, and the same goes for the
// bytes of an attribute. Inode numbers must never be used twice in states that are
// compared with each other.
package tree
