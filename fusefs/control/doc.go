// Package control implements the directories .snapshots and .forks of every workspace, by which the
// history of a file tree can be read and changed with plain file I/O.
//
// Imported by: all of cmd, fusefs, fusefs/takeover.
//
// Package service runs the operations that files and names call, and checks rights. This package has the
// nodes, names, attributes, reads and writes. It does not use FUSE itself: package fusefs passes each request
// of the kernel to one method of [Tree], and a [Kernel] drops pages of the kernel's cache.
//
// # Nodes
//
// The roots of snapshots and forks are nodes of the forest. The tree only finds them by name. The nodes of
// the tree are the two directories, files and symlinks. The id of a directory is made of the view of its
// workspace. Files and symlinks are in a cache (cache.go): if a tenant has too many, the least recently used
// of them are removed. They are of five types with one interface (node.go): rendered files and symlinks,
// files with answers, scratch files, call files, and the event log.
//
// A [Tree] has five parts: the cache, the queue in which requests of a tenant wait (tenant.go), the renderer
// of files that take long (query.go), the commands and their answers (command.go), and the event logs
// (log.go).
//
// # Files that are never opened
//
// The kernel opens files without a request (see fusefs), so the tree cannot choose the content of a
// file when it is opened. Therefore a control file is, for the kernel, an ordinary cached file with an
// exact size: its content is made when its name is looked up, and another content is another node. The
// kernel may cache neither the name nor the attributes of a file. So each open(2) begins with a lookup
// and gets the present content, while an open file keeps its content.
//
// The event log is the exception: it keeps its node while it grows, for `tail -f`.
//
// `diff@A..B`, `info@A` and `list` are rendered when their name is looked up, because the kernel needs the
// size then. They are rendered in a separate directory (see renderingDir): before that, the name in
// .snapshots is a symlink. While the state that they show is the same (see source), they are not rendered
// again. A diff has one name, made of the names of the snapshots; other spellings are symlinks to it.
//
// # The life of a command
//
// `echo v1 > .snapshots/create` is LOOKUP, SETATTR (the truncation, which changes nothing) and WRITE.
// close(2) sends no request, so a write counts as a whole command unless its text is visibly the beginning of
// a command (line.go). The tree keeps such a beginning for each process. The command runs before the write is
// answered, and its error is the error of write(2). Its answer, one line of JSON, becomes the content of the
// file.
//
// A private file (private.go) is an alternative: a program writes to a scratch file
// (create.tmp.1) and renames it onto the control file, as editors do, or writes to a call
// file of its own (call.x). `call` takes any request of the service in JSON (command.go).
//
// The files of the tree end with the daemon. If the kernel sends a request again that the previous daemon
// carried out, the next daemon answers from the request's record in the journal (resent.go).
//
// # Limits
//
// A program that has only a fork must not make the daemon slow or large for others. A fork of main and all
// forks in it are one tenant (tenant.go). The number of its renderings and commands at a time is limited.
// While they run or wait, other goroutines answer the kernel (Kernel.CallBlocking). Renderings of all tenants
// take turns (package turns). All files of the tree are in the cache, and every byte of a content is reserved
// there before it is written. Package budget limits the memory of text comparisons.
//
// # Locks
//
// cache.mu guards directories, nodes and tenants. A goroutine that has locked it may lock the forest, to
// find a workspace, and no other lock. It does not render files or run commands.
package control
