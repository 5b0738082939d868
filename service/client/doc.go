// Package client asks a mounted store for operations of package service, over
// HTTP on the store's socket or, where that cannot be reached, through
// `.snapshots/call` in the mount: in a sandbox that has nothing but the
// workspace, or as another user than the one who mounted it. Requests and
// answers are the same.
package client
