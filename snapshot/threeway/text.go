package threeway

import (
	"context"
	"io"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// An Input is a regular file that both sides changed.
type Input struct{ Base, Ours, Theirs *io.SectionReader }

// A Merger merges files by lines. It calls clean for those that merge without a
// conflict, by their index in files.
type Merger func(ctx context.Context, files []Input, clean func(i int, size int64, r io.Reader) error) error

// maxMerged is the size in bytes up to which a file is merged.
const maxMerged = 16 << 20

// collision is a path that changed on both sides. Base is nil if it is new on
// both.
type collision struct {
	path               string
	base, ours, theirs *tree.Inode
	oursChanged        tree.What
	theirsChanged      tree.What
}

// attributes are differences that a merge of the bytes does not settle.
const attributes = tree.Mode | tree.Owner | tree.Xattrs

// mergeable reports whether the bytes decide alone: three regular files of which one side
// at most changed the attributes.
func (c collision) mergeable() bool {
	for _, n := range []*tree.Inode{c.base, c.ours, c.theirs} {
		if n == nil || !n.IsRegular() || n.Size() > maxMerged {
			return false
		}
	}
	return c.oursChanged&attributes == 0 || c.theirsChanged&attributes == 0
}

// merged is the file that has the bytes of text, and the attributes of the side
// that changed them.
func (c collision) merged(text *content.Content, now int64) *tree.Inode {
	n := *c.theirs
	if c.theirsChanged&attributes == 0 {
		n = *c.ours
	}
	n.Content, n.Mtime, n.Atime = text, now, now
	return &n
}

// Texts merges the files in conflict by lines. A later Run uses the merged contents.
func (m *Merge) Texts(ctx context.Context, merge Merger) error {
	var files []Input
	var tried []collision
	for _, c := range m.collisions {
		if c.mergeable() {
			src := m.Source.Files
			files = append(files, Input{c.base.Content.Reader(src), c.ours.Content.Reader(src), c.theirs.Content.Reader(src)})
			tried = append(tried, c)
		}
	}
	if len(files) == 0 {
		return nil
	}
	sealer := &content.Sealer{Src: m.Source.Files, Objects: m.Objects}
	m.texts = make(map[string]*content.Content)
	return merge(ctx, files, func(i int, size int64, in io.Reader) error {
		sealed, err := content.FromReader(ctx, sealer, io.LimitReader(in, size))
		if err == nil {
			m.texts[tried[i].path], m.Stored = content.Of(sealed), true
		}
		return err
	})
}
