package service

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/snapshot"
)

// suggest adds to an error about a snapshot or a fork that there is not the name that
// is most like what the caller wrote.
func suggest(ws *snapshot.Workspace, args any, err error) error {
	var known []string
	var missing func(name string) error
	switch {
	case errors.Is(err, snapshot.ErrNotFound):
		for _, i := range ws.List() {
			known = append(known, i.Name)
		}
		missing = func(name string) error { _, err := ws.Find(name); return err }
	case errors.Is(err, snapshot.ErrNoFork):
		for _, f := range ws.Forks().List() {
			known = append(known, f.Name)
		}
		missing = func(name string) error { _, err := ws.Forks().Named(name); return err }
	default:
		return err
	}
	for _, name := range namesIn(reflect.ValueOf(args)) {
		if missing(name) == nil {
			continue
		}
		if like := Nearest(name, known); like != "" {
			e := *fail.Of(err)
			return e.WithHint("did you mean %q?", like)
		}
	}
	return err
}

// oneOf refuses a value that is none of those known, "" being any.
func oneOf(what, value string, known []string) error {
	if value == "" || slices.Contains(known, value) {
		return nil
	}
	e := fail.New(fail.Usage, "there is no %s %q", what, value)
	if like := Nearest(value, known); like != "" {
		return e.WithHint("did you mean %q?", like)
	}
	return e.WithHint("it is one of %s", strings.Join(known, ", "))
}

// namesIn are the arguments that name snapshots and forks.
func namesIn(args reflect.Value) []string {
	var out []string
	for _, field := range []string{"name", "names", "a", "b", "from", "snapshot", "fork"} {
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

// Nearest is the one of the names that are known which is most like a name, the first
// of several; "" if none is.
func Nearest(name string, known []string) string {
	best, like := min(maxDistance, len(name)/2)+1, ""
	for _, k := range known {
		if d := distance(name, k); d < best {
			best, like = d, k
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
