package snapshot

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// MergeInput is a regular file that both sides of a promotion changed.
type MergeInput struct{ Base, Ours, Theirs *io.SectionReader }

// A Merger merges files by lines. It hands on those that merge clean, by their
// place in files, and says nothing of those in conflict.
type Merger func(ctx context.Context, files []MergeInput, clean func(i int, size int64, r io.Reader) error) error

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

// mergeable reports whether the bytes decide alone: three regular files with one
// name each, of which one side at most changed the attributes.
func (c collision) mergeable() bool {
	for _, n := range []*tree.Inode{c.base, c.ours, c.theirs} {
		if n == nil || !n.IsRegular() || n.Nlink != 1 || n.Size() > maxMerged {
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

// mergeTexts merges the files in conflict as far as their lines allow. What comes
// out is in the store, as a tree that the record names, before the promotion is
// journalled: recovery takes it from there.
func (m *merging) mergeTexts(ctx context.Context, merge Merger, r *promoteRecord) error {
	var files []MergeInput
	var tried []collision
	for _, c := range m.collisions {
		if c.mergeable() {
			src := m.s.src.Files
			files = append(files, MergeInput{c.base.Content.Reader(src), c.ours.Content.Reader(src), c.theirs.Content.Reader(src)})
			tried = append(tried, c)
		}
	}
	if len(files) == 0 {
		return nil
	}
	root := &tree.Inode{Ino: tree.RootIno, Mode: unix.S_IFDIR | 0o700, Nlink: 2}
	texts := tree.New(1, root)
	sealer := &content.Sealer{Src: m.s.src.Files, Objects: m.s.cas, Workers: 1}
	err := merge(ctx, files, func(i int, size int64, in io.Reader) error {
		sealed, err := content.FromReader(ctx, sealer, io.LimitReader(in, size))
		if err != nil {
			return err
		}
		name := strconv.Itoa(len(r.Merged))
		r.Merged = append(r.Merged, BytePath(tried[i].path))
		return m.s.addText(texts, root, name, content.Of(sealed))
	})
	if err != nil || len(r.Merged) == 0 {
		return err
	}
	id, err := tree.Seal(ctx, m.s.src, sealer, texts)
	if err != nil {
		return err
	}
	r.Texts = id.String()
	if err := m.s.cas.Commit(); err != nil {
		return err
	}
	return m.loadTexts(*r)
}

func (s *Store) addText(texts *tree.State, root *tree.Inode, name string, text *content.Content) error {
	n := &tree.Inode{
		Ino: root.Ino + uint64(texts.Inodes), Mode: unix.S_IFREG | 0o600, Nlink: 1, Content: text,
		Links: []tree.Link{{Parent: root.Ino, Name: name}},
	}
	if err := texts.Put(s.src, 1, n); err != nil {
		return err
	}
	return root.Dir.Insert(s.src, 1, tree.Dirent{Name: name, Ino: n.Ino, Type: unix.S_IFREG})
}

// loadTexts reads the tree of merged files that a record names.
func (m *merging) loadTexts(r promoteRecord) error {
	if r.Texts == "" {
		return nil
	}
	id, err := cas.ParseHash(r.Texts)
	if err != nil {
		return err
	}
	texts, err := tree.Load(m.s.src, id)
	if err != nil {
		return err
	}
	m.now, m.texts = r.Now, make(map[string]*content.Content)
	for i, p := range r.Merged {
		n, err := texts.Resolve(m.s.src, strconv.Itoa(i))
		if err != nil {
			return fmt.Errorf("reading the merged %q: %w", p, err)
		}
		m.texts[string(p)] = n.Content
	}
	return nil
}
