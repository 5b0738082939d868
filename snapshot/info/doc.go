// Package info has the descriptions of snapshots, workspaces and stores that users see.
//
// Imported by: all of cmd, fusefs/control, service, snapshot, snapshot/actors/blame,
// snapshot/catalogue, snapshot/engine, snapshot/events, snapshot/policy, other modules.
package info
