package control

import (
	"io"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
)

// The names of files that other code of this package uses.
const (
	createName  = "create"
	restoreName = "restore"
	forkName    = "fork"
	callName    = "call"
	listName    = "list"
	policyName  = "policy"
	latestName  = "latest"
	baseName    = "base"
)

// A file is a control file, a symlink or a directory with a fixed name in .snapshots. A line that is written
// to a control file calls the operation whose row names the file (service.Line).
type file struct {
	name   string
	kind   uint32 // S_IFREG, S_IFLNK or S_IFDIR
	mode   uint32
	lookup func(*Tree, *snapshot.Workspace, file, Request) (Entry, error)
}

const (
	typeFile = 0o100000
	typeLink = 0o120000
	typeDir  = 0o040000
)

// files are all files with fixed names, in the order of a listing.
var files []file

func init() { // a literal would be an initialization cycle: its functions use files
	answers := (*Tree).lookupAnswer
	files = []file{
		{createName, typeFile, 0o644, answers},
		{restoreName, typeFile, 0o644, answers},
		{forkName, typeFile, 0o644, answers},
		{"export", typeFile, 0o644, answers},
		{callName, typeFile, 0o600, answers},
		{"push", typeFile, 0o644, answers},
		{listName, typeFile, 0o444, func(t *Tree, ws *snapshot.Workspace, f file, r Request) (Entry, error) {
			return t.renderer.lookupList(ws, f, r)
		}},
		{"log", typeFile, 0o444, func(t *Tree, ws *snapshot.Workspace, f file, _ Request) (Entry, error) {
			return t.logs.lookup(ws, f.name), nil
		}},
		{"status", typeFile, 0o444, textLookup(renderStatus)},
		{policyName, typeFile, 0o644, textLookup(renderPolicy)},
		{"README", typeFile, 0o444, textLookup(renderReadme)},
		{latestName, typeLink, 0o777, (*Tree).lookupLink},
		{"undo", typeLink, 0o777, (*Tree).lookupLink},
		{baseName, typeDir, 0o777, func(t *Tree, ws *snapshot.Workspace, f file, _ Request) (Entry, error) {
			return t.lookupSnapshot(ws, f.name)
		}},
	}
}

// textLookup returns the lookup function of a file with a short text that is rendered at each lookup.
func textLookup(render func(*service.Service, io.Writer, *snapshot.Workspace) error) func(*Tree, *snapshot.Workspace, file, Request) (Entry, error) {
	return func(t *Tree, ws *snapshot.Workspace, f file, _ Request) (Entry, error) {
		return t.cache.publishText(ws, f, func(w io.Writer) error { return render(t.renderer.service, w, ws) })
	}
}

func findFile(name string) (file, bool) {
	i := slices.IndexFunc(files, func(f file) bool { return f.name == name })
	if i < 0 {
		return file{}, false
	}
	return files[i], true
}

// isCommand reports whether a file takes commands.
func isCommand(name string) bool {
	f, ok := findFile(name)
	return ok && f.mode&0o200 != 0
}

// isShared reports whether all users that may write to the root directory may write to a file. Only the
// owner may write to policy and call.
func isShared(name string) bool {
	return isCommand(name) && name != policyName && name != callName
}

// isCall reports whether name is the name of a call file, call.ANYTHING.
func isCall(name string) bool {
	rest, ok := strings.CutPrefix(name, callName+".")
	return ok && rest != ""
}

// isScratch reports whether name is the name of a scratch file, which is renamed onto a control file.
// Editors, and programs that replace a file atomically, write to such names first: create.tmp.1234,
// create~, .create.swp, sedAbC123.
func isScratch(name string) bool {
	if isCall(name) {
		return false
	}

	for _, f := range files {
		if !isCommand(f.name) {
			continue
		}
		rest, ok := strings.CutPrefix(strings.TrimPrefix(name, "."), f.name)
		if ok && (strings.HasPrefix(rest, ".") && len(rest) > 1 || rest == "~") {
			return true
		}
	}

	rest, ok := strings.CutPrefix(name, "sed")
	return ok && len(rest) == 6
}

// isPrivateName reports whether name is the name of a private file.
func isPrivateName(name string) bool { return isCall(name) || isScratch(name) }

// parseRestore returns the snapshot in a name restore@SNAPSHOT.
func parseRestore(name string) (snapshot string, ok bool) {
	snapshot, ok = strings.CutPrefix(name, restoreName+"@")
	return snapshot, ok && snapshot != ""
}
