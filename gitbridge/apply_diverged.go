package gitbridge

import (
	"path"

	"github.com/amberfs/amberfs/gitbridge/gitdir"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/errs"
)

// resolution is what becomes of a path that a merge of git leaves in conflict.
func (r *hostRepositories) resolution(name string) gitdir.Resolution {
	switch c := r.in.ChoiceOf(name); {
	case c.Markers:
		return gitdir.WithMarkers
	case c.Leave:
		return gitdir.TakeOurs
	}
	return resolutions[r.in.Rule(name)]
}

// planMerges refuses a merge of a repository that is wanted if something is in its way, or if a conflict
// is not decided.
func (r *hostRepositories) planMerges(g *gitApply) error {
	for _, d := range g.plan.Diverged {
		for i, at := range d.Conflicts {
			d.Conflicts[i] = path.Join(g.work, at)
		}
	}

	if err := refusedMerge(g.plan); err != nil {
		return err
	}
	for _, at := range g.plan.Unresolved {
		r.out.Conflicts = append(r.out.Conflicts, path.Join(g.work, at))
	}

	return nil
}

// refusedMerge is the error of a plan whose merge is wanted, and has something in its way.
func refusedMerge(p *gitdir.Plan) error {
	branch, why := p.NotMerged()
	if why == "" {
		return nil
	}
	return errs.Fail(errs.Conflict, "%s is not merged: %s; nothing was changed", branch, why)
}

// planReplaced finds the files that the directory gets because its HEAD becomes the workspace's, or is
// merged: they are what the workspace has, or what the merge has made.
func (r *hostRepositories) planReplaced(g *gitApply) error {
	replaced, err := g.plan.Replaced(r.ctx, func(at string) bool { return r.in.Dir.IsBase(path.Join(g.work, at)) })
	if err != nil {
		return err
	}
	for _, name := range replaced {
		r.out.Take = append(r.out.Take, path.Join(g.work, name))
	}

	texts, err := g.plan.Texts(r.ctx)
	for name, text := range texts {
		if r.out.Merged == nil {
			r.out.Merged = make(map[string]hostdir.MergedFile)
		}
		r.out.Merged[path.Join(g.work, name)] = hostdir.MergedFile{Data: text.Data, Exec: text.Exec}
	}

	return err
}
