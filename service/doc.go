// Package service has the operations on a mounted store, each with its arguments, its result and the
// right that its caller needs.
//
// Imported by: all of cmd, fusefs/control, service/client.
//
// # One operation, two ways in
//
// An operation is an Op, a row of the tables in ops_*.go. It has a name, a type of arguments, a type of result and
// the function that does the work. These interfaces are made from the list of operations:
//
//   - the routes of the HTTP server on the socket STORE/socket (http.go), and docs/api/openapi.yaml, of
//     which the clients are made;
//   - the control file `.snapshots/call`, which takes a request as a JSON object,
//     {"op":"history","path":"src/a.py"}, and returns the answer (request.go);
//   - the other control files (Op.ControlFiles), which call Do with arguments of the operation's type;
//   - commands (Op.Commands) and MCP tools (Op.Tools).
//
// An option is a field of the type of the arguments. HTTP and `.snapshots/call` accept each field. Commands, tools
// and lines accept only the fields that the row names.
//
// Package client uses HTTP and `.snapshots/call`. The command line and the MCP server use package client.
//
// # Requests
//
// A Request has the caller, as the kernel reports it, the workspace and the streams. Service.Do waits until
// the mount is up, checks the caller's rights (Service.Admit), runs the operation, and adds a kind, a sentence and
// a hint to its error (package errs).
//
// # Families
//
// The operations of a family are methods of one type: snapshots, forks, files, history, remotes, Exports, imports,
// freezes, erasure or upkeep. The function op makes their rows. A request has the workspace, and the parts that all
// operations share: the log, the turns, the pools of memory, main, and the source of objects (core). What a family
// needs beyond that stands in its fields. A family reaches the store only through interfaces with the few methods that
// it calls. If a family needs a method of another family, New passes a function or an interface.
//
// # Rights
//
// Over the socket, the user of the daemon and root may call every operation in every workspace. A
// caller that the kernel allows to write a control file may call the operations that Op.Access allows,
// in the workspace of the file. In both cases, package snapshot enforces the protections of the policy.
//
// # Streams
//
// Some operations read a stream (a tar archive), some write one: text, bytes or events. Over HTTP the stream
// is the body. After the stream, the trailer has the result in Amberfs-Result or the error in Amberfs-Error.
// Events are server-sent events. In the answer of a control file, text and events are fields of the object.
//
// An operation can hold a lock of its family while it works in the store: imports.blobsLock, remotes.addLock,
// remotes.handoffLock or freezes.mu.
package service
