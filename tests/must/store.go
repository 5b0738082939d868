package must

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
)

// CopyStore copies the directory of an open store in the state in which a kill of the daemon would leave it. The index
// creates and removes files in the background. If a file was created, removed or changed during the copy, the copy is
// not the state at one point in time, and CopyStore copies again.
func CopyStore(t interface {
	Helper()
	Fatal(args ...any)
}, to, from string) {
	t.Helper()

	for range 100 {
		before, err := listFiles(from)
		OK(t, err)
		OK(t, os.MkdirAll(to, 0o700))
		out, err := exec.Command("cp", "-a", "--sparse=always", from+"/.", to).CombinedOutput()

		after, listErr := listFiles(from)
		OK(t, listErr)
		if err == nil && before == after {
			return
		}
		if before == after {
			t.Fatal(err, string(out))
		}
		OK(t, os.RemoveAll(to))
	}

	t.Fatal("the store changes all the time: " + from)
}

// listFiles returns a line for each file below dir, with its size and its time of change.
func listFiles(dir string) (string, error) {
	var lines strings.Builder

	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			fmt.Fprintln(&lines, name, info.Size(), info.ModTime().UnixNano())
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return listFiles(dir)
	}

	return lines.String(), err
}
