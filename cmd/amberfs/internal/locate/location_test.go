package locate

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/must"
)

const table = `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:5 / /proc rw - proc proc rw
40 22 0:50 / /home/ann/ws rw,nosuid,nodev shared:9 - fuse.amberfs /home/ann/my\040store rw,user_id=0
41 22 0:50 /.forks/try /sandbox/w rw,nosuid,nodev - fuse.amberfs /home/ann/my\040store rw,user_id=0
42 40 0:60 / /home/ann/ws/build rw - tmpfs tmpfs rw
43 22 0:50 /.forks/try/.forks/deep/src /src rw - fuse.amberfs /home/ann/my\040store rw,user_id=0
44 22 0:70 / /old rw - fuse.amberfs /a rw,user_id=0
45 22 0:71 / /old rw - fuse.amberfs /b rw,user_id=0
46 22 0:72 / /odd\134040name rw - fuse.amberfs /c rw,user_id=0
`

func rows(t *testing.T) []Mount {
	t.Helper()
	m, err := mountinfo.GetMountsFromReader(strings.NewReader(table), nil)
	must.OK(t, err)
	return m
}

func TestFind(t *testing.T) {
	ms := rows(t)
	for _, c := range []struct {
		dir, store, snapshot, path string
		forks                      []string
	}{
		{"/home/ann/ws", "/home/ann/my store", "", "", nil},
		{"/home/ann/ws/a/b", "/home/ann/my store", "", "a/b", nil},
		{"/home/ann/ws/.snapshots/v1/a", "/home/ann/my store", "v1", "a", nil},
		{"/home/ann/ws/.snapshots", "/home/ann/my store", "", ".snapshots", nil},
		{"/home/ann/ws/.forks/try/a", "/home/ann/my store", "", "a", []string{"try"}},
		{"/sandbox/w/a", "/home/ann/my store", "", "a", []string{"try"}},
		{"/sandbox/w/.snapshots/v/x", "/home/ann/my store", "v", "x", []string{"try"}},
		{"/src/pkg", "/home/ann/my store", "", "src/pkg", []string{"try", "deep"}},
		{"/old/x", "/b", "", "x", nil},
		{`/odd\040name/x`, "/c", "", "x", nil},
	} {
		p, err := Find(ms, c.dir)
		if err != nil {
			t.Errorf("Find(%s): %v", c.dir, err)
			continue
		}
		if p.Store != c.store || p.Snapshot != c.snapshot || p.Path != c.path || !reflect.DeepEqual(p.Workspace, c.forks) {
			t.Errorf("Find(%s) = %+v", c.dir, p)
		}
	}
	for _, dir := range []string{"/", "/home/ann", "/home/ann/ws/build", "/home/ann/ws2", "/proc"} {
		if _, err := Find(ms, dir); !errors.Is(err, ErrNotMounted) {
			t.Errorf("Find(%s) = %v, want ErrNotMounted", dir, err)
		}
	}
}

// TestMountsOfOthers: every user may mount a file system of the type fuse.amberfs, with the store of any user as its
// source.
func TestMountsOfOthers(t *testing.T) {
	store := t.TempDir()
	var st unix.Stat_t
	must.OK(t, unix.Stat(store, &st))
	owner, none := int(st.Uid), "/nonexistent/store"
	namespace := idMap{{0, 1000, 1}, {1, 100000, 65536}}
	for _, c := range []struct {
		options, store string
		caller         int
		here           idMap
		want           bool
	}{
		{"rw,user_id=0,allow_other", store, 0, nil, true},
		{"rw,user_id=0,allow_other", store, 1000, nil, true},
		{"rw,user_id=1000", store, 1000, nil, true},
		{"rw,user_id=1000", store, 1001, nil, false},
		{"rw,user_id=1000,allow_other", none, 1001, nil, false},
		{"rw,user_id=" + strconv.Itoa(owner+1), store, 0, nil, false}, // the store belongs to another user
		{"rw,user_id=" + strconv.Itoa(owner), store, 0, nil, true},
		{"rw,user_id=1000", none, 0, nil, true}, // a sandbox that has the mount, but not the store
		{"rw", store, 0, nil, false},
		{"rw,user_id=x", store, 0, nil, false},
		{"rw,user_id=1000", none, 0, namespace, true},
		{"rw,user_id=100001", none, 2, namespace, true},
		{"rw,user_id=100001", none, 3, namespace, false},
	} {
		m := &mountinfo.Info{FSType: FSType, Source: c.store, VFSOptions: c.options}
		if got := trustedBy(m, c.caller, c.here); got != c.want {
			t.Errorf("%s by %d: %v", c.options, c.caller, got)
		}
	}

	m := &mountinfo.Info{FSType: FSType, Source: store, Root: "/", Mountpoint: "/evil", VFSOptions: "rw,user_id=" + strconv.Itoa(os.Geteuid()+1)}
	if os.Geteuid() == 0 {
		if _, err := Find([]Mount{m}, "/evil/a"); !errors.Is(err, ErrForeign) {
			t.Errorf("Find: %v", err)
		}
	}
	if got := StoreMounts([]Mount{m}, store); os.Geteuid() == 0 && len(got) != 0 {
		t.Errorf("OfStore: %v", got)
	}
	if (Location{Mount: m}).MayBeDaemon(uint32(os.Geteuid())) {
		t.Error("a daemon of another user")
	}
}

// TestOverlaid: IsOverlaid returns true only for a workspace below an overlay.
func TestOverlaid(t *testing.T) {
	point := t.TempDir()
	must.OK(t, os.MkdirAll(filepath.Join(point, "ws", ".snapshots"), 0o755))
	must.OK(t, os.MkdirAll(filepath.Join(point, "ws", "sub"), 0o755))
	must.OK(t, os.MkdirAll(filepath.Join(point, "other"), 0o755))
	must.OK(t, os.WriteFile(filepath.Join(point, "ws", ".snapshots", "call"), nil, 0o644))
	for kind, want := range map[string]bool{"overlay": true, "fuse.fuse-overlayfs": true, "ext4": false, FSType: false} {
		ms := []Mount{{Mountpoint: "/", FSType: "ext4"}, {Mountpoint: point, FSType: kind}}
		for dir, in := range map[string]bool{"ws": true, "ws/sub": true, "other": false} {
			if got := IsOverlaid(ms, filepath.Join(point, dir)); got != (want && in) {
				t.Errorf("%s on %s: %v", dir, kind, got)
			}
		}
	}
}

func TestRel(t *testing.T) {
	ms := rows(t)
	for _, c := range []struct{ dir, arg, want string }{
		{"/home/ann/ws/a", "b", "a/b"},
		{"/home/ann/ws/a", ".", "a"},
		{"/home/ann/ws/a", "..", ""},
		{"/home/ann/ws/a", "../c/", "c"},
		{"/home/ann/ws/a", "/home/ann/ws/z", "z"},
		{"/home/ann/ws/.snapshots/v1/a", "b", "a/b"},
		{"/sandbox/w/a", "b", "a/b"},
		{"/sandbox/w/a", "/home/ann/ws/.forks/try/q", "q"},
		{"/src/pkg", "x", "src/pkg/x"},
	} {
		p, err := Find(ms, c.dir)
		must.OK(t, err)
		got, err := p.Rel(c.arg)
		if err != nil || got != c.want {
			t.Errorf("in %s, Rel(%q) = %q, %v; want %q", c.dir, c.arg, got, err, c.want)
		}
	}
	p, err := Find(ms, "/home/ann/ws/a")
	must.OK(t, err)
	for _, arg := range []string{"../..", "/etc/passwd", "../.snapshots", "../.snapshots/v1", "../.snapshots/v1/d", "../.forks/try/x", "../build/x", "/old/x"} {
		if got, err := p.Rel(arg); !errors.Is(err, ErrOutside) {
			t.Errorf("Rel(%q) = %q, %v; want ErrOutside", arg, got, err)
		}
	}
}

func TestResolveStopsAtTheMount(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must.OK(t, err)
	point := filepath.Join(dir, "real", "ws")
	must.OK(t, os.MkdirAll(point, 0o755))
	must.OK(t, os.Symlink("real", filepath.Join(dir, "link")))
	// Resolve must not follow a link below the mount point, because that would send a request to the mount.
	must.OK(t, os.Symlink("/etc", filepath.Join(point, "inner")))
	ms := []Mount{{Mountpoint: "/", FSType: "ext4"}, {Mountpoint: point, FSType: FSType, Root: "/", Source: "/s"}}
	if got, want := Resolve(ms, filepath.Join(dir, "link/ws/inner/x")), filepath.Join(point, "inner/x"); got != want {
		t.Errorf("Resolve = %q, want %q", got, want)
	}
	if got, want := Resolve(ms, filepath.Join(dir, "link/none/x")), filepath.Join(dir, "real/none/x"); got != want {
		t.Errorf("Resolve = %q, want %q", got, want)
	}
}

func TestResolveLoop(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, os.Symlink("b", filepath.Join(dir, "a")))
	must.OK(t, os.Symlink("a", filepath.Join(dir, "b")))
	Resolve(nil, filepath.Join(dir, "a", "x")) // must return although the links form a loop
}

func TestUsingProcesses(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	var of, in unix.Stat_t
	must.OK(t, errors.Join(unix.Stat(dir, &of), unix.Stat(other, &in)))
	cmd := exec.Command("sleep", "100")
	cmd.Dir = dir
	must.OK(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	m := &mountinfo.Info{Major: int(unix.Major(of.Dev)), Minor: int(unix.Minor(of.Dev))}
	users := func(what []string, ino uint64) (pids []int) {
		for _, u := range UsingProcesses(m, what, func(i uint64) bool { return i == ino }) {
			if u.Command != "sleep" || u.Path != dir {
				t.Errorf("%+v", u)
			}
			pids = append(pids, u.PID)
		}
		return pids
	}
	for _, what := range [][]string{AllLinks, DirLinks} {
		if got := users(what, of.Ino); !slices.Equal(got, []int{cmd.Process.Pid}) {
			t.Errorf("a working directory: %v by %v", what, got)
		}
	}
	if got := append(users(RootLinks, of.Ino), users(AllLinks, in.Ino)...); got != nil {
		t.Errorf("no root, and another directory: %v", got)
	}
	m.Minor = -1
	if got := users(AllLinks, of.Ino); got != nil {
		t.Errorf("another file system: %v", got)
	}
}
