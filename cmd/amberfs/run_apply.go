package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/sandbox"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service/client"
)

const (
	applyAsk = "ask"
	applyYes = "yes"
)

// carryBack is the end of `run --apply`.
type carryBack struct {
	a   *app
	how string // a value of --apply
	dir string
	// unfinished: neither were all changes applied, nor did the user decline.
	unfinished bool
	left       bool // the user left some of them
	err        error
}

// run shows what changed and, if that is wanted, applies it. It is called
// while the daemon of c serves.
func (b *carryBack) run(c sandbox.Config) {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGHUP) // SIGINT may be for a pager
	defer stop()
	no := ""
	if c.Temp != "" {
		no = "discard"
	}
	var applied *gitbridge.Applied
	conn, err := client.Open(ctx, client.Target{Store: c.Store, Workspace: c.Fork, Command: b.a.command})
	if err == nil {
		defer conn.Close()
		applied, b.left, err = b.a.applyFrom(ctx, conn, "", b.dir, no, b.how == applyAsk, gitbridge.ApplyOptions{})
	}
	if err != nil && ctx.Err() != nil {
		err = fail.New(fail.Failed, "interrupted")
	}
	b.unfinished = b.left || err != nil
	if applied != nil && b.a.json {
		err = b.a.printJSON(applied)
	} else if applied != nil {
		b.a.say(strings.TrimSuffix(b.a.appliedLines(applied), "\n"))
	}
	b.err = err
}

func (b *carryBack) noteKept(c sandbox.Config) {
	what := "what " + c.Command[0] + " did"
	if b.left {
		what = "the rest of " + what
	}
	text := what + " is kept in " + c.Store + "\n\tapply it with:  " + applyLine(c.Store, c.Fork, b.dir, "")
	switch {
	case c.Temp != "":
		text += "\n\tremove it with: rm -r " + word(c.Temp)
	case c.Fork != "":
		text += "\n\tremove it with: amberfs run " + word(c.Store) + " -- amberfs fork --discard " + c.Fork
	}
	b.a.note("%s", text)
}

// applyLine is the command that applies a workspace of a store to a directory.
func applyLine(store, fork, dir, snapshot string) string {
	line := "amberfs run "
	if fork != "" {
		line += "--fork " + fork + " "
	}
	line += word(store) + " -- amberfs apply " + word(dir)
	return strings.TrimRight(line+" "+snapshot, " ")
}

// word quotes a path for a shell.
func word(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+:,@%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// noteRepository warns about a directory that shares a repository with others, or is
// only a part of one.
func (a *app) noteRepository(dir string) {
	if dir == "" {
		return
	}
	st, err := os.Lstat(filepath.Join(dir, ".git"))
	switch {
	case err == nil && !st.IsDir():
		a.note("%s is a linked worktree or a submodule: commits made in it go to the repository that its .git names, at once and without --apply", quote(dir))
	case err != nil:
		for above := filepath.Dir(dir); above != "/" && above != "."; above = filepath.Dir(above) {
			if _, err := os.Lstat(filepath.Join(above, ".git")); err == nil {
				a.note("%s is a part of the repository %s, and git does not work in it; for that use --from %s", quote(dir), quote(above), word(above))
				return
			}
		}
	}
}

// executed are paths of which git, a shell or an editor executes files.
var executed = regexp.MustCompile(
	`(^|/)(\.git/(hooks|config|config\.worktree)|\.vscode|\.idea|\.husky|\.devcontainer)(/|$)|(^|/)\.(envrc|gitattributes)$`)
