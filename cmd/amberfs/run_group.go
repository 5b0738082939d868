package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/runs"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/sandbox"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// addOtherDirs adds the directories of --also: DIR, or DIR:ro for a directory that is only read.
func (k *keptRun) addOtherDirs(dirs []string) error {
	for _, given := range dirs {
		name, readOnly := strings.CutSuffix(given, ":ro")
		dir, err := k.a.absPath(name)
		if err != nil {
			return err
		}

		if readOnly {
			k.readOnlyDirs = append(k.readOnlyDirs, dir)
		} else {
			k.otherRuns = append(k.otherRuns, &keptRun{a: k.a, dir: dir, task: k.task.forOtherDir()})
		}
	}

	return nil
}

// addMembers adds the other directories of a run that is resumed.
func (k *keptRun) addMembers(ctx context.Context) error {
	if !runs.HasGroups(k.store) {
		return nil
	}
	if k.name == "" {
		if err := withRun(ctx, k.a, k.dir, "", func(r *runs.Run, _ *client.Client) error { k.name = r.Name; return nil }); err != nil {
			return err
		}
	}

	members, err := runs.GroupMembers(k.store, k.name)
	for _, m := range members {
		if m.Name == "" {
			k.readOnlyDirs = append(k.readOnlyDirs, m.Dir)
		} else {
			k.otherRuns = append(k.otherRuns, &keptRun{a: k.a, dir: m.Dir, name: m.Name, resume: true, conflictSides: k.conflictSides, task: k.task.forOtherDir()})
		}
	}

	return err
}

// checkNotNested fails if one directory of the run is in another one: the mount of the outer directory would hide the
// inner one.
func (k *keptRun) checkNotNested() error {
	mounts, err := locate.Mounts()
	if err != nil {
		return err
	}

	var dirs []string
	for _, m := range k.dirRuns() {
		dirs = append(dirs, m.dir)
	}
	for i, dir := range k.readOnlyDirs {
		k.readOnlyDirs[i] = locate.Resolve(mounts, dir)
		dirs = append(dirs, k.readOnlyDirs[i])
	}

	for i, dir := range dirs {
		for n, above := range dirs {
			if i != n && naming.IsUnder(dir, above) {
				return errs.Fail(errs.Invalid, "%s is in %s, which is in the run", dir, above).WithHint("leave one of them out")
			}
		}
	}

	return nil
}

// otherDirs returns the other directories of the run, in the order of k.otherRuns and k.readOnlyDirs.
func (k *keptRun) otherDirs() (out []sandbox.OtherDir) {
	for _, m := range k.otherRuns {
		out = append(out, sandbox.OtherDir{Store: m.store, Dir: m.dir})
	}
	for _, dir := range k.readOnlyDirs {
		out = append(out, sandbox.OtherDir{Dir: dir})
	}
	return out
}

// forEach calls fn with the run of each directory, even after an error.
func (k *keptRun) forEach(fn func(*keptRun) error) error {
	var all error
	for _, m := range k.dirRuns() {
		all = errors.Join(all, fn(m))
	}
	return all
}

// prepareForks calls prepareFork for all directories. The name of the run of another directory is the name of the
// first run, followed by the name of the directory. If one of the new runs cannot begin, prepareForks deletes those
// that it has made.
func (k *keptRun) prepareForks(ctx context.Context, c *sandbox.Config) error {
	err := k.prepareFork(ctx)
	if c.Fork = k.name; err != nil || len(c.OtherDirs) == 0 {
		return err
	}

	var members []runs.Member
	for i, m := range k.otherRuns {
		if m.name == "" {
			m.name = k.name + "." + runs.NamePrefix(m.dir)
		}
		if slices.ContainsFunc(members, func(o runs.Member) bool { return o.Name == m.name }) {
			m.name += "-2"
		}

		if err := m.prepareFork(ctx); err != nil {
			if !k.resume {
				k.otherRuns = k.otherRuns[:i]
				err = errors.Join(err, k.forEach(func(m *keptRun) error { return m.deleteFork(ctx) }))
			}
			return err
		}

		c.OtherDirs[i].Fork = m.name
		members = append(members, runs.Member{Dir: m.dir, Name: m.name})
	}
	for _, dir := range k.readOnlyDirs {
		members = append(members, runs.Member{Dir: dir})
	}

	return runs.SetGroupMembers(k.store, k.name, members)
}

// reportOtherDirs prints what the program changed in the other directories, if the option --report is given.
func (k *keptRun) reportOtherDirs(ctx context.Context) error {
	if !k.task.printsChanges {
		return nil
	}

	ctx = context.WithoutCancel(ctx)
	for _, m := range k.otherRuns {
		if err := reportChanges(ctx, k.a, m.location().InFork(m.name), "in "+quote(m.dir)+":\n"); err != nil {
			return err
		}
	}
	return nil
}

// makeTemporaryStores makes temporary stores of the other directories for a run that keeps nothing, and adds them to c.
func (k *keptRun) makeTemporaryStores(ctx context.Context, c *sandbox.Config) error {
	mounts, err := locate.Mounts()
	if err != nil {
		return err
	}

	for i, m := range k.otherRuns {
		m.dir, m.store = locate.Resolve(mounts, m.dir), fmt.Sprintf("%s-%d", c.Store, i+1)
		if m.forkOptions, m.hidden, err = k.restrictions.forDir(m.dir); err != nil {
			return err
		}
	}
	if err := errors.Join(k.restrictions.checkAllFound(), k.checkNotNested()); err != nil {
		return err
	}

	for _, m := range k.otherRuns {
		if m.forkOptions.Hide, m.hidden, err = findAndNoteHidden(ctx, k.a, m.dir, m.forkOptions.Hide, m.hidden, c.TempDir); err != nil {
			return err
		}

		cfg := daemon.Config{Store: m.store, Mountpoint: daemon.RunMountpoint(m.store), From: m.dir, Hidden: m.hidden, Exclude: []string{c.TempDir}, Version: versionText()}
		if _, _, err := makeStore(ctx, k.a, &cfg, mounts); err != nil {
			return err
		}
		noteSecrets(k.a, m.dir, m.hidden)
	}

	c.OtherDirs = k.otherDirs()
	return nil
}

// prepareOtherDirs calls task.prepare for the other directories of a run that keeps nothing.
func (k *keptRun) prepareOtherDirs(ctx context.Context) error {
	for _, m := range k.otherRuns {
		if err := m.task.prepare(ctx, m.a, m.location(), m.forkOptions); err != nil {
			return err
		}
	}
	return nil
}
