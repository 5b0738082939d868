package doctor

import "testing"

func TestKernel(t *testing.T) {
	for release, want := range map[string]Check{
		"5.10.0-8-amd64": {"kernel", Failed, "Linux 5.10.0-8-amd64; only from 5.11 on amberfs works" +
			"; only from 6.9 on a crash of the daemon is a pause for programs, and does not end the mount" +
			"; only from 6.16 on a restore of very many files drops all their names at once", "use Linux 5.11 or newer"},
		"6.8.0-45-generic": {"kernel", Warning, "Linux 6.8.0-45-generic" +
			"; only from 6.9 on a crash of the daemon is a pause for programs, and does not end the mount" +
			"; only from 6.16 on a restore of very many files drops all their names at once", "use Linux 6.9 or newer"},
		"6.12.1":   {"kernel", OK, "Linux 6.12.1; only from 6.16 on a restore of very many files drops all their names at once", ""},
		"6.16-rc1": {"kernel", OK, "Linux 6.16-rc1", ""},
		"7.0":      {"kernel", OK, "Linux 7.0", ""},
	} {
		if got := checkKernel(release); got != want {
			t.Errorf("%s: %+v", release, got)
		}
	}
}

func TestSpace(t *testing.T) {
	if c := checkSpace("free space", t.TempDir()+"/not/yet/made", "X"); c.State == Failed || c.Finding == "" {
		t.Errorf("a directory that is made later: %+v", c)
	}
	if c := checkSpace("free space", "/proc/1/nothing", "X"); c.State != Failed || c.Remedy == "" {
		t.Errorf("a directory that cannot be made: %+v", c)
	}
}
