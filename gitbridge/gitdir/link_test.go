package gitdir

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// shell runs a script in a directory, without a user's configuration of git.
func shell(t *testing.T, dir, script string) string {
	t.Helper()
	cmd := exec.Command("sh", "-e", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=init.defaultBranch", "GIT_CONFIG_VALUE_0=main",
		"GIT_CONFIG_KEY_1=protocol.file.allow", "GIT_CONFIG_VALUE_1=always", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@a", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@a")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestLinks: a `.git` file is trusted only if the git directory that it names also names the working tree.
func TestLinks(t *testing.T) {
	dir := t.TempDir()
	shell(t, dir, `git init -q secret; cd secret; echo x >x; git add x; git commit -qm s; cd ..
git init -q main; cd main; echo x >x; git add x; git commit -qm m; git worktree add -q ../tree -b tree
git submodule --quiet add ../secret sub; cd ..
git init -q --separate-git-dir=apart.git apart; cd apart; echo x >x; git add x; git commit -qm a; cd ..
mkdir planted; echo "gitdir: $PWD/secret/.git" >planted/.git; cp secret/x planted/
mkdir link; ln -s ../secret/.git link/.git
mkdir of-tree; cp tree/.git of-tree/; mkdir of-sub; echo "gitdir: $PWD/main/.git/modules/sub" >of-sub/.git
mkdir of-apart; cp apart/.git of-apart/; cp -a apart/x of-apart/
git clone -q --bare secret bare; mkdir of-bare; echo "gitdir: $PWD/bare" >of-bare/.git
mkdir fake; mkdir fake/HEAD; echo "gitdir: $PWD/fake" >fake/.git`)
	for at, want := range map[string]string{
		"tree": "trusted", "main/sub": "trusted", "apart": "trusted",
		"planted": "not", "link": "not", "of-tree": "not", "of-sub": "not", "of-apart": "not", "of-bare": "not",
		"secret": "none", "fake": "none",
	} {
		l, got := LinkAt(filepath.Join(dir, at)), "none"
		if l != nil {
			got = map[bool]string{true: "trusted", false: "not"}[l.Trusted]
		}
		if got != want {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
	}
}

// TestPlainConfig: settings that have a secret, or that name a program or a file, are not copied.
func TestPlainConfig(t *testing.T) {
	got := PlainConfig(`
[core]
	repositoryformatversion = 1
	fsmonitor = touch PWNED
	worktree = ../x
	bare = false
[extensions]
	objectFormat = sha256
	worktreeConfig = true
[include]
	path = /etc/secret
[http]
	extraheader = Authorization: token SECRET
[remote "origin"]
	url = https://user:SECRET@example.com/r?private_token=SECRET
	fetch = +refs/heads/*:refs/remotes/origin/*
	uploadpack = touch PWNED
[remote "ssh"]
	url = git@example.com:r
[remote "both"]
	url = ssh://git:SECRET@example.com/r
[filter "x"]
	clean = touch PWNED
[user]
	name = A B ; C
`, "[core]\n\tsparseCheckout = true\n")
	want := `[core]
	repositoryformatversion = "1"
[extensions]
	objectformat = "sha256"
[remote "origin"]
	url = "https://example.com/r"
	fetch = "+refs/heads/*:refs/remotes/origin/*"
[remote "ssh"]
	url = "git@example.com:r"
[remote "both"]
	url = "ssh://git@example.com/r"
[user]
	name = "A B"
[core]
	sparsecheckout = "true"
`
	if got != want {
		t.Errorf("%s", got)
	}
}
