package must

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
)

// CopyStore copies the directory of an open store, as a kill would leave it. The index
// removes and makes files in the background: a copy during which any file came, went or
// changed has no single moment, and is made again.
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
