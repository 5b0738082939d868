// Package forget removes contents from trees, for a user who must not have them in any snapshot: a key,
// a password. It works on sealed trees and on bytes. Store.Forget of package snapshot uses it.
//
// Imported by: all of cmd, service, snapshot.
//
// # The steps of a forget
//
//  1. A checkpoint gives every snapshot its id.
//  2. A [Rewriter] makes a new tree of each tree that has the contents. A file that is named, or that
//     equals the given bytes, is removed; a part of a file that matches is overwritten by stars, so that
//     sizes and offsets stay. All times stay. Trees without the contents keep their ids.
//     Forks that have ended, which an undo can restore, lose the contents too. If the user wants that, so
//     do the present states of all workspaces: their changes wait from here until the record is written.
//  3. A [Receipt] describes what was where. It is an object of the store.
//  4. One record of the journal (catalogue.Forget) gives all snapshots, directories and operations their
//     new trees, makes the edits of present states, and adds the receipt. This is the only step that
//     changes what users see: a kill before it leaves garbage, which gc removes.
//  5. The refs of the store's git repository that lead to an old tree are deleted, with their objects.
//  6. The bytes are erased: the journal begins a new segment, a checkpoint drops the segments before, and
//     a gc removes the old objects and overwrites all free space of the packs. A second record notes that
//     it is done. All of this may be repeated, so an interrupted step is finished by the next start.
//
// Snapshots keep their view, name, number and times. Info.Was has the ids that a snapshot had before,
// and [catalogue.List.Find] finds it by them, so that references from outside still lead to it.
//
// Remotes are not a part of this: they may not answer. When the rest is done, package service sends the
// rewritten snapshots again and removes the objects with the old chunks, for all receipts, and can repeat it.
//
// # What stays
//
// A chunk that a kept file also has is not erased: the file in the present state of a workspace, or
// another path. The receipt names these files. Bytes of an unlinked file that a program has open go when
// it closes the file.
//
// # Proof
//
// A receipt has a [Print] of each removed chunk and text: its hash, its length, and a rolling hash of its
// first bytes. A [Scanner] finds them at any offset in any bytes, without knowing them.
package forget
