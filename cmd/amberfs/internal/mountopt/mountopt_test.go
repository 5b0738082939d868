package mountopt

import (
	"strings"
	"testing"

	"github.com/amberfs/amberfs/fusefs"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		lists []string
		want  Options
	}{
		{nil, Options{}},
		{[]string{""}, Options{}},
		{[]string{"ro,allow_other"}, Options{Flags: fusefs.Flags{ReadOnly: true, AllowOther: true}}},
		{[]string{"ro", "rw"}, Options{}},
		{[]string{"snapdir=visible, acl"}, Options{Snapdir: "visible", Flags: fusefs.Flags{SnapdirVisible: true, ACL: true}}},
		{[]string{"snapdir=visible,snapdir=hidden"}, Options{Snapdir: "hidden"}},
		{[]string{"rw,noatime,dev,suid,noauto,x-systemd.automount,_netdev,nofail"}, Options{Flags: fusefs.Flags{Dev: true, Suid: true}}},
		{[]string{"dev,suid", "nodev,nosuid,noexec"}, Options{Flags: fusefs.Flags{NoExec: true}}},
		{[]string{"acl,noacl"}, Options{NoACL: true}},
		{[]string{"noacl", "acl"}, Options{Flags: fusefs.Flags{ACL: true}}},
		{[]string{"metrics=localhost:9100"}, Options{Metrics: "localhost:9100"}},
		{[]string{"remount,ro,relatime,user_id=0,group_id=0,default_permissions,allow_other,max_read=1048576"}, Options{Remount: true, Flags: fusefs.Flags{ReadOnly: true, AllowOther: true}}},
		{[]string{"hard,timeout=5s,prefetch=all"}, Options{Hard: true, Timeout: "5s", Prefetch: "all"}},
		{[]string{"hard", "soft"}, Options{}},
		{[]string{"metrics=:9100"}, Options{Metrics: ":9100"}},
		{[]string{"metrics=[::1]:9100"}, Options{Metrics: "[::1]:9100"}},
	} {
		got, err := Parse(c.lists...)
		if err != nil || got != c.want {
			t.Errorf("Parse(%q) = %+v, %v; want %+v", c.lists, got, err, c.want)
		}
		if again, err := Parse(got.String()); err != nil || again != got {
			t.Errorf("Parse(%q) = %+v, %v; want %+v", got.String(), again, err, got)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, word := range []string{"snapdri=visible", "snapdir=maybe", "timeout=soon", "timeout=-1s", "prefetch=some", "snapdir", "metrics=9100", "metrics", "ro=1", "bogus", "ALLOW_OTHER", "sync"} {
		_, err := Parse("rw," + word)
		name, _, _ := strings.Cut(word, "=")
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Parse(%q) = %v, want an error that names it", word, err)
		}
	}
}
