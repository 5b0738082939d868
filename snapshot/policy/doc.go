// Package policy has the policies of workspaces: rules for automatic snapshots, for the retention of
// snapshots, and limits. It has the JSON document that users read and write, the rules that select
// snapshots, and the [Enforcer], which takes snapshots automatically and removes the ones that no rule
// keeps.
//
// Imported by: all of cmd, service, snapshot, snapshot/catalogue, other modules.
package policy
