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
// Opening and closing:
//
//   - [Open] makes or opens a store, [Store.Close] closes it. [Options] are the arguments of Open, [Store.Dir] is
//     the store's directory, and [Store.FS] the file system that it is on.
//   - [Store.GiveUp] closes the store without a checkpoint, for a process that cannot continue.
//   - A store can begin with a snapshot of a remote: [StartSnapshot]. It can also begin with the files of a directory:
//     [Store.IsNewOrUnfilled] reports whether they are still to be read, and [MarkFilled] records that they were read.
//   - [Check] reports the damage of a store that is not open, [Repair] repairs the store, and [Store.Verify]
//     reads all objects of an open store and lists damaged paths.
//
// Workspaces and files:
//
//   - [Store.Main] is the first workspace, [Store.Workspace] and [Store.WorkspaceOf] find others by
//     their views, and [Store.SnapshotOf] finds a snapshot by its view.
//   - [Store.Forest] has the files of all workspaces: package live reads and changes single files.
//   - [Store.Actors] is the registry of the actors of processes (package actors).
//   - [Store.CAS] has the objects on this machine, [Store.Object] returns an object wherever it is, and [Store.Source]
//     is what trees are read from: objects and the bytes in the journal.
//
// Durability and space:
//
//   - [Store.Sync] returns when acknowledged changes would survive a power cut, and
//     [Store.Checkpoint] shortens the journal.
//   - [Store.GC] frees the disk space of unreferenced objects, and [Store.CollectSoon] makes it run soon.
//     [Store.BeginImport] protects new objects that no tree references yet. [Store.Hold] protects the objects of a
//     state that is read.
//   - [Store.FreeBytes] is the number of bytes that can still be written.
//   - [Store.RemoveKept] removes snapshots and forks that are kept only for an undo.
//   - [Store.Images] lists the container images from which snapshots were imported.
//
// The mount and its successor:
//
//   - [Hooks] has the functions that are called for events and for changes that did not come through the mount:
//     [Hooks.OnEvent], [Hooks.OnInvalidate], [Hooks.OnReplaced]. [Store.NextRecord] returns a channel that
//     is closed when the journal gets its next record.
//   - [Store.Connect] begins a connection to the kernel. A [RequestResult] is the result of a request that a daemon
//     carried out and did not answer before it died: [Store.ResultOf] finds it, and [RequestResult.Changes] lists what
//     an edit changed. [ConnectArgs] are the arguments with which the store asks for a connection to a remote.
//   - [Store.LockFD] is the descriptor with the lock of the directory, and [Store.SetMountpoint] records the mount point
//     for processes that find the store locked.
//
// # Workspace
//
// A [Workspace] is a writable file tree. It has a name ([Workspace.Name]), a view by which live finds its files
// ([Workspace.View], [Workspace.Root]) and a store ([Workspace.Store]). Its methods work on the whole tree:
//
//   - [Workspace.Capture] makes a snapshot of the present state, in a time that does not depend
//     on its size. [CaptureOptions] are its arguments. [Workspace.Find] and [Workspace.List] find snapshots.
//   - [Workspace.Restore] makes the workspace, or some paths, equal to a snapshot. The
//     state before is captured, which makes it an undo. [RestoreOptions] are its arguments, and a [RestoreResult] is
//     its result. [Changes] lists the changed paths, [Changes.Shorten] only the first of them.
//   - [Workspace.Graft] merges an imported tree into the workspace ([GraftOptions], [GraftResult]), and
//     [Workspace.SetFirstState] makes a tree its first state.
//   - [Workspace.Directory] is the [Directory] from which the workspace was filled. [Directory.Refresh] merges the
//     directory's changes into the workspace, and [Directory.Hold] returns the directory's state of the last refresh.
//   - [Workspace.HoldState] returns the present tree or the tree of a snapshot, to be read and compared (package
//     tree), and protects its objects from gc. [Workspace.HoldVisible] leaves out files that the sandbox of a caller
//     created as mount points. [Workspace.State] returns the present tree without protection, and
//     [Workspace.SealPresent] stores it without a snapshot.
//   - [Workspace.Forget] removes contents from all snapshots ([ForgetOptions]).
//   - [Workspace.Policy] and [Workspace.PatchPolicy] read and change the rules for automatic snapshots, retention
//     and limits.
//   - [Workspace.Status] returns sizes, counts and health of the workspace and the store.
//   - [Workspace.Quota] is the [Quota]: [Quota.Usage] is the number of bytes that a fork does not share with other trees,
//     [Quota.Admit] and [Quota.ChargeExport] charge new bytes to the fork's limit.
//   - [Workspace.ChangeCount] is a count that grows with each change of the workspace or its snapshots.
//
// # Snapshots
//
// A snapshot is a frozen tree.State with a name, and a read-only view of the mount. An [info.Info]
// describes it. [Workspace.Snapshots] has the operations on the snapshots of one workspace, [Snapshots]:
//
//   - [Snapshots.Remove] deletes snapshots so that the user can undo it. [Snapshots.DeleteAll]
//     deletes them at once, [Snapshots.Rename] and [Snapshots.Amend] change their description.
//   - [Snapshots.Head] is the parent of the present state. [Snapshots.NewestFirst] iterates over the snapshots.
//     [Snapshots.Page] lists some of them as entries of the directory .snapshots ([ListEntry]).
//   - [Snapshots.Compact] replaces several snapshots by one ([CompactOptions], [Compacted]).
//   - [Snapshots.Intervals] and [Snapshots.OpenInterval] return which actors changed which paths between
//     two snapshots.
//   - [Snapshots.UndoBy] undoes the changes of one actor ([UndoByOptions], [UndoByResult]). [Snapshots.VersionsBy] returns
//     a file with and without the actor's changes.
//   - [Snapshots.WaitSealed] waits until a snapshot has its id, and is on disk.
//   - [Snapshots.DiskUsage] counts the bytes that deleting snapshots would free.
//
// [ErrUnchanged] is the error of a capture that is left out, because nothing changed since the newest snapshot.
//
// # Forks
//
// A fork is a workspace that began as a snapshot or as the present state of another workspace, its parent
// ([Workspace.IsFork], [Workspace.Parent], [Workspace.BaseSnapshotName]). The limits of a fork's fork are those of
// [Workspace.Tenant]. [Workspace.Forks] has the operations on the forks of one workspace, [Forks]:
//
//   - [Forks.New] makes a fork ([ForkOptions]). [Forks.Claim] finds or makes the fork of a label ([ClaimResult]), and
//     [Forks.HasLabel] reports whether the fork of a label exists or left its last state, which [Forks.LastState] returns.
//   - [Forks.List], [Forks.Named] and [Forks.Page] find forks. A [ForkInfo] describes one, and [ForkInfo.Node] is its
//     root directory.
//   - [Forks.Rename] renames a fork.
//   - [Forks.Merge] merges the changes of a fork into the workspace. [MergeOptions] are its arguments, and
//     [MergeRules] those of every merge and undo. A [MergeResult] lists changes or conflicts ([MergeResult.ConflictPaths]),
//     and a [PromoteResult] has also the snapshots before and after.
//   - [Forks.End] removes a fork and keeps its last state as a snapshot, [Forks.Discard]
//     removes a fork without a snapshot, and [Forks.Remove] does either so that the user can undo it.
//     [Workspace.Bookmark] captures a fork before the first of several removals.
//   - [Forks.HidesPaths] reports whether a new fork hides paths of its parent.
//
// # Operations
//
// [Workspace.Ops] has the operations that a user can undo, [Ops]:
//
//   - [Ops.List] and [Ops.ByNumber] find operations, and [Ops.UndoDeadlines] returns the times until which some of
//     them can be undone.
//   - [Ops.Undo] undoes one.
//   - [Ops.BeginApply], [Ops.EndApply] and [Ops.MarkApplyUndone] record an apply to a directory, which a client carries
//     out.
//
// # Remotes
//
// [Workspace.Remotes] exchanges snapshots with other stores, [Remotes]:
//
//   - [Remotes.PreparePush] protects a snapshot from gc while it is sent ([OutgoingSnapshot]), and [Remotes.ReportPushed]
//     emits the event.
//   - [Remotes.CheckPull] checks a name, and [Remotes.AddPulled] makes a snapshot of objects that were fetched.
//   - [Remotes.HoldToSend] returns a state without the paths that the policy forgets. [Remotes.UnsentPaths] lists these
//     paths, and [Remotes.SendsAll] reports whether the policy forgets none.
//   - [Remotes.Lineage] and [Remotes.NewestWithID] find states that two stores have in common.
//
// # Forgotten contents
//
// [Store.ForgottenContents] has the operations on contents that users have forgotten, [ForgottenContents]:
//
//   - [ForgottenContents.CompleteErasure] completes an erasure. It deletes exports with a function that the caller
//     gives it, [PruneExports].
//   - [ForgottenContents.Verify] searches the whole store for forgotten contents. [ForgottenContents.Scanner] and
//     [ForgottenContents.Chunks] are for a search elsewhere.
//   - [ForgottenContents.RewrittenSnapshots] returns the snapshots whose trees were replaced ([RewrittenSnapshot]).
package snapshot
