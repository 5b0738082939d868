// Package env reads environment variables. Its table Vars lists all variables that amberfs uses. The
// reference page is generated from the table, and reading a variable that is not in it panics.
package env

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
)

// A Var is one or more variables with the same purpose.
type Var struct {
	Names   []string
	Purpose string
}

// Vars lists all variables, also the variables that only libraries read: for S3, registries and
// temporary files.
var Vars = []Var{
	{[]string{"AMBERFS_PAGER", "PAGER"}, "the pager of `amberfs diff` on a terminal. Default: `less`"},
	{[]string{"VISUAL", "EDITOR"}, "the editor of the question of `amberfs apply`. Default: `vi`"},
	{[]string{"NO_COLOR", "TERM"}, "no colours if `NO_COLOR` is set or `TERM` is `dumb`"},
	{[]string{"XDG_CACHE_HOME"}, "the cache of remotes: `$XDG_CACHE_HOME/amberfs`. Default: `~/.cache`"},
	{[]string{"AMBERFS_RUNS"}, "the directory of the runs of `amberfs run`. Default: `$XDG_STATE_HOME/amberfs/runs`"},
	{[]string{"XDG_STATE_HOME"}, "runs, the log of hooks, received handoffs, and the remotes that you agreed to contact: `$XDG_STATE_HOME/amberfs`. Default: `~/.local/state`"},
	{[]string{"XDG_CONFIG_HOME"}, "`amberfs/age-identity.txt` and git's configuration. Default: `~/.config`"},
	{[]string{"CLAUDE_CONFIG_DIR"}, "Claude Code's sessions, for `amberfs handoff`. Default: `~/.claude`"},
	{[]string{"AMBERFS_AGE_IDENTITY"}, "the file with the key for an encrypted remote"},
	{[]string{"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"}, "credentials for S3"},
	{[]string{"AWS_REGION", "AWS_DEFAULT_REGION"}, "the region, if the URL has none"},
	{[]string{"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}, "the endpoint, if the URL has none"},
	{[]string{"AWS_CA_BUNDLE"}, "certificates of a private authority"},
	{[]string{"DOCKER_CONFIG"}, "the directory of `config.json` with the credentials for registries. Default: `~/.docker`"},
	{[]string{"REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR"}, "podman's credentials for registries. Default: `$XDG_RUNTIME_DIR/containers/auth.json`"},
	{[]string{"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"}, "author and committer of exported commits"},
	{[]string{"TMPDIR"}, "the directory for temporary stores of `amberfs run --discard`"},
}

// Get returns the value of a variable in Vars, or "".
func Get(name string) string {
	value, _ := Lookup(name)
	return value
}

// Lookup returns the value of a variable in Vars, and whether it is set.
func Lookup(name string) (string, bool) {
	if !slices.ContainsFunc(Vars, func(v Var) bool { return slices.Contains(v.Names, name) }) {
		panic("env: " + name + " is not in Vars")
	}
	return os.LookupEnv(name)
}

// StateDir returns the directory in which amberfs keeps state of the user, outside of any store.
func StateDir() (string, error) {
	if state := Get("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "amberfs"), nil
	}

	home, err := os.UserHomeDir()
	if err != nil {
		u, uerr := user.Current()
		if uerr != nil {
			return "", fmt.Errorf("cannot find your home directory: %w", uerr)
		}
		home = u.HomeDir
	}

	return filepath.Join(home, ".local/state/amberfs"), nil
}
