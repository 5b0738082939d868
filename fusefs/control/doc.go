// Package control is the directories .snapshots and .forks of every workspace: the
// history of a file tree, to be looked at and changed with plain file I/O.
//
// The service performs what a file or a name requests, and checks rights; this package
// has nodes, names, attributes, reads and writes. There is no FUSE here. Package fusefs
// hands each request of the kernel to one method of [Tree]; a [Kernel] drops pages.
//
// # Nodes
//
// The roots of snapshots and forks are nodes of the forest; the tree only says by
// which name they are found. Its own nodes are the two directories, whose ids are
// made of the view of their workspace, and files and symlinks, which are a cache
// (cache.go): those that a tenant used least recently go when it has too many.
//
// # Files that are never opened
//
// The kernel opens files without asking (see fusefs), so there is no moment at which
// to write down what an open file shows. Hence a control file is, to the kernel, an
// ordinary cached file of an exact size: its content is made when its name is looked
// up, and a content that differs is another node. The kernel may remember neither
// the name nor the attributes of one, so each open(2) begins with a lookup and sees
// the present, while a file that is open shows the same as before.
//
// The event log is the exception: it keeps its node while it grows, for `tail -f`.
//
// `diff@A..B`, `info@A` and `list` are rendered when their name is looked up, since the
// kernel wants the size then, and not again while their source stays the same. A diff has
// one name, made of the names of the snapshots; other spellings are symlinks to that.
//
// # The life of a command
//
// `echo v1 > .snapshots/create` is LOOKUP, SETATTR (the truncation, which changes
// nothing) and WRITE. As close(2) sends nothing, a write is taken for a whole command
// unless it can be seen to be the beginning of one (line.go); beginnings are kept
// by process. The command runs before the write is answered, so its error is that of
// write(2). What came of it is one line of JSON: the content of the file from then on.
//
// A private file (private.go) is an alternative: a program writes to a scratch file
// (create.tmp.1) and renames it onto the control file, as editors do, or writes to a call
// file of its own (call.x). `call` takes any request of the service in JSON (command.go).
//
// What the tree has besides snapshots and forks dies with the daemon. If the kernel sends a
// request again that was carried out, the next daemon answers it from its record (resent.go).
//
// # Limits
//
// A program that has only a fork must not make the daemon slow or large for others. A
// fork of main and all forks in it are one tenant (tenant.go). Its renderings and
// commands at a time are limited; while they run or wait, other goroutines answer the
// kernel (Kernel.Blocking). Renderings of all tenants take turns (package turns). All that
// the tree keeps is in the cache, and every byte of a content is reserved there before it
// is rendered. Package budget bounds what comparing texts takes in memory.
//
// # Locks
//
// Tree.mu guards directories, nodes and tenants. While it is held only the forest is
// locked, to look for a workspace; nothing is rendered or run.
package control
