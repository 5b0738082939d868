package question

import "testing"

func TestExecutes(t *testing.T) {
	for path, want := range map[string]bool{
		".git/hooks/pre-commit": true, ".git/config": true, "sub/.git/hooks/x": true, ".envrc": true, "a/.envrc": true,
		".vscode/tasks.json": true, ".idea/workspace.xml": true, ".husky/pre-push": true, ".gitattributes": false,
		".git/index": false, ".git/objects/11/22": false, "src/main.go": false, ".envrc/x": false, "hooks/x": false,
		"node_modules/fast-uri/.gitattributes": false, "a/node_modules/b/.vscode/tasks.json": false, "node_modules/.envrc": false, "my_node_modules/.envrc": true,
	} {
		if got := runsByItself(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}
