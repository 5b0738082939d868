package diff

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/amberfs/amberfs/internal/turns"
)

// An edit replaces lines [a0,a1) of the old file by lines [b0,b1) of the new one.
type edit struct{ a0, a1, b0, b1 int }

// The limits of the search for the shortest edit, in steps.
const (
	// minRegionSteps limits the search in a region: it ends when the edit distance reaches
	// minRegionSteps or the square root of the number of diagonals, whichever is more. Then the region
	// is split at the furthest point that was reached.
	minRegionSteps = 256
	// maxFileSteps limits the comparison of a file, to about half a second, and maxDiffSteps all comparisons
	// of a diff. A file that would take more is too different, and is shown as replaced.
	maxFileSteps = 150_000_000
	maxDiffSteps = 10 * maxFileSteps
	// yieldSteps is the number of steps after which other tenants may have a turn.
	yieldSteps = 1_000_000
)

// errTooDifferent is the error for two texts whose comparison takes too many steps.
var errTooDifferent = errors.New("the texts are too different")

// A stepBudget counts the steps that the comparisons of a diff may still take.
type stepBudget struct {
	ctx       context.Context
	remaining int
}

// compareLines returns the edits from one file to another, in order. No edit touches the next one. The files are
// given as the numbers of their lines, see lineIDs.
func (e *stepBudget) compareLines(a, b []int32) ([]edit, error) {
	prefix := 0
	for prefix < len(a) && prefix < len(b) && a[prefix] == b[prefix] {
		prefix++
	}

	suffix := 0
	for suffix < len(a)-prefix && suffix < len(b)-prefix && a[len(a)-1-suffix] == b[len(b)-1-suffix] {
		suffix++
	}

	m := newMyers(e.ctx, a[:len(a)-suffix], b[:len(b)-suffix], prefix)
	limit := min(maxFileSteps, e.remaining)
	m.stepsLeft = limit
	m.markDifferences(0, len(m.a), 0, len(m.b))
	e.remaining -= limit - m.stepsLeft
	if err := e.ctx.Err(); err != nil {
		return nil, err
	}
	if m.stepsLeft <= 0 {
		return nil, errTooDifferent
	}

	return m.edits(len(a), len(b)), nil
}

// myers is the state of one comparison by "An O(ND) Difference Algorithm and Its Variations"
// (Eugene W. Myers, 1986), in the linear space variation of section 4b: a search from the beginning
// and one from the end meet in the middle, and each half is searched again.
type myers struct {
	a, b            []int32 // the lines that occur in both files, after the common prefix
	indexA          []int   // by index in a: the index of the line in its file
	indexB          []int
	changedA        []bool // by index in the file: whether the line differs
	changedB        []bool
	fwd, bwd        []int // furthest x of each diagonal, shifted by off
	off             int
	ctx             context.Context
	stepsLeft       int
	stepsSinceYield int // steps since other tenants could have a turn
}

// newMyers prepares the comparison of a and b. It leaves out the first prefix lines, which are equal, and all
// lines that occur on one side only, because they differ in any case.
func newMyers(ctx context.Context, a, b []int32, prefix int) *myers {
	m := &myers{ctx: ctx, changedA: make([]bool, len(a)), changedB: make([]bool, len(b))}
	m.a, m.indexA = sharedLines(a, b, prefix, m.changedA)
	m.b, m.indexB = sharedLines(b, a, prefix, m.changedB)
	m.off = len(m.b) + 1
	m.fwd = make([]int, len(m.a)+len(m.b)+3)
	m.bwd = make([]int, len(m.a)+len(m.b)+3)
	return m
}

// sharedLines compares lines[from:] with other[from:]. It returns the lines that both have, and their indexes
// in lines, and marks all further lines of lines[from:] as changed.
func sharedLines(lines, other []int32, from int, changed []bool) (kept []int32, index []int) {
	var has []bool
	if len(other) > from {
		has = make([]bool, slices.Max(other[from:])+1)
	}
	for _, l := range other[from:] {
		has[l] = true
	}

	for i, l := range lines[from:] {
		if int(l) < len(has) && has[l] {
			kept, index = append(kept, l), append(index, from+i)
		} else {
			changed[from+i] = true
		}
	}

	return kept, index
}

// markDifferences marks the lines that differ between a[a0:a1] and b[b0:b1].
func (m *myers) markDifferences(a0, a1, b0, b1 int) {
	for {
		for a0 < a1 && b0 < b1 && m.a[a0] == m.b[b0] {
			a0, b0 = a0+1, b0+1
		}
		for a0 < a1 && b0 < b1 && m.a[a1-1] == m.b[b1-1] {
			a1, b1 = a1-1, b1-1
		}

		if a0 == a1 || b0 == b1 || m.stepsLeft <= 0 {
			m.markChanged(a0, a1, b0, b1)
			return
		}

		x, y := m.split(a0, a1, b0, b1)
		if (x == a0 && y == b0) || (x == a1 && y == b1) {
			m.markChanged(a0, a1, b0, b1)
			return
		}

		m.markDifferences(a0, x, b0, y)
		a0, b0 = x, y
	}
}

// markChanged marks all lines of a[a0:a1] and b[b0:b1] as changed.
func (m *myers) markChanged(a0, a1, b0, b1 int) {
	for i := a0; i < a1; i++ {
		m.changedA[m.indexA[i]] = true
	}
	for i := b0; i < b1; i++ {
		m.changedB[m.indexB[i]] = true
	}
}

// split returns a point on a shortest path through the region or, if the search takes too many steps,
// on a good path.
func (m *myers) split(a0, a1, b0, b1 int) (x, y int) {
	a, b, fwd, bwd, off := m.a, m.b, m.fwd, m.bwd, m.off
	dmin, dmax := a0-b1, a1-b0
	fmid, bmid := a0-b0, a1-b1
	fmin, fmax, bmin, bmax := fmid, fmid, bmid, bmid
	odd := (fmid-bmid)&1 != 0
	limit := max(minRegionSteps, int(math.Sqrt(float64(dmax-dmin))))
	fwd[off+fmid], bwd[off+bmid] = a0, a1

	for cost := 1; ; cost++ {
		// Extend the range of diagonals while it is inside the region. At the region's border reduce
		// it, so that only diagonals of the right parity are visited.
		if fmin > dmin {
			fmin--
			fwd[off+fmin-1] = -1
		} else {
			fmin++
		}

		if fmax < dmax {
			fmax++
			fwd[off+fmax+1] = -1
		} else {
			fmax--
		}

		for d := fmax; d >= fmin; d -= 2 {
			x := fwd[off+d+1]
			if lower := fwd[off+d-1]; lower >= x {
				x = lower + 1
			}

			y := x - d
			for x < a1 && y < b1 && a[x] == b[y] {
				x, y = x+1, y+1
			}

			fwd[off+d] = x
			if odd && bmin <= d && d <= bmax && bwd[off+d] <= x {
				return x, y
			}
		}

		// Search backwards by one step.
		if bmin > dmin {
			bmin--
			bwd[off+bmin-1] = math.MaxInt
		} else {
			bmin++
		}

		if bmax < dmax {
			bmax++
			bwd[off+bmax+1] = math.MaxInt
		} else {
			bmax--
		}

		for d := bmax; d >= bmin; d -= 2 {
			x := bwd[off+d-1]
			if upper := bwd[off+d+1]; upper <= x {
				x = upper - 1
			}

			y := x - d
			for x > a0 && y > b0 && a[x-1] == b[y-1] {
				x, y = x-1, y-1
			}

			bwd[off+d] = x
			if !odd && fmin <= d && d <= fmax && x <= fwd[off+d] {
				return x, y
			}
		}

		m.countSteps(fmax - fmin + bmax - bmin)
		if cost >= limit || m.stepsLeft <= 0 {
			return m.furthestPoint(a0, a1, b0, b1, fmin, fmax, bmin, bmax)
		}
	}
}

// countSteps subtracts steps from those that are left. If the comparison is canceled, none are left.
func (m *myers) countSteps(steps int) {
	m.stepsLeft -= steps
	if m.stepsSinceYield += steps; m.stepsSinceYield >= yieldSteps {
		m.stepsSinceYield = 0
		if turns.Yield(m.ctx) != nil {
			m.stepsLeft = 0
		}
	}
}

// furthestPoint returns the point of the two searches that is furthest from the start of its search.
func (m *myers) furthestPoint(a0, a1, b0, b1, fmin, fmax, bmin, bmax int) (x, y int) {
	fbest, fx := -1, 0

	for d := fmax; d >= fmin; d -= 2 {
		x := min(m.fwd[m.off+d], a1)
		if x-d > b1 {
			x = b1 + d
		}
		if fbest < x+x-d {
			fbest, fx = x+x-d, x
		}
	}

	bbest, bx := math.MaxInt, 0

	for d := bmax; d >= bmin; d -= 2 {
		x := max(m.bwd[m.off+d], a0)
		if x-d < b0 {
			x = b0 + d
		}
		if x+x-d < bbest {
			bbest, bx = x+x-d, x
		}
	}
	if a1+b1-bbest < fbest-(a0+b0) {
		return fx, fbest - fx
	}

	return bx, bbest - bx
}

// edits returns the marked lines as edits of files with lenA and lenB lines.
func (m *myers) edits(lenA, lenB int) []edit {
	var out []edit
	for i, j := 0, 0; i < lenA || j < lenB; {
		e := edit{a0: i, b0: j}
		for i < len(m.changedA) && m.changedA[i] {
			i++
		}
		for j < len(m.changedB) && m.changedB[j] {
			j++
		}

		if i > e.a0 || j > e.b0 {
			e.a1, e.b1 = i, j
			out = append(out, e)
			continue
		}

		i, j = i+1, j+1
	}

	return out
}
