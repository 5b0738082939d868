package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
)

func TestAsMountHelper(t *testing.T) {
	root := newRoot(newApp(nil, &bytes.Buffer{}, &bytes.Buffer{}))
	for _, c := range []struct{ argv, want string }{
		{"amberfs list", "list"},
		{"amberfs mount a b", "mount a b"},
		{"amberfs /store /mnt -o rw,noauto", "mount /store /mnt -o rw,noauto"},
		{"amberfs store mnt -o ro", "mount store mnt -o ro"},
		{"amberfs frobnicate x", "frobnicate x"},
		{"amberfs help mount -o x", "help mount -o x"},
		{"/sbin/mount.fuse.amberfs /store /mnt", "mount /store /mnt"},
		{"/sbin/mount.fuse.amberfs /store /mnt -s -n -v -o rw -t fuse.amberfs", "mount /store /mnt -o rw"},
		{"/sbin/mount.amberfs -r /store /mnt", "mount -o ro /store /mnt"},
	} {
		got := mountHelperArgs(root, strings.Fields(c.argv))
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.argv, got, c.want)
		}
	}
}

// command runs a command line that needs no mount.
func command(argv ...string) (stdout, stderr string, status int) {
	var out, errs bytes.Buffer
	a := newApp(strings.NewReader(""), &out, &errs)
	status = runApp(a, append([]string{"amberfs"}, argv...))
	return out.String(), errs.String(), status
}

func TestUsageErrors(t *testing.T) {
	for _, argv := range [][]string{
		{"frobnicate"},
		{"list", "--no-such-flag"},
		{"list", "extra"},
		{"snapshot", "a", "--label", "novalue"},
		{"mount", "one"},
		{"mount", "-o", "bogus", "s", "m"},
		{"restore"},
		{"diff", "a", "b", "c"},
		{"run", "ls"},
		{"run", "a", "b", "--", "ls"},
	} {
		_, stderr, status := command(argv...)
		if status != 2 || stderr == "" {
			t.Errorf("%v: status %d, stderr %q", argv, status, stderr)
		}
	}
}

func TestNoMount(t *testing.T) {
	dir := t.TempDir()
	stdout, stderr, status := command("-C", dir, "list", "--json")
	if status != 3 || !strings.Contains(stderr, "not inside an amberfs mount") {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
	var f failureOutput
	if err := json.Unmarshal([]byte(stdout), &f); err != nil || f.OK || f.Kind != errs.NotExist || f.Exit != 3 {
		t.Errorf("JSON %q: %+v, %v", stdout, f, err)
	}
	if _, _, status := command("-C", dir+"/missing", "list"); status != 3 {
		t.Errorf("missing directory: status %d", status)
	}
	if _, stderr, status := command("umount", dir); status != 3 || !strings.Contains(stderr, "is not a mount") {
		t.Errorf("umount: status %d, stderr %q", status, stderr)
	}
}

func TestHelpAndVersion(t *testing.T) {
	for _, argv := range [][]string{{"--help"}, {"help"}, {"--version"}, {"version"}, {"help", "snapshot"}, {"exit-status"}, {}} {
		if stdout, stderr, status := command(argv...); status != 0 || stdout == "" || stderr != "" {
			t.Errorf("%v: status %d, stdout %q, stderr %q", argv, status, stdout, stderr)
		}
	}
	stdout, _, _ := command("--help")
	for _, c := range newRoot(newApp(nil, nil, nil)).Commands() {
		if !c.Hidden && (c.Short == "" || !strings.Contains(stdout, c.Name())) {
			t.Errorf("%s is missing in help", c.Name())
		}
	}
}

// TestOneCommand: if a command line names a command, the root has only this command. The command must be the same as
// in the root with all commands.
func TestOneCommand(t *testing.T) {
	for _, c := range newRoot(newApp(nil, nil, nil)).Commands() {
		for _, name := range append(c.Aliases, c.Name()) {
			a := newApp(nil, nil, nil)
			a.argv = []string{"-qC", "list", name}
			one, _, err := newRoot(a).Find([]string{name})
			if err != nil || one.UsageString() != c.UsageString() {
				t.Errorf("%s: %v\n%s", name, err, one.UsageString())
			}
		}
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"a/b c":       "a/b c",
		"naïve":       "naïve",
		"new\nline":   `"new\nline"`,
		"tab\t\"q\"":  `"tab\t\"q\""`,
		"back\\slash": `"back\\slash"`,
		"\x01\x7f":    `"\001\177"`,
	} {
		if got := quote(in); got != want {
			t.Errorf("quote(%q) = %s, want %s", in, got, want)
		}
	}
}
