// Package forget removes contents from trees, for a user who must remove a key or a password from all
// snapshots. It works on sealed trees and on bytes. Workspace.Forget of package snapshot uses it.
//
// Imported by: all of cmd, service, snapshot.
//
// # The steps of a forget
//
//  1. A checkpoint gives every snapshot its id.
//  2. A [Rewriter] makes a new tree of each tree that has the contents. It removes a file that the user
//     named, or that equals the given bytes. It overwrites a matching part of a file by stars, so that
//     sizes and offsets stay. All times stay. Trees without the contents keep their ids.
//     The contents are also removed from ended forks, which an undo can restore. If the user requests it,
//     they are also removed from the present states of all workspaces: then changes of the workspaces wait
//     from this step until the record of step 4 is written.
//  3. A [Receipt] lists the removed contents and their places. It is an object of the store.
//  4. One record of the journal (catalogue.Forget) gives all snapshots, directories and operations their
//     new trees, makes the edits of present states, and adds the receipt. Only this step changes the files
//     and snapshots that users see: a kill before this step leaves garbage, which gc removes.
//  5. The refs of the store's git repository that refer to an old tree are deleted, with their objects.
//  6. The bytes are erased: the journal begins a new segment, a checkpoint drops the segments before it,
//     and a gc removes the old objects and overwrites all free space of the packs. A second record states
//     that the bytes are erased. Steps 5 and 6 can be repeated: if they are interrupted, the next start of
//     the daemon repeats them.
//
// Snapshots keep their view, name, number and times. Info.FormerIDs has the earlier ids of a snapshot.
// [catalogue.List.Find] also finds a snapshot by an earlier id, so that references from outside remain valid.
//
// The steps do not include remotes, because a remote may not answer. After the last step package service
// sends the rewritten snapshots to the remotes again, and removes there the objects with the old chunks, for
// all receipts. It can repeat this.
//
// # What stays
//
// A chunk is not erased if a file that stays also contains it: a file in the present state of a workspace,
// or at another path. The receipt names these files. Bytes of an unlinked file that a program has open stay
// until the program closes the file.
//
// # Proof
//
// A receipt has a [Fingerprint] of each removed chunk and text: its hash, its length, and a rolling hash of its
// first bytes. With the fingerprints a [Scanner] finds the removed chunks and texts at any offset of any bytes,
// although the fingerprints do not contain them.
package forget
