package control

import (
	"io"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/snapshot"
)

// The files that other code of this package names, too.
const (
	createName  = "create"
	restoreName = "restore"
	forkName    = "fork"
	callName    = "call"
	policyName  = "policy"
	latestName  = "latest"
	baseName    = "base"
)

// A file is a name of .snapshots with a meaning of its own. A new one is a row in files; what a
// line that is written to it asks for is in the row of the operation.
type file struct {
	name string
	kind uint32 // S_IFREG, S_IFLNK or S_IFDIR
	mode uint32
	look func(*Tree, *snapshot.Workspace, file, Request) (Entry, error)
}

const (
	typeFile = 0o100000
	typeLink = 0o120000
	typeDir  = 0o040000
)

// files are in the order in which they are listed.
var files []file

func init() { // they refer to functions that look into files
	answers := (*Tree).lookupAnswer
	files = []file{
		{createName, typeFile, 0o644, answers},
		{restoreName, typeFile, 0o644, answers},
		{forkName, typeFile, 0o644, answers},
		{"export", typeFile, 0o644, answers},
		{callName, typeFile, 0o600, answers},
		{"push", typeFile, 0o644, answers},
		{"list", typeFile, 0o444, (*Tree).lookupList},
		{"log", typeFile, 0o444, (*Tree).lookupLog},
		{"status", typeFile, 0o444, shows((*Tree).renderStatus)},
		{policyName, typeFile, 0o644, shows((*Tree).renderPolicy)},
		{"README", typeFile, 0o444, shows((*Tree).renderReadme)},
		{latestName, typeLink, 0o777, (*Tree).lookupLink},
		{"undo", typeLink, 0o777, (*Tree).lookupLink},
		{baseName, typeDir, 0o777, func(t *Tree, ws *snapshot.Workspace, f file, _ Request) (Entry, error) {
			return t.lookupSnapshot(ws, f.name)
		}},
	}
}

// shows is look for a short text that is rendered at each lookup.
func shows(render func(*Tree, io.Writer, *snapshot.Workspace) error) func(*Tree, *snapshot.Workspace, file, Request) (Entry, error) {
	return func(t *Tree, ws *snapshot.Workspace, f file, _ Request) (Entry, error) {
		return t.show(ws, f, func(w io.Writer) error { return render(t, w, ws) })
	}
}

func findFile(name string) (file, bool) {
	i := slices.IndexFunc(files, func(f file) bool { return f.name == name })
	if i < 0 {
		return file{}, false
	}
	return files[i], true
}

func isCommand(name string) bool {
	f, ok := findFile(name)
	return ok && f.mode&0o200 != 0
}

// isShared reports whether users that may change the root directory may write to a file.
// The policy and call are for the owner only.
func isShared(name string) bool {
	return isCommand(name) && name != policyName && name != callName
}

// isCall reports whether a name is that of a caller's own call file.
func isCall(name string) bool {
	rest, ok := strings.CutPrefix(name, callName+".")
	return ok && rest != ""
}

// isScratch reports whether a file of this name may be made in .snapshots, to
// be renamed onto a control file: editors and programs that replace a file at
// once write to such a name first (create.tmp.1234, create~, .create.swp,
// sedAbC123).
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

// mayMake reports whether a private file may have a name.
func mayMake(name string) bool { return isCall(name) || isScratch(name) }

func parseRestore(name string) (snapshot string, ok bool) {
	snapshot, ok = strings.CutPrefix(name, restoreName+"@")
	return snapshot, ok && snapshot != ""
}
