package mounts

import (
	"slices"
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
7 1 0:62 / /m3 rw - overlay overlay ro,lowerdir=relative:/mnt/a/one::/mnt/ab
8 1 0:63 / /m4 rw - overlay overlay ro,lowerdir=/srv/c1
`
	all, err := mountinfo.GetMountsFromReader(strings.NewReader(table), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"l/X", "b:c", "u", "w,y", ".forks/c1/etc", "", "one", ".forks/c1"}
	if got := layers(all, "/mnt/a"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := layers(all, "/mnt/none"); got != nil {
		t.Errorf("where nothing is mounted: %q", got)
	}
}
