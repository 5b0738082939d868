package gitbridge

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A repoKind is a kind of repository. make runs in the directory, and TOP is above it.
type repoKind struct {
	make string
	own  bool // the git directory lies in the directory, which can be a workspace with forks
	more []string
}

const (
	lines = `seq 1 9 >shared; mkdir sub1 sub2; echo 1 >sub1/f; echo 2 >sub2/f; `
	first = `echo r >r; echo d >d; ` + lines + `git add .; git commit -qm first; echo 2 >>r; echo 2 >>d; git commit -qam second; git branch other; git branch gone; git tag v1; `
	up    = `git remote add up $TOP/up; git fetch -q up; git config branch.main.remote up; git config branch.main.merge refs/heads/main; `
)

// upstream is the script that makes the repository from which all others fetch.
const upstream = `git init -q $TOP/up; cd $TOP/up; ` + first + `cd $TOP/dir; `

var repoKinds = map[string]repoKind{
	"loose":     {own: true, make: upstream + `git init -q; ` + first + up},
	"packed":    {own: true, make: upstream + `git init -q; ` + first + up + `git gc -q`},
	"clone":     {own: true, make: upstream + `cd $TOP; git clone -q -o up up dir; cd dir; git branch other; git branch gone`},
	"first":     {own: true, make: upstream + `git init -q; ` + lines + `echo r >r; echo d >d; git add .; git commit -qm first; ` + up},
	"unborn":    {own: true, make: upstream + `git init -q; ` + lines + up},
	"detached":  {own: true, make: upstream + `git init -q; ` + first + up + `git checkout -q --detach`},
	"dirty":     {own: true, make: upstream + `git init -q; ` + first + up + `echo dirty >>r; echo new >new; git add new; echo newer >>new; echo un >un; sed -i 's/^5$/five/' shared; git stash -q; echo again >>r`},
	"sha256":    {own: true, make: strings.ReplaceAll(upstream, "init -q", "init -q --object-format=sha256") + `git init -q --object-format=sha256; ` + first + up},
	"split":     {own: true, make: upstream + `git init -q; ` + first + up + `git config core.splitIndex true; git update-index --split-index`},
	"untracked": {own: true, make: upstream + `git init -q; ` + first + up + `git config index.version 4; git config core.untrackedCache true; git update-index --index-version 4 --untracked-cache; git status -s`},
	"sparse":    {own: true, make: upstream + `git init -q; ` + first + up + `git sparse-checkout set sub1`, more: []string{`git sparse-checkout set sub2`, `git sparse-checkout disable`, `git sparse-checkout add sub2`}},
	"merging": {own: true, make: upstream + `git init -q; ` + first + up + `git checkout -q -b side; sed -i 's/^5$/side/' shared; git commit -qam side; git checkout -q main; sed -i 's/^5$/main/' shared; git commit -qam main; git merge -q side`,
		more: []string{`git merge --abort`, `sed -i '/^[<=>]/d' shared; git commit -qam "merged $N"`}},
	"bisecting": {own: true, make: upstream + `git init -q; ` + first + up + `for i in 3 4 5 6; do echo $i >>r; git commit -qam $i; done; git bisect start -q; git bisect bad; git bisect good HEAD~4`,
		more: []string{`git bisect good`, `git bisect bad`, `git bisect reset`}},
	"inner": {own: true, make: upstream + `git init -q; ` + first + up + `echo inner >.gitignore; git add .; git commit -qm ignore; git worktree add -q inner -b inner`,
		more: []string{`cd inner; echo $N >$S-i$N; git add .; git commit -qm "$S inner $N"`, `git worktree remove --force inner`, `cd inner; echo $N >$S-u$N`, `git -C inner checkout -q --detach`}},
	"submodule": {own: true, make: upstream + `git init -q $TOP/lib; cd $TOP/lib; echo l >l; git add .; git commit -qm lib; cd $TOP/dir; git init -q; ` + first + up + `git submodule --quiet add $TOP/lib lib; git commit -qm sub`,
		more: []string{`cd lib; echo $N >$S-s$N; git add .; git commit -qm "$S lib $N"; cd ..; git add lib; git commit -qm "$S bumps $N"`, `cd lib; echo $N >$S-s$N; git add .; git commit -qm "$S lib $N"`,
			`git submodule --quiet update`, `cd $TOP/lib; echo $S$N >$S$N; git add .; git commit -qm "lib up $N"; cd -; cd lib; git pull -q`, `cd lib; echo $N >$S-w$N`}},
	"linked":    {make: upstream + `mkdir $TOP/m; cd $TOP/m; git init -q; ` + first + up + `rmdir $TOP/dir; git worktree add -q $TOP/dir -b feat; cd $TOP/dir; mkdir -p new; echo n >new/n; git add .; git commit -qm feat`},
	"bare":      {make: upstream + `cd $TOP; rmdir dir; git clone -q -o up --bare up p.git; git -C p.git worktree add -q ../dir -b feat`},
	"separate":  {make: upstream + `cd $TOP; rmdir dir; git init -q --separate-git-dir=far.git dir; cd dir; ` + first + up},
	"shallow":   {own: true, make: upstream + `cd $TOP; rmdir dir; git clone -q -o up --depth 1 file://$TOP/up dir; cd dir; git branch other`, more: []string{`git fetch -q --deepen=1`, `git fetch -q --unshallow`}},
	"mainlinks": {make: upstream + `mkdir $TOP/m; cd $TOP/m; rmdir $TOP/dir; git init -q $TOP/dir; cd $TOP/dir; ` + first + up + `rmdir $TOP/m; git worktree add -q $TOP/m other`, own: true},
}

// commands are the commands of a side of a history. $S is the name of the side, $N is a number, and $L is a line that
// only this side changes.
var commands = []string{
	// Commits on files of its own.
	`echo $N >$S$N; git add $S$N; git commit -qm "$S$N new"`,
	`echo $N >$S$N; git add $S$N; git commit -qm "$S$N new"`,
	`echo $N >>$S; git add $S; git commit -qm "$S$N changes"`,
	`echo $N >>$S; git commit -qam "$S$N all"`,
	`echo $N >>$S; git add $S; git commit -q --amend -m "$S$N amended"`,
	`git commit -q --amend -m "$S$N reworded"`,
	`mkdir -p $S-dir; echo $N >$S-dir/$N; git add .; git commit -qm "$S$N everything"`,
	`git commit -q --allow-empty -m "$S$N empty"`,
	// Commits on shared files.
	`sed -i "$L s/.*/$S$N/" shared; git commit -qam "$S$N shared"`,
	`sed -i "$L s/.*/$S$N/" shared; git commit -qam "$S$N shared"`,
	`sed -i "5 s/.*/$S$N/" shared; git commit -qam "$S$N both"`,
	`sed -i "$L s/.*/$S$N/" shared`,
	`echo $N >common; git add common; git commit -qm "$S$N common"`,
	`sed -i "5 s/.*/same/" shared; git commit -qam "$S$N the same"`,
	// Work that is not committed.
	`echo $N >$S-staged; git add $S-staged`,
	`echo $N >$S-staged; git add $S-staged; echo more >>$S-staged`,
	`echo $N >$S-un`,
	`echo $N >>$S`,
	`echo $N >>$S; git add -u`,
	`sed -i "1 s/.*/a$N/; 9 s/.*/b$N/" shared; printf 'y\nn\n' | git add -p shared`,
	`echo $N >$S-intent; git add -N $S-intent`,
	`git add -A`,
	`git reset -q`,
	`git rm -q --cached $S`,
	`git rm -q -f $S`,
	`git rm -q -r sub1`,
	`git mv $S $S-moved`,
	`git mv $S $S-moved; git commit -qm "$S$N moved"`,
	`git mv sub2 $S-sub; git commit -qm "$S$N moved a directory"`,
	`rm -f $S; mkdir $S; echo $N >$S/in; git add -A; git commit -qm "$S$N a directory"`,
	`chmod +x $S; git commit -qam "$S$N mode"`,
	`ln -sf $S $S-link; git add $S-link; git commit -qm "$S$N link"`,
	`git restore .`, `git checkout -q -- $S`, `git restore --staged .`, `git clean -qfd`,
	// Branches, tags, HEAD.
	`git branch $S-$N`, `git tag $S-$N`, `git tag -a -m "$S tag" $S-a$N`, `git tag -f v1`, `git tag -d v1`,
	`git checkout -q -b $S-work$N`, `git switch -q main`, `git switch -q other`, `git checkout -q --detach`, `git checkout -q HEAD~1`,
	`git branch -D gone`, `git branch -f other`, `git branch -f other HEAD~1`, `git branch -m other $S-renamed$N`, `git branch -m $S-trunk$N`,
	`git update-ref refs/notes/$S HEAD`, `git notes add -m "$S$N note"`,
	`git reset -q --soft HEAD~1`, `git reset -q --hard HEAD~1`, `git reset -q HEAD~1`, `git reset -q --hard HEAD~2`,
	`git reset -q --hard up/main`,
	`git checkout -q --orphan $S-orphan$N; git commit -qm "$S$N orphan"`,
	// Commits that are brought together.
	`git checkout -q -b $S-side$N; echo $N >$S-$N; git add $S-$N; git commit -qm "$S$N side"; git checkout -q -; git merge -q --no-edit --no-ff $S-side$N || git merge --abort`,
	`git checkout -q -b $S-pick$N; echo $N >$S-p$N; git add $S-p$N; git commit -qm "$S$N pick"; git checkout -q -; git cherry-pick $S-pick$N || git cherry-pick --abort`,
	`git checkout -q -b $S-re$N HEAD~1; echo $N >$S-r$N; git add $S-r$N; git commit -qm "$S$N rebased"; git rebase -q main || git rebase --abort`,
	`git revert --no-edit HEAD || git revert --abort`,
	`git commit -q --allow-empty -m "$S$N x"; git rebase -q HEAD~1`,
	`git rebase -q up/main || git rebase --abort`, `git merge -q --no-edit other || git merge --abort`,
	`git cherry-pick other || git cherry-pick --abort`,
	// Work in progress.
	`git checkout -q -b $S-c$N HEAD~1; sed -i "5 s/.*/c$N/" shared; git commit -qam "$S$N c"; git checkout -q -; sed -i "5 s/.*/o$N/" shared; git commit -qam "$S$N o"; git merge $S-c$N`,
	`git checkout -q -b $S-c$N HEAD~1; sed -i "5 s/.*/c$N/" shared; git commit -qam "$S$N c"; git checkout -q -; sed -i "5 s/.*/o$N/" shared; git commit -qam "$S$N o"; git rebase $S-c$N`,
	`git checkout -q -b $S-c$N HEAD~1; sed -i "5 s/.*/c$N/" shared; git commit -qam "$S$N c"; git checkout -q -; sed -i "5 s/.*/o$N/" shared; git commit -qam "$S$N o"; git cherry-pick $S-c$N`,
	`git merge --no-commit --no-ff other`,
	`git bisect start; git bisect bad; git bisect good HEAD~2`, `git bisect reset`,
	`git merge --abort; git rebase --abort; git cherry-pick --abort`,
	`git add -A; git -c core.editor=true merge --continue || git -c core.editor=true rebase --continue || git cherry-pick --continue`,
	`git stash -q`, `git stash -q -u`, `git stash -q; git stash pop -q`, `git stash pop -q`, `git stash drop -q`, `echo $N >>$S; git stash -q; echo $N >>$S; git stash -q`, `git stash -q --keep-index`,
	// Upstream.
	`git fetch -q up`, `git pull -q --no-edit up main || git merge --abort`, `git pull -q --rebase up main || git rebase --abort`,
	`(cd $TOP/up; echo $S$N >$S$N; git add .; git commit -qm "up$N"); git fetch -q up`,
	`(cd $TOP/up; sed -i "3 s/.*/u$N/" shared; git commit -qam "up$N"); git pull -q --no-edit up main || git merge --abort`,
	`(cd $TOP/up; git commit -q --amend -m "up$N amended"); git fetch -q up`,
	`git push -q up HEAD:refs/heads/$S-pushed$N`, `git remote update -p`, `git fetch -q up main:$S-fetched$N`,
	// Commands that make git rewrite its files.
	`git gc -q`, `git gc -q --prune=now`, `git pack-refs --all`, `git repack -adq`, `git repack -dq`, `git reflog expire --expire=now --all`,
	`git reflog expire --expire=now --all; git gc -q --prune=now`, `git prune`, `git commit-graph write --reachable`, `git multi-pack-index write`, `git repack -q --write-midx -d`,
	`git status -s`, `git update-index --refresh`, `git update-index --split-index`, `git update-index --no-split-index`, `git maintenance run --quiet --task=loose-objects`,
	`rm -f .git/index; git reset -q`,
	`git worktree add -q $TOP/$S-wt$N -b $S-wt$N`, `git worktree add -q $S-wt$N; git worktree remove -f $S-wt$N`, `git worktree prune`,
	`git config user.nick $S$N`, `git config core.commentChar '%'`,
	`git sparse-checkout set sub1; git status -s; git sparse-checkout disable`,
}

// renames are commands of some histories: one side renames the file that the other side changes.
var renames = []string{
	`mv shared $S-shared`, `git mv shared $S-shared`, `git mv shared $S-shared; git commit -qm "$S$N moved shared"`, `mkdir -p $S-to; mv shared $S-to; git add -A`,
	`mv sub1 $S-sub1`, `git mv sub1 $S-sub1; git commit -qm "$S$N moved sub1"`, `mv $S-shared shared`,
	`sed -i "$L s/.*/$S$N/" shared`, `sed -i "$L s/.*/$S$N/" $S-shared`, `sed -i "5 s/.*/$S$N/" $S-shared`, `chmod +x sub1/f`, `chmod +x shared; sed -i "$L s/.*/$S$N/" shared; git add shared`, `git rm -q -f shared`,
}

// script returns a random list of at most most commands for a side.
func script(rnd *rand.Rand, k repoKind, name string, most int, n *int) (all []string) {
	for range rnd.IntN(most + 1) {
		*n++
		from := commands
		if len(k.more) > 0 && rnd.IntN(3) == 0 {
			from = k.more
		}
		line := map[string]int{"r": 2, "d": 8}[name]
		c := from[rnd.IntN(len(from))]
		all = append(all, strings.NewReplacer("$S", name, "$N", fmt.Sprint(*n), "$L", fmt.Sprint(line)).Replace(c))
	}
	return all
}
