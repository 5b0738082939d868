// Package client calls operations of package service on a mounted store, over HTTP on the store's socket. A
// caller may be unable to reach the socket, because it runs in a sandbox that has only the workspace, or as
// another user than the owner of the mount. For such a caller the package sends the same requests through
// `.snapshots/call` in the mount.
//
// Imported by: all of cmd.
package client
