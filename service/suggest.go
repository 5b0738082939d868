package service

import (
	"errors"
	"reflect"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/snapshot"
)

// suggest adds to an error about a snapshot that there is not the name that is
// most like what the caller wrote.
func suggest(ws *snapshot.Workspace, args any, err error) error {
	if !errors.Is(err, snapshot.ErrNotFound) {
		return err
	}
	for _, name := range namesIn(reflect.ValueOf(args)) {
		if _, ferr := ws.Find(name); ferr == nil {
			continue
		}
		if like := nearest(name, ws.List()); like != "" {
			e := *fail.Of(err)
			return e.WithHint("did you mean %q?", like)
		}
	}
	return err
}

// namesIn are the arguments that name snapshots.
func namesIn(args reflect.Value) []string {
	var out []string
	for _, field := range []string{"name", "names", "a", "b", "from", "snapshot"} {
		switch f := fieldNamed(args, field); {
		case !f.IsValid() || f.IsZero():
		case f.Kind() == reflect.String:
			out = append(out, f.String())
		case f.Type() == reflect.TypeFor[[]string]():
			out = append(out, f.Interface().([]string)...)
		}
	}
	return out
}

// maxDistance is how many letters a name may differ in to be suggested.
const maxDistance = 2

// nearest is the name most like one, the newest of several; "" if none is.
func nearest(name string, infos []snapshot.Info) string {
	best, like := min(maxDistance, len(name)/2)+1, ""
	for _, i := range infos {
		if d := distance(name, i.Name); d < best {
			best, like = d, i.Name
		}
	}
	return like
}

// distance is how many bytes must be put in, taken out or replaced to make b of a
// (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, before+1, row[j]+1)
		}
	}
	return row[len(b)]
}
