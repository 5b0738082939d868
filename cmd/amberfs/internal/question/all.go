package question

import (
	"context"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/amberfs/amberfs/internal/gitquote"
)

// Dir returns the directory to which the changes are applied.
func (q *Question) Dir() string { return q.dir }

// AllEmpty reports whether nothing changed in any directory.
func AllEmpty(questions []*Question) bool {
	return !slices.ContainsFunc(questions, func(q *Question) bool { return !q.Empty() })
}

// Ask asks one question about the changes to one or several directories. It stores the choices for each directory in the
// Question of that directory, whose Choose returns them. yes is false if no change is to be applied.
func Ask(ctx context.Context, questions ...*Question) (yes bool, err error) {
	defer func() {
		for _, q := range questions {
			q.HasUnapplied = q.HasUnapplied || !yes && !q.Empty()
		}
	}()

	var parts []string
	for _, q := range questions {
		if !q.Empty() {
			parts = append(parts, english.Plural(len(q.groups), "change", "changes")+" to "+gitquote.ReadableName(q.dir))
		}
	}

	first, words, discard := questions[0], []string{"yes", "no", "some", "differences"}, ""
	help := "y - apply all\nn - apply nothing now; the changes are kept\ns - choose files, and parts of files\nd - show the changes outside of .git\n"
	if first.Removable {
		words, discard = append(words, "discard"), "  discard"
		help += "discard - apply nothing, and remove the run. It can be had back for a day\n"
	}
	prompt := "apply " + strings.Join(parts, " and ") + "? [y]es  [n]ot now  [s]ome  [d]iff" + discard + "  [?]: "

	for {
		answer, err := first.askWord(ctx, prompt, words, help)
		switch {
		case err != nil || answer == "no":
			return false, err
		case answer == "discard":
			first.RemoveRun, err = first.confirmRemoval(ctx)
			return false, err
		case answer == "differences":
			err = forEachNonEmpty(questions, func(q *Question) error { return q.showDiff(ctx, q.groups...) })
		case answer == "some":
			return true, forEachNonEmpty(questions, func(q *Question) error { return q.chooseSome(ctx) })
		default:
			err = forEachNonEmpty(questions, func(q *Question) error { return q.resolveAll(ctx) })
			return err == nil, err
		}
		if err != nil {
			return false, err
		}
	}
}

// forEachNonEmpty calls fn for each Question that is not Empty. All questions read the answers from the terminal of
// the first one.
func forEachNonEmpty(questions []*Question, fn func(*Question) error) error {
	for _, q := range questions {
		if q.Empty() {
			continue
		}
		q.in = questions[0].in
		if err := fn(q); err != nil {
			return err
		}
	}
	return nil
}

// resolveAll asks, for each path and branch that both sides changed, which version to take.
func (q *Question) resolveAll(ctx context.Context) error {
	for _, g := range q.groups {
		if g.isConflict() || len(g.repo.Diverged) > 0 {
			if err := q.resolve(ctx, g); err != nil {
				return err
			}
		}
	}
	return nil
}
