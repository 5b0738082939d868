package gitbridge

import (
	"strings"
	"testing"

	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/tests/must"
)

// TestRenames has cases in which one side renames files, and the other side changes them.
func TestRenames(t *testing.T) {
	isolate(t)
	const mine = `sed -i 's/^1$/mine/' s/l; `
	for name, c := range map[string]struct {
		moves, changes string
		conflicts      string
		check, want    string
	}{
		"renamed": {moves: `mv s/l z`, changes: mine, check: `sed -n 1p z; git status -s`, want: "mine\n D s/l\n?? z"},
		"changed on both sides": {moves: `git mv s/l z; sed -i 's/^9$/9 there/' z`, changes: mine,
			check: `sed -n '1p;9p' z; git status -s`, want: "mine\n9 there\nRM s/l -> z"},
		"the change is committed": {moves: `mv s/l z`, changes: mine + `git commit -qam mine`,
			check: `sed -n 1p z; git log -1 --format=%s; git status -s`, want: "mine\nmine\n D s/l\n?? z"},
		"the rename is committed": {moves: `git mv s/l z; git commit -qm moved`, changes: mine,
			check: `sed -n 1p z; git log -1 --format=%s; git status -s`, want: "mine\nmoved\n M z"},
		"to another directory": {moves: `mv s "a new
one"`, changes: mine, check: `sed -n 1p a*/l; ls`, want: "mine\na\na new\none\nb\nc"},
		"permissions":           {moves: `chmod 600 s/l; mv s/l z`, changes: `chmod +x s/l`, check: `stat -c %a z`, want: "700"},
		"in conflict":           {moves: `mv s/l z; sed -i 's/^1$/there/' z`, changes: mine, conflicts: "s/l"},
		"removed":               {moves: `rm s/l; echo other >z`, changes: mine, conflicts: "s/l"},
		"several":               {moves: `mv s/l y; sed -i 's/^[3-5]$/y/' y; git mv s/m z`, changes: mine + `echo mine >>s/m`, check: `sed -n 1p y; tail -1 z`, want: "mine\nmine"},
		"after the same rename": {moves: `mv s/m y; mv s/l z`, changes: `mv s/m y; ` + mine, check: `sed -n 1p z; ls s y`, want: "mine\ny\n\ns:"},
		"an equal new file":     {moves: `mv s/l z`, changes: `cp s/l z; ` + mine, conflicts: "s/l"},
		"beside a new repository": {moves: `mv s/l z; git rm -q a; git init -q w; echo a >w/a`, changes: mine + `git rm -q a`,
			check: `sed -n 1p z; cat w/a; git status -s`, want: "mine\na\nD  a\n D s/l\n?? w/\n?? z"},
		"another is more like": {moves: `rm s/l; mv s/m z; sed -i '4d' z`, changes: mine, conflicts: "s/l"},
	} {
		for _, how := range []string{"apply", "refresh", "merge"} {
			for _, moved := range []string{"here", "there"} {
				t.Run(name+", "+how+", "+moved, func(t *testing.T) {
					h := &histories{t: t, rig: newRig(t, "dir", mk+`git config user.name a; git config user.email a@a; mkdir s; seq 1 9 >s/l; seq 2 10 >s/m; git add .; git commit -qm 2`)}
					to, from := h.rig.dir, h.rig.run
					if how == "refresh" {
						to, from = from, to
					}
					movesIn, changesIn := to, from
					if moved == "there" {
						movesIn, changesIn = from, to
					}
					h.rig.shell(movesIn, c.moves)
					h.rig.shell(changesIn, c.changes)

					var conflicts []string
					var err error
					if how == "apply" {
						_, conflicts, err = h.applied(hostdir.ApplyOptions{})
					} else {
						_, conflicts, err = h.merge(how, threeway.RefuseConflicts)
					}

					if strings.Join(conflicts, " ") != c.conflicts || (err != nil) != (c.conflicts != "") {
						t.Fatalf("%q %v, want %q", conflicts, err, c.conflicts)
					}
					if is := h.rig.shell(to, c.check); err == nil && is != c.want {
						t.Errorf("it has %q, want %q", is, c.want)
					}
				})
			}
		}
	}
}

// TestRenamedBack: a file that the base has under a new name gets its name back here, and is changed there.
func TestRenamedBack(t *testing.T) {
	isolate(t)
	for _, how := range []string{"apply", "merge"} {
		h := &histories{t: t, rig: newRig(t, "dir", mk+`seq 1 9 >s; git add s; git commit -qm 2; mv s moved`)}
		h.rig.shell(h.rig.run, `sed -i 's/^5$/there/' moved`)
		h.rig.shell(h.rig.dir, `mv moved s`)

		var err error
		if how == "apply" {
			_, _, err = h.applied(hostdir.ApplyOptions{})
		} else {
			_, _, err = h.merge(how, threeway.RefuseConflicts)
		}
		must.OK(t, err)
		h.rig.want(`sed -n 5p s; git status -s`, "there\n M s")
	}
}
