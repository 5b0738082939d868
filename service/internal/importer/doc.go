// Package importer builds a tree from what a source brings, beside the workspace and not
// through the mount: a Builder is the gitbridge.Sink behind `mount --from` and `import`.
// Nothing is visible before Finish has sealed the whole tree and the caller grafts it into
// a workspace, in one step.
package importer
