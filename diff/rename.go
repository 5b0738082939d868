package diff

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// The numbers of git's diffcore.h and diffcore-rename.c.
const (
	maxScore         = 60000
	minScore         = maxScore / 2                     // 50 %
	minBasenameScore = minScore + (maxScore-minScore)/2 // 75 %
	renameLimit      = 1000                             // diff.renameLimit
	tooManyIdentical = 100                              // then any of them does
	candidates       = 4                                // sources that are kept for each addition
)

// joined is the status of a deletion that became a part of a rename.
const joined Status = 0

// renamer joins deletions to additions as git's diffcore_rename_extended does
// without copy detection and without rewrites: the steps, their order and the
// ties are git's, because they decide which of several equal files is the
// rename.
type renamer struct {
	ctx   context.Context
	src   *tree.Source
	files []File
	from  []int // indexes into files of the deletions left
	to    []int // of the additions left
	spans map[int]spanSet
	kept  int // spans in all
}

// findRenames returns files with the pairs that are renames joined.
func findRenames(ctx context.Context, src *tree.Source, files []File) ([]File, error) {
	r := &renamer{ctx: ctx, src: src, files: files, spans: make(map[int]spanSet)}
	for i, f := range files {
		switch f.Status {
		case Deleted:
			r.from = append(r.from, i)
		case Added:
			r.to = append(r.to, i)
		}
	}
	for _, step := range []func() error{r.exact, r.basenames, r.best} {
		if len(r.from) == 0 || len(r.to) == 0 {
			break
		}
		if err := step(); err != nil {
			return nil, err
		}
		r.from = slices.DeleteFunc(r.from, func(i int) bool { return files[i].Status == joined })
		r.to = slices.DeleteFunc(r.to, func(i int) bool { return files[i].Status == Renamed })
	}
	return slices.DeleteFunc(files, func(f File) bool { return f.Status == joined }), nil
}

// join makes an addition a rename of a deletion.
func (r *renamer) join(from, to, score int) {
	f, of := &r.files[to], &r.files[from]
	f.Status, f.Similarity, f.OldPath, f.Before = Renamed, score*100/maxScore, of.Path, of.Before
	of.Status = joined
}

func (r *renamer) base(i int) string { return path.Base(r.files[i].Path) }

// exact finds equal contents. Only files whose size occurs on both sides are
// hashed at all.
func (r *renamer) exact() error {
	sizes := make(map[int64]bool)
	for _, i := range r.to {
		sizes[Size(r.files[i].After)] = true
	}
	byID := make(map[string][]int)
	common := make(map[int64]bool)
	for _, i := range r.from {
		if n := Size(r.files[i].Before); sizes[n] {
			common[n] = true
			id, err := r.id(r.files[i].Before, i)
			if err != nil {
				return err
			}
			byID[id] = append(byID[id], i)
		}
	}
	for _, i := range r.to {
		if common[Size(r.files[i].After)] {
			id, err := r.id(r.files[i].After, i)
			if err != nil {
				return err
			}
			if from, ok := r.pickIdentical(byID[id], i); ok {
				r.join(from, i, maxScore)
			}
		}
	}
	return nil
}

// id identifies the bytes of a file. One that is too large to be read is equal to those
// that were stored as the same chunks, and to itself.
func (r *renamer) id(n *tree.Inode, i int) (string, error) {
	s, err := surveyOf(r.ctx, r.src, n, r.files[i].Path, maxText)
	if err == nil && s.id == "" {
		if m := n.Content.Sealed(); m != nil {
			return m.Key(), nil
		}
		return fmt.Sprintf("%p", n.Content), nil
	}
	return s.id, err
}

// pickIdentical chooses among sources of equal content: an equal base name
// wins, otherwise the first one left.
func (r *renamer) pickIdentical(sources []int, to int) (from int, ok bool) {
	seen := 0
	for _, i := range sources {
		if r.files[i].Status == joined || !sameKind(r.files[i].Before, r.files[to].After) {
			continue
		}
		if r.base(i) == r.base(to) {
			return i, true
		}
		if seen++; seen == 1 {
			from = i
		} else if seen > tooManyIdentical {
			break
		}
	}
	return from, seen > 0
}

// sameKind reports whether a rename may lead from one to the other: between
// regular files always, otherwise only with the same mode.
func sameKind(a, b *tree.Inode) bool {
	return (a.IsRegular() && b.IsRegular()) || gitMode(a) == gitMode(b)
}

// basenames joins files whose base name is unique among what is left on both
// sides and that are alike enough, so that a moved directory does not need
// every pair compared.
func (r *renamer) basenames() error {
	const many = -1
	unique := func(list []int) map[string]int {
		m := make(map[string]int)
		for _, i := range list {
			base := r.base(i)
			if _, ok := m[base]; ok {
				i = many
			}
			m[base] = i
		}
		return m
	}
	from, to := unique(r.from), unique(r.to)
	for _, i := range r.from {
		base := r.base(i)
		j, ok := to[base]
		if !ok || j == many || from[base] == many {
			continue
		}
		score, err := r.similarity(i, j, minBasenameScore)
		if err != nil {
			return err
		}
		if score >= minBasenameScore {
			r.join(i, j, score)
		}
	}
	return nil
}

// best compares every source left with every addition left, and joins from the most
// alike pair downwards, of those that are equally alike first those with equal base names.
func (r *renamer) best() error {
	if len(r.to)*len(r.from) > renameLimit*renameLimit {
		return nil
	}
	type pair struct{ from, to, score, base int }
	order := func(a, b pair) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.base, a.base))
	}
	var pairs []pair
	for _, j := range r.to {
		var kept []pair
		for _, i := range r.from {
			p := pair{from: i, to: j}
			var err error
			if p.score, err = r.similarity(i, j, minScore); err != nil {
				return err
			}
			if r.base(i) == r.base(j) {
				p.base = 1
			}
			if len(kept) < candidates {
				kept = append(kept, p)
				continue
			}
			// Its place decides which of equal ones comes first.
			worst := 0
			for k := range kept {
				if order(kept[k], kept[worst]) > 0 {
					worst = k
				}
			}
			if order(kept[worst], p) > 0 {
				kept[worst] = p
			}
		}
		pairs = append(pairs, kept...)
		delete(r.spans, j)
	}
	slices.SortStableFunc(pairs, order)
	for _, p := range pairs {
		if p.score >= minScore && r.files[p.from].Status != joined && r.files[p.to].Status != Renamed {
			r.join(p.from, p.to, p.score)
		}
	}
	return nil
}
