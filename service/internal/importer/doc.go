// Package importer builds a tree from the entries of a source: a directory, an archive or the layers
// of an image. `mount --from`, `import` and `refresh` use it. The methods Add and AddLayerEntry of a
// Builder are of the type stream.Sink. The tree is not a part of a workspace while it is built. Finish
// stores it, and then the caller puts it into a workspace in one step.
package importer
