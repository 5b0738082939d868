package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/tests/arch"
)

const module = "github.com/amberfs/amberfs/"

// results returns why each test was skipped that no run passed, and what each
// test printed that failed in some run.
func results(files []string) (skipped, failed map[string]string, err error) {
	skipped, failed = map[string]string{}, map[string]string{}
	passed := map[string]bool{}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return nil, nil, err
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			var e event
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", file, err)
			}
			name := strings.TrimPrefix(e.name(), module)
			switch e.Action {
			case "pass":
				passed[name] = true
			case "skip":
				skipped[name] = e.Output
			case "fail":
				failed[name] += e.Output
			}
		}
		if err := lines.Err(); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	maps.DeleteFunc(skipped, func(name, _ string) bool { return passed[name] })
	return skipped, failed, nil
}

// otherTarget is the reason of tests that are no part of make test.
var otherTarget = regexp.MustCompile(`^(make test-\w+) runs it$`)

// summary prints one line a test that was skipped, and what was printed by those that
// failed. With strict, a skipped test that tests/arch does not list is an error.
func summary(out io.Writer, skipped, failed map[string]string, strict bool) error {
	targets := map[string]int{}
	maps.DeleteFunc(skipped, func(_, reason string) bool {
		match := otherTarget.FindStringSubmatch(reason)
		if match != nil {
			targets[match[1]]++
		}
		return match != nil
	})
	fmt.Fprintf(out, "\n%d tests were skipped\n", len(skipped))
	var unlisted []string
	for _, name := range slices.Sorted(maps.Keys(skipped)) {
		fmt.Fprintf(out, "skipped: %s: %s\n", name, skipped[name])
		if !listed(name) {
			unlisted = append(unlisted, name)
		}
	}
	for _, target := range slices.Sorted(maps.Keys(targets)) {
		fmt.Fprintf(out, "%d other tests run in %s\n", targets[target], target)
	}
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		fmt.Fprintf(out, "failed: %s\n%s", name, failed[name])
	}
	if strict && len(unlisted) > 0 {
		return fmt.Errorf("skipped, and not in tests/arch/skips.go: %s", strings.Join(unlisted, ", "))
	}
	return nil
}

func listed(name string) bool {
	for pattern := range arch.MaySkip {
		if ok, _ := path.Match(pattern, name); ok {
			return true
		}
	}
	return false
}
