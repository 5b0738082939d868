package control

import (
	"slices"
	"strings"
)

// The files of .snapshots, in the order in which they are listed.
const (
	createName  = "create"
	restoreName = "restore"
	forkName    = "fork"
	exportName  = "export"
	callName    = "call"
	pushName    = "push"
	listName    = "list"
	logName     = "log"
	statusName  = "status"
	policyName  = "policy"
	readmeName  = "README"
	latestName  = "latest"
	undoName    = "undo"
	baseName    = "base"
)

// A file is a name of .snapshots with a meaning of its own.
type file struct {
	name string
	kind uint32 // S_IFREG, S_IFLNK or S_IFDIR
	mode uint32
}

const (
	typeFile = 0o100000
	typeLink = 0o120000
	typeDir  = 0o040000
)

var files = []file{
	{createName, typeFile, 0o644},
	{restoreName, typeFile, 0o644},
	{forkName, typeFile, 0o644},
	{exportName, typeFile, 0o644},
	{callName, typeFile, 0o600},
	{pushName, typeFile, 0o644},
	{listName, typeFile, 0o444},
	{logName, typeFile, 0o444},
	{statusName, typeFile, 0o444},
	{policyName, typeFile, 0o644},
	{readmeName, typeFile, 0o444},
	{latestName, typeLink, 0o777},
	{undoName, typeLink, 0o777},
	{baseName, typeDir, 0o777},
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

// isShared reports whether users that may change the root directory may write to a
// file: to all that run something but what speaks for the owner.
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

// A query is a generated file whose name has the snapshots that it is about.
type query struct {
	what string // diff, stat or info
	a, b string
}

func (q query) String() string {
	if q.b == "" {
		return q.what + "@" + q.a
	}
	return q.what + "@" + q.a + ".." + q.b
}

// parseQuery understands diff@A, diff@A..B, stat@A, stat@A..B and info@A.
func parseQuery(name string) (query, bool) {
	what, arg, ok := strings.Cut(name, "@")
	if !ok || arg == "" {
		return query{}, false
	}
	switch what {
	case "info":
		return query{what: what, a: arg}, true
	case "diff", "stat":
		a, b, two := strings.Cut(arg, "..")
		if a == "" || two && b == "" {
			return query{}, false
		}
		return query{what: what, a: a, b: b}, true
	}
	return query{}, false
}

func parseRestore(name string) (snapshot string, ok bool) {
	snapshot, ok = strings.CutPrefix(name, restoreName+"@")
	return snapshot, ok && snapshot != ""
}
