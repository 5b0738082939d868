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
	maxIdentical     = 100                              // maximum number of equal files whose base names are compared
	maxCandidates    = 4                                // number of deletions that are considered for each addition
)

// statusJoined is the status of a deletion that became a part of a rename.
const statusJoined Status = 0

// A renamer joins deletions to additions as git's diffcore_rename_extended does without copy detection
// and without rewrites. The steps, their order and the treatment of ties are the same as in git,
// because they decide which of several equal files is the rename.
type renamer struct {
	ctx       context.Context
	src       *tree.Source
	files     []File
	deletions []int           // indexes into files of the deletions that are not joined
	additions []int           // indexes into files of the additions that are not joined
	spans     map[int]spanSet // fingerprints, by index into files
	spanCount int             // number of all spans that were computed
}

// findRenames replaces the pairs of a deletion and an addition in files that are renames.
func findRenames(ctx context.Context, src *tree.Source, files []File) ([]File, error) {
	r := &renamer{ctx: ctx, src: src, files: files, spans: make(map[int]spanSet)}
	for i, f := range files {
		switch f.Status {
		case Deleted:
			r.deletions = append(r.deletions, i)
		case Added:
			r.additions = append(r.additions, i)
		}
	}

	for _, step := range []func() error{r.joinEqual, r.joinBasenames, r.joinSimilar} {
		if len(r.deletions) == 0 || len(r.additions) == 0 {
			break
		}
		if err := step(); err != nil {
			return nil, err
		}

		r.deletions = slices.DeleteFunc(r.deletions, func(i int) bool { return files[i].Status == statusJoined })
		r.additions = slices.DeleteFunc(r.additions, func(i int) bool { return files[i].Status == Renamed })
	}

	return slices.DeleteFunc(files, func(f File) bool { return f.Status == statusJoined }), nil
}

// join turns the addition files[to] into a rename of the deletion files[from].
func (r *renamer) join(from, to, score int) {
	f, deleted := &r.files[to], &r.files[from]
	f.Status, f.Similarity, f.OldPath, f.Before = Renamed, score*100/maxScore, deleted.Path, deleted.Before
	deleted.Status = statusJoined
}

func (r *renamer) baseName(i int) string { return path.Base(r.files[i].Path) }

// joinEqual joins files with equal contents. Only files whose size occurs on both sides are hashed.
func (r *renamer) joinEqual() error {
	sizes := make(map[int64]bool)
	for _, i := range r.additions {
		sizes[Size(r.files[i].After)] = true
	}

	byID := make(map[string][]int)
	common := make(map[int64]bool)

	for _, i := range r.deletions {
		if n := Size(r.files[i].Before); sizes[n] {
			common[n] = true
			id, err := r.contentID(r.files[i].Before, i)
			if err != nil {
				return err
			}
			byID[id] = append(byID[id], i)
		}
	}

	for _, i := range r.additions {
		if common[Size(r.files[i].After)] {
			id, err := r.contentID(r.files[i].After, i)
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

// contentID returns a string that is equal for files with equal contents. Files that are too large to
// be read are equal if they were stored as the same chunks.
func (r *renamer) contentID(n *tree.Inode, i int) (string, error) {
	s, err := surveyOf(r.ctx, r.src, n, r.files[i].Path, maxTextSize)
	if err != nil || s.id != "" {
		return s.id, err
	}
	if m := n.Content.SealedMap(); m != nil {
		return m.Key(), nil
	}

	return fmt.Sprintf("%p", n.Content), nil
}

// pickIdentical chooses one of the deletions with the contents of an addition: one with an equal base
// name, else the first that is not joined.
func (r *renamer) pickIdentical(sources []int, to int) (from int, ok bool) {
	seen := 0

	for _, i := range sources {
		if r.files[i].Status == statusJoined || !sameKind(r.files[i].Before, r.files[to].After) {
			continue
		}
		if r.baseName(i) == r.baseName(to) {
			return i, true
		}

		if seen++; seen == 1 {
			from = i
		} else if seen > maxIdentical {
			break
		}
	}

	return from, seen > 0
}

// sameKind reports whether b can be a rename of a: both are regular files, or they have the same mode.
func sameKind(a, b *tree.Inode) bool {
	return (a.IsRegular() && b.IsRegular()) || gitMode(a) == gitMode(b)
}

// joinBasenames joins similar files with a base name that is unique among the deletions and among the
// additions, so that the files of a moved directory are not compared with each other.
func (r *renamer) joinBasenames() error {
	const many = -1
	unique := func(list []int) map[string]int {
		m := make(map[string]int)
		for _, i := range list {
			base := r.baseName(i)
			if _, ok := m[base]; ok {
				i = many
			}

			m[base] = i
		}

		return m
	}

	from, to := unique(r.deletions), unique(r.additions)
	for _, i := range r.deletions {
		base := r.baseName(i)
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

// joinSimilar compares every deletion with every addition, and joins the pairs in the order of their
// similarity. Of equally similar pairs, those with equal base names come first.
func (r *renamer) joinSimilar() error {
	if len(r.additions)*len(r.deletions) > renameLimit*renameLimit {
		return nil
	}
	type pair struct{ from, to, score, sameBase int }
	order := func(a, b pair) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.sameBase, a.sameBase))
	}
	var pairs []pair

	for _, j := range r.additions {
		var best []pair
		for _, i := range r.deletions {
			p := pair{from: i, to: j}
			var err error
			if p.score, err = r.similarity(i, j, minScore); err != nil {
				return err
			}
			if r.baseName(i) == r.baseName(j) {
				p.sameBase = 1
			}

			if len(best) < maxCandidates {
				best = append(best, p)
				continue
			}

			// The new pair gets the place of the worst one, as in git: the place decides which of
			// equal pairs comes first.
			worst := 0
			for k := range best {
				if order(best[k], best[worst]) > 0 {
					worst = k
				}
			}

			if order(best[worst], p) > 0 {
				best[worst] = p
			}
		}

		pairs = append(pairs, best...)
		delete(r.spans, j)
	}

	slices.SortStableFunc(pairs, order)

	for _, p := range pairs {
		if p.score >= minScore && r.files[p.from].Status != statusJoined && r.files[p.to].Status != Renamed {
			r.join(p.from, p.to, p.score)
		}
	}

	return nil
}
