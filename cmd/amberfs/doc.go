// Package main is the command amberfs, which mounts a file system with snapshots
// and works with them.
//
// Each command is one file, cmd_NAME.go, and thin: it reads its arguments, asks
// for one operation of package service, and prints the answer. A command finds
// its mount from the directory that it runs in (internal/locate), without asking
// the file system, so that a mount which hangs cannot hold it back. It asks the
// daemon over the socket in the store or, where that cannot be reached, through
// the mount (service/client).
//
// The daemon is this same program (internal/daemon), and so is the MCP server
// (mcp_*.go), which asks as a command does.
package main
