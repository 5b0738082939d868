package diff

import (
	"context"
	"path"
	"sort"

	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// The numbers of git's diffcore.h and diffcore-rename.c.
const (
	maxScore         = 60000
	minScore         = maxScore / 2                     // 50 %
	minBasenameScore = minScore + (maxScore-minScore)/2 // 75 %
	renameLimit      = 1000                             // diff.renameLimit
	candidates       = 4                                // kept for each new file
	tooManyIdentical = 100                              // then any of them does
)

// renamer joins deletions to additions as git's diffcore_rename_extended does
// without copy detection and without rewrites: the steps, their order and the
// ties are git's, because they decide which of several equal files is the
// rename.
type renamer struct {
	ctx   context.Context
	src   *tree.Source
	files []File
	from  []int         // indexes into files of the deletions not yet used
	to    []int         // of the additions
	match map[int]match // addition → its source
	used  map[int]bool  // deletions that became a rename
	spans map[int]spanSet
	kept  int // spans in all
}

type match struct {
	from  int
	score int
}

// findRenames returns files with the pairs that are renames joined.
func findRenames(ctx context.Context, src *tree.Source, files []File) ([]File, error) {
	r := &renamer{ctx: ctx, src: src, files: files,
		match: make(map[int]match), used: make(map[int]bool), spans: make(map[int]spanSet)}
	for i, f := range files {
		switch f.Status {
		case Deleted:
			r.from = append(r.from, i)
		case Added:
			r.to = append(r.to, i)
		}
	}
	if len(r.from) == 0 || len(r.to) == 0 {
		return files, nil
	}
	if err := r.exact(); err != nil {
		return nil, err
	}
	r.dropUsed()
	if err := r.basenames(); err != nil {
		return nil, err
	}
	r.dropUsed()
	if err := r.best(); err != nil {
		return nil, err
	}
	return r.result(), nil
}

func (r *renamer) dropUsed() {
	kept := r.from[:0]
	for _, i := range r.from {
		if !r.used[i] {
			kept = append(kept, i)
		}
	}
	r.from = kept
}

func (r *renamer) join(from, to, score int) {
	r.match[to] = match{from, score}
	r.used[from] = true
}

// exact finds equal contents. Only files whose size occurs on both sides are
// hashed at all.
func (r *renamer) exact() error {
	sizes := make(map[int64]bool)
	for _, i := range r.to {
		sizes[size(r.files[i].New)] = true
	}
	byID := make(map[string][]int)
	common := make(map[int64]bool)
	for _, i := range r.from {
		f := r.files[i]
		if err := turns.Yield(r.ctx); err != nil {
			return err
		}
		n := size(f.Old)
		if !sizes[n] {
			continue
		}
		common[n] = true
		id, err := blobID(r.src, f.Old, f.Path)
		if err != nil {
			return err
		}
		byID[id] = append(byID[id], i)
	}
	for _, i := range r.to {
		f := r.files[i]
		if err := turns.Yield(r.ctx); err != nil {
			return err
		}
		if !common[size(f.New)] {
			continue
		}
		id, err := blobID(r.src, f.New, f.Path)
		if err != nil {
			return err
		}
		if from, ok := r.pickIdentical(byID[id], i); ok {
			r.join(from, i, maxScore)
		}
	}
	return nil
}

// pickIdentical chooses among sources of equal content: an equal base name
// wins, otherwise the first one left.
func (r *renamer) pickIdentical(sources []int, to int) (int, bool) {
	best, bestScore, seen := 0, 0, 0
	for _, from := range sources {
		if !sameKind(r.files[from].Old, r.files[to].New) || r.used[from] {
			continue
		}
		score := 1
		if path.Base(r.files[from].Path) == path.Base(r.files[to].Path) {
			score = 2
		}
		if score > bestScore {
			best, bestScore = from, score
			if score == 2 {
				break
			}
		}
		if seen++; seen > tooManyIdentical {
			break
		}
	}
	return best, bestScore > 0
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
	unique := func(list []int, skip func(int) bool) map[string]int {
		m := make(map[string]int)
		for _, i := range list {
			if skip(i) {
				continue
			}
			base := path.Base(r.files[i].Path)
			if _, ok := m[base]; ok {
				m[base] = many
			} else {
				m[base] = i
			}
		}
		return m
	}
	from := unique(r.from, func(int) bool { return false })
	to := unique(r.to, r.matched)
	for _, i := range r.from {
		base := path.Base(r.files[i].Path)
		j, ok := to[base]
		if !ok || j == many || from[base] == many || r.matched(j) {
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

func (r *renamer) matched(to int) bool {
	_, ok := r.match[to]
	return ok
}

// candidate is a pair of the matrix. to < 0 marks an empty place.
type candidate struct {
	from, to, score int
	sameBase        bool
}

// worse orders candidates as git sorts its matrix: empty places last, then by
// score, then by equal base names.
func (a candidate) worse(b candidate) bool {
	switch {
	case a.to < 0:
		return b.to >= 0
	case b.to < 0:
		return false
	case a.score != b.score:
		return a.score < b.score
	}
	return !a.sameBase && b.sameBase
}

// best compares every source left with every addition left, keeps the best few
// sources of each addition, and joins from the most alike pair downwards.
func (r *renamer) best() error {
	var to []int
	for _, j := range r.to {
		if !r.matched(j) {
			to = append(to, j)
		}
	}
	if len(to) == 0 || len(r.from) == 0 || len(to)*len(r.from) > renameLimit*renameLimit {
		return nil
	}
	var matrix []candidate
	for _, j := range to {
		var row [candidates]candidate
		for k := range row {
			row[k].to = -1
		}
		for _, i := range r.from {
			score, err := r.similarity(i, j, minScore)
			if err != nil {
				return err
			}
			c := candidate{i, j, score, path.Base(r.files[i].Path) == path.Base(r.files[j].Path)}
			worst := 0
			for k := 1; k < len(row); k++ {
				if row[k].worse(row[worst]) {
					worst = k
				}
			}
			if row[worst].worse(c) {
				row[worst] = c
			}
		}
		delete(r.spans, j)
		matrix = append(matrix, row[:]...)
	}
	sort.SliceStable(matrix, func(i, j int) bool { return matrix[j].worse(matrix[i]) })
	for _, c := range matrix {
		if c.to < 0 || c.score < minScore {
			break
		}
		if !r.matched(c.to) && !r.used[c.from] {
			r.join(c.from, c.to, c.score)
		}
	}
	return nil
}

// result puts each rename where its new path stands and drops its deletion.
func (r *renamer) result() []File {
	out := r.files[:0:0]
	for i, f := range r.files {
		if r.used[i] {
			continue
		}
		if m, ok := r.match[i]; ok {
			f.Status = Renamed
			f.Similarity = m.score * 100 / maxScore
			f.OldPath = r.files[m.from].Path
			f.Old = r.files[m.from].Old
		}
		out = append(out, f)
	}
	return out
}
