// Package control is the directories .snapshots and .forks of every workspace: the
// history of a file tree, to be looked at and changed with plain file I/O.
//
// What a file or a name asks for is asked of package service, which says who may have
// it; on the other side are nodes, names, attributes, reads and writes. There is no
// FUSE here. Whoever shows the tree to a kernel hands each request to one method of
// [Tree] and is, as a [Kernel], told what to forget.
//
// # Nodes
//
// The roots of snapshots and forks are nodes of the forest; the tree only says by
// which name they are found. Its own nodes are the two directories, whose ids are
// made of the view of their workspace, and files and symlinks, which are kept while
// the kernel holds them (Forget).
//
// # Files that are never opened
//
// The kernel opens files without asking (see fusefs), so there is no moment at which
// to write down what an open file shows. Hence a control file is, to the kernel, an
// ordinary cached file of an exact size: its content is made when its name is looked
// up, and a content that differs is another node. The kernel may remember neither
// the name nor the attributes of one, so each open(2) begins with a lookup and sees
// the present, while a file that is open goes on showing what it did.
//
// The event log is the exception: it keeps its node while it grows, for `tail -f`.
//
// `diff@A..B` is rendered when its name is looked up, since the kernel wants the size
// then, and not again while both sides stay what they are. It has one name, made of
// the names of the snapshots; other spellings are symlinks to that.
//
// # The life of a command
//
// `echo v1 > .snapshots/create` is LOOKUP, SETATTR (the truncation, which changes
// nothing) and WRITE. As nobody tells of close(2), a write is taken for a whole command
// unless it can be seen to be the beginning of one (partial.go); beginnings are kept
// by process. The command runs before the write is answered, so its error is that of
// write(2). What came of it is one line of JSON: the content of the file from then on.
//
// The same is reached by writing to a scratch file (create.tmp.1) and renaming it
// onto the control file, as programs do that replace a file at once.
//
// `call` takes any request of the service in JSON (call.go).
//
// # Limits
//
// Whoever has only a fork must not make the daemon slow or large for others. A fork of
// main and all forks in it are one tenant (tenant.go), with so many renderings and
// commands at a time; while they run or wait they occupy none of those who answer the
// kernel (Kernel.Blocking). Contents of more than 64 KiB lie on the store's disk
// (content.go), so many bytes of them for a tenant; what comparing texts takes in
// memory is bounded for the whole daemon (package budget).
//
// # Locks
//
// Tree.mu guards directories, nodes, contents' references and tenants. Nothing else is
// locked while it is held but that of the forest, to ask whether a workspace is still
// there and whose it is; nothing is rendered or run, and notices only go into a queue:
//
//	Tree.mu
//	  Forest.mu
//	turns.mu      who waits for a rendering or a command to end; alone
package control
