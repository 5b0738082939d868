package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// gofiles is a program that has never heard of amberfs: it changes files in
// the directory it is given, keeps a snapshot and goes back to it, all with
// package os. Scripts run it as the command gofiles.
func gofiles() {
	if err := useFiles(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func useFiles(ws string) error {
	file := filepath.Join(ws, "notes.txt")
	control := func(name string) string { return filepath.Join(ws, ".snapshots", name) }
	if err := os.WriteFile(file, []byte("first\n"), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(control("create"), []byte("from-go the first state\n"), 0o644); err != nil {
		return err
	}
	var result struct {
		OK   bool
		Name string
	}
	last, err := os.ReadFile(control("create"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(last, &result); err != nil {
		return fmt.Errorf("%s: %w", last, err)
	}
	if !result.OK || result.Name != "from-go" {
		return fmt.Errorf("the result is %s", last)
	}
	if err := os.WriteFile(file, []byte("second, and longer\n"), 0o644); err != nil {
		return err
	}
	old, err := os.ReadFile(control("from-go/notes.txt"))
	if err != nil {
		return err
	}
	if string(old) != "first\n" {
		return fmt.Errorf("the snapshot has %q", old)
	}
	if err := os.Rename(control("restore"), control("restore@from-go")); err != nil {
		return err
	}
	now, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if string(now) != "first\n" {
		return fmt.Errorf("restored to %q", now)
	}
	if err := useFork(ws, control); err != nil {
		return err
	}
	entries, err := os.ReadDir(filepath.Join(ws, ".snapshots"))
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if list := strings.Join(names, " "); !strings.Contains(list, "from-go") {
		return fmt.Errorf(".snapshots lists %s", list)
	}
	return nil
}

// useFork works in a fork, ends it, and takes one file out of its last state.
func useFork(ws string, control func(string) string) error {
	fork := filepath.Join(ws, ".forks", "go")
	if err := os.Mkdir(fork, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(fork, "notes.txt"), []byte("forked\n"), 0o644); err != nil {
		return err
	}
	if err := os.Remove(fork); err != nil {
		return err
	}
	if err := os.WriteFile(control("restore"), []byte("go notes.txt\n"), 0o644); err != nil {
		return err
	}
	stat, err := os.ReadFile(control("stat@from-go"))
	if err != nil {
		return err
	}
	if string(stat) != "M\tnotes.txt\n" {
		return fmt.Errorf("changed since the snapshot: %q", stat)
	}
	if err := os.WriteFile(control("restore"), []byte("from-go\n"), 0o644); err != nil {
		return err
	}
	return os.Remove(control("go"))
}
