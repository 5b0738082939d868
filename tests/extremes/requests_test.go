package extremes_test

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/tests/must"
)

var paths = []string{"holes", "5GiB", "extents", "newlines", "line", "names", "."}

// requests are the arguments to make of each operation, by its name.
func requests() map[string][]map[string]any {
	type args = map[string]any
	out := make(map[string][]map[string]any)
	add := func(op string, all ...args) { out[op] = append(out[op], all...) }
	for _, op := range []string{"list", "forks", "actors", "policy", "status", "du", "remotes", "image"} {
		add(op, args{})
	}
	pairs := []args{{"a": "empty", "b": "first"}, {"a": "first", "b": "second"}, {"a": "second", "b": "empty"}, {"a": "empty"}}
	for _, p := range pairs {
		add("changes", p)
		for _, format := range []string{"patch", "stat", "name-status"} {
			add("diff", args{"a": p["a"], "b": p["b"], "format": format, "width": 1 << 40}, args{"a": p["a"], "b": p["b"], "format": format, "binary": true})
		}
	}
	add("summaries", args{"names": []string{"first", "second"}})
	add("show", args{"name": "second"})
	for _, path := range paths {
		add("blame", args{"path": path})
		add("history", args{"path": path, "all": true})
		add("size", args{"name": "first", "path": path}, args{"path": path})
		add("file", args{"path": path, "limit": 1 << 40}, args{"path": path, "offset": 1 << 60, "limit": 1000})
		add("hunks", args{"a": "first", "b": "second", "path": path}, args{"a": "empty", "path": path, "lines": 1 << 30})
		add("diff", args{"a": "first", "b": "second", "paths": []string{path}})
		add("revert", args{"name": "first", "path": path})
		add("restore-hunk", args{"name": "first", "path": path, "id": "0000000000000000"})
		add("conflict", args{"fork": "inner", "path": path})
	}
	add("restore", args{"name": "first", "dry_run": true}, args{"name": "first"}, args{"name": "second"})
	add("undo-by", args{"by": "unknown", "dry_run": true}, args{"by": "root", "dry_run": true})
	add("undo-op", args{"number": 1, "dry_run": true}, args{"number": 1, "theirs": true})
	add("merge", args{"fork": "inner", "dry_run": true})
	add("compact", args{"names": []string{"first", "second"}, "name": "both"}) // at last: it deletes them
	add("events", args{"limit": 10000})
	add("export", args{"name": "second"})
	add("snapshot", args{"name": "third"})
	add("rename", args{"from": "third", "to": "fourth"})
	add("pin", args{"names": []string{"empty"}, "pinned": true})
	add("fork", args{"name": "other", "snapshot": "second"})
	add("claim", args{"label": "other"})
	add("rename-fork", args{"from": "other", "to": "another"})
	add("delete-fork", args{"name": "another"})
	add("remove", args{"names": []string{"fourth"}})
	add("actor", args{"name": "somebody"})
	add("set-policy", args{"patch": args{}})
	add("exported", args{"name": "second", "repo": "/r", "ref": "r", "commit": strings.Repeat("0", 40)})
	add("push", args{"snapshots": []string{"second"}})
	add("pull", args{"remote": "none", "snapshots": []string{"second"}})
	add("handoff", args{"remote": "none"}, args{"times": 1 << 30})
	add("handoff-back", args{}, args{"id": "none", "done": true})
	add("freeze", args{"for": "1s"})
	add("thaw", args{})
	add("changed", args{}, args{"since": "second"})
	add("ops", args{}, args{"limit": 1 << 30})
	add("gc", args{})
	add("verify", args{})
	add("forget", args{"paths": []string{"."}}, args{"match": []string{"a*"}, "dry_run": true}, args{"content": "AAAAAAAAAAAAAAAAAAAAAA==", "dry_run": true})
	add("verify-forgotten", args{})
	return out
}

// apart are operations that only the socket has, with the query or body of a request.
var apart = map[string]string{"tar": "name=second", "layer": "name=second", "objects": `{"hashes":[]}`,
	"undone-apply": `{"number":1}`, "record-apply": "number=1"}

// TestEveryOperationIsTried: an operation that is added is added here.
func TestEveryOperationIsTried(t *testing.T) {
	b, err := os.ReadFile("../../docs/api/openapi.yaml")
	must.OK(t, err)
	tried := requests()
	ops := map[string]bool{"umount": true} // by the harness
	for op, all := range tried {
		for _, args := range all {
			request := maps.Clone(args)
			request["op"] = op
			text, err := json.Marshal(request)
			must.OK(t, err)
			if _, err := service.ParseCall(text); err != nil {
				t.Error(err)
			}
		}
	}
	for _, c := range slices.Concat(commands, ofDirectory, ofRuns) {
		for _, op := range strings.Fields(c.ops) {
			ops[op] = true
		}
	}
	for _, m := range regexp.MustCompile(`operationId: (?:get-)?([a-z-]+)`).FindAllStringSubmatch(string(b), -1) {
		if _, ok := apart[m[1]]; !ok && tried[m[1]] == nil && !ops[m[1]] {
			t.Errorf("%s is not tried", m[1])
		}
	}
}

// order puts what reads before what changes.
func order(tried map[string][]map[string]any) []string {
	var reads, changes []string
	for op := range tried {
		switch op {
		case "compact", "snapshot", "rename", "pin", "fork", "claim", "rename-fork", "delete-fork", "remove", "restore", "revert", "export", "gc", "verify":
		default:
			reads = append(reads, op)
		}
	}
	slices.Sort(reads)
	changes = []string{"export", "snapshot", "rename", "pin", "fork", "claim", "rename-fork", "delete-fork", "remove", "revert", "restore", "gc", "verify"}
	return append(reads, changes...)
}
