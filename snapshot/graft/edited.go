package graft

import (
	"bytes"
	"context"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// An EditedFile replaces the contents of one file.
type EditedFile struct {
	Objects content.ObjectStore                   // stores the new contents
	Edit    func(now *tree.State) ([]byte, error) // returns the new contents
	DryRun  bool                                  // do not store the new contents

	NewObjects *tree.State // references the new contents; set by Steps
}

// Steps stores the new contents of the file at the only path in paths, and returns the step that
// replaces the contents.
func (f *EditedFile) Steps(ctx context.Context, src *tree.Source, present *tree.State, paths []string) ([]Step, error) {
	if len(paths) != 1 {
		return nil, errs.New(errs.Invalid, "malformed request: the path is no file")
	}
	path, err := tree.ParsePath(paths[0])
	if err != nil {
		return nil, err
	}

	n, err := present.Resolve(src, paths[0])
	if err != nil {
		return nil, err
	}
	if !n.IsRegular() || len(n.Links) > 1 {
		return nil, errs.New(errs.Invalid, "malformed request: %s is not a regular file with one name; restore all of it", path.Short())
	}

	text, err := f.Edit(present)
	if err != nil {
		return nil, err
	}

	edited := *n
	step := StepOf(tree.Change{Path: path, Before: n, After: n, Differences: tree.DataDiffers})
	step.ReplacementNode, step.Size = &edited, int64(len(text))
	if f.DryRun {
		return []Step{step}, nil
	}

	sealed, err := content.FromReader(ctx, &content.Sealer{Src: src.Files, Objects: f.Objects}, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}

	edited.Content = content.FromChunkMap(sealed)
	f.NewObjects = tree.New(1, &tree.Inode{Ino: tree.RootIno, Mode: unix.S_IFREG, Nlink: 1, Content: edited.Content})

	return []Step{step}, nil
}
