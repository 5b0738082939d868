package mounts

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
)

func TestLayers(t *testing.T) {
	table := `1 0 8:1 / / rw - ext4 /dev/sda rw
2 1 0:50 / /mnt/a rw - fuse.amberfs amberfs rw
3 1 0:50 /.forks/c1 /srv/c1 rw - fuse.amberfs amberfs rw
4 1 0:51 / /mnt/a/over rw - tmpfs tmpfs rw
5 1 0:60 / /merged rw - overlay overlay rw,lowerdir=/mnt/a/l/X:/mnt/a/b\134:c:/usr,upperdir=/mnt/a/u,workdir=/mnt/a/x/../w\054y,index=on
6 1 0:61 / /m2 rw - overlay overlay ro,lowerdir+=/srv/c1/etc,lowerdir+=/mnt/a/over/z,datadir+=/mnt/a
7 1 0:62 / /m3 rw - overlay overlay ro,lowerdir=relative:/mnt/a/one::/mnt/ab:l/b\134:c:../../up
8 1 0:63 / /m4 rw - overlay overlay ro,lowerdir=/srv/c1
9 1 0:64 / /tmp rw - tmpfs tmpfs rw
10 1 0:65 / /m5 rw - overlay overlay ro,lowerdir=LINK/two
`
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/mnt/a/one", link); err != nil {
		t.Fatal(err)
	}
	all, err := mountinfo.GetMountsFromReader(strings.NewReader(strings.Replace(table, "LINK", link, 1)), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Layers{
		Paths:    []string{"l/X", "b:c", "u", "w,y", ".forks/c1/etc", "", "one", ".forks/c1", "one/two"},
		Relative: [][]string{{"up"}, {"relative", "l/b:c"}},
	}
	if got := layers(all, "/mnt/a"); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := layers(all, "/mnt/none"); got.Paths != nil {
		t.Errorf("where nothing is mounted: %q", got)
	}
}
