// Package client calls operations of package service on a mounted store, over HTTP on the store's
// socket. If a caller cannot reach the socket, because it runs in a sandbox that has only the
// workspace or as another user than the one that mounted, the package calls them through
// `.snapshots/call` in the mount. Requests and answers are the same.
//
// Imported by: all of cmd.
package client
