// Package snapshot is the versioned workspace: a store of file trees whose
// every state can be captured, kept and restored.
//
// Imported by: all of cmd, all of fusefs, service, other modules.
//
// # Store
//
// A [Store] is a directory that one process owns at a time. It has workspaces: `main`, and one
// more for each fork.
//
//   - [Open] makes or opens a store, [Store.Close] closes it. A store can begin with a snapshot of
//     a remote: [StartSnapshot].
//   - [Check] reports the damage of a store that is not open, [Repair] repairs the store, and [Store.Verify]
//     reads all objects of an open store and lists damaged paths.
//   - [Store.Main] is the first workspace, [Store.Workspace] and [Store.WorkspaceOf] find others by
//     their views.
//   - [Store.Forest] has the files of all workspaces: package live reads and changes single files.
//   - [Store.Sync] returns when acknowledged changes would survive a power cut, and
//     [Store.Checkpoint] shortens the journal.
//   - [Store.GC] frees the disk space of unreferenced objects. [Store.BeginImport] protects new
//     objects that no tree references yet.
//   - [Store.RemoveKept] removes snapshots and forks that are kept only for an undo. [Store.ForgottenContents] erases
//     contents that were forgotten, and proves that the store no longer has them.
//   - [Store.Images] lists the container images from which snapshots were imported.
//   - [Hooks] has the functions that are called for events and for changes that did not come
//     through the mount.
//
// # Workspace
//
// A [Workspace] is a writable file tree. Its methods work on the whole tree:
//
//   - [Workspace.Capture] makes a snapshot of the present state, in a time that does not depend
//     on its size. [Workspace.Find] and [Workspace.List] find snapshots.
//   - [Workspace.Restore] makes the workspace, or some paths, equal to a snapshot. The
//     state before is captured, which makes it an undo.
//   - [Workspace.Graft] merges an imported tree into the workspace, and [Workspace.SetFirstState] makes a tree its
//     first state. [Directory] has the operations on the directory from which the workspace was filled: a refresh
//     merges the directory's changes into the workspace.
//   - [Workspace.HoldState] returns the present tree or the tree of a snapshot, to be read and compared (package
//     tree), and protects its objects from gc. [Workspace.HoldVisible] leaves out files that the sandbox of a caller
//     created as mount points.
//   - [Workspace.Forget] removes contents from all snapshots.
//   - [Workspace.Policy], [Workspace.PatchPolicy] and [Workspace.SetPolicy] read and change the rules
//     for automatic snapshots, retention and limits.
//   - [Workspace.Status] returns sizes, counts and health of the workspace and the store,
//     [Quota.Usage] the bytes that a fork does not share with other trees.
//
// # Snapshots
//
// A snapshot is a frozen tree.State with a name, and a read-only view of the mount. An [info.Info]
// describes it. [Snapshots] has the operations on the snapshots of one workspace:
//
//   - [Snapshots.Remove] deletes snapshots so that the user can undo it. [Snapshots.DeleteAll]
//     deletes them at once, [Snapshots.Rename] and [Snapshots.Amend] change their description.
//   - [Snapshots.Compact] replaces several snapshots by one.
//   - [Snapshots.Intervals] and [Snapshots.OpenInterval] return which actors changed which paths between
//     two snapshots, and [Snapshots.UndoBy] undoes the changes of one actor.
//   - [Snapshots.WaitSealed] waits until a snapshot has its id, and is on disk.
//   - [Snapshots.DiskUsage] counts the bytes that deleting snapshots would free.
//
// # Forks
//
// A fork is a workspace that began as a snapshot or as the present state of another workspace.
// [Forks] has the operations on the forks of one workspace:
//
//   - [Forks.New] makes a fork, [Forks.Claim] finds or makes the fork of a label. [Forks.List] and
//     [Forks.Named] find forks.
//   - [Forks.Merge] merges the changes of a fork into the workspace.
//   - [Forks.End] removes a fork and keeps its last state as a snapshot, [Forks.Discard]
//     removes a fork without a snapshot, and [Forks.Remove] does either so that the user can undo it.
//
// # Operations and remotes
//
// [Ops] has the operations that a user can undo: [Ops.List], [Ops.Undo].
//
// [Remotes] exchanges snapshots with other stores: [Remotes.Push] protects a snapshot from gc
// while it is sent, [Remotes.AddPulled] makes a snapshot of objects that were fetched.
package snapshot
