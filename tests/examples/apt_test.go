package examples_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// debian makes a root directory of this machine's packages that apt needs, and a new package.
const debian = `
cd "$1"
mkdir -p usr/bin usr/sbin usr/lib usr/lib64 etc tmp var/lib/dpkg/info var/lib/dpkg/updates
packages=$(apt-cache depends --recurse --installed --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances \
	apt dpkg tar dash coreutils diffutils grep libc-bin | grep '^[a-z]' | sort -u)
packages=$(dpkg-query -Wf '${db:Status-Status} ${Package}\n' $packages 2>/dev/null | sed -n 's/^installed //p')
texts='usr/share/\(doc\|locale\|man\)/'
dpkg-query -L $packages | grep ^/ | grep -v $texts | sort -u | tar -C / -c --no-recursion --ignore-failed-read -T - 2>/dev/null | tar -x
dpkg-query -s $packages >var/lib/dpkg/status
cp /var/lib/dpkg/info/format var/lib/dpkg/info
for p in $packages; do cp /var/lib/dpkg/info/"$p".* /var/lib/dpkg/info/"$p":*.* var/lib/dpkg/info 2>/dev/null || true; done
sed -i "\#$texts#d" var/lib/dpkg/info/*.list var/lib/dpkg/info/*.md5sums
echo root:x:0:0:root:/root:/bin/sh >etc/passwd
echo root:x:0: >etc/group
mkdir -p new/DEBIAN new/etc new/opt/new
cat >new/DEBIAN/control <<-end
	Package: new
	Version: 1
	Architecture: all
	Maintainer: a <a@example.com>
	Description: files, a configuration file and scripts
end
echo /etc/new.conf >new/DEBIAN/conffiles
printf '#!/bin/sh\nset -e\nmkdir -p /var/lib/new\nrm /usr/bin/diff3\necho made >/var/lib/new/state\n' >new/DEBIAN/postinst
chmod 755 new/DEBIAN/postinst
echo set >new/etc/new.conf
for i in $(seq 200); do echo $i >new/opt/new/$i; done
dpkg-deb -Znone --root-owner-group -b new new.deb
rm -r new
`

// TestApt: what apt installs in a container is gone after a restore, for dpkg too.
func TestApt(t *testing.T) {
	if _, err := os.Stat("/var/lib/dpkg/info"); err != nil {
		t.Skip("this is no Debian system")
	}
	harness.SkipWithout(t, "apt-cache", "dpkg-deb")
	root := filepath.Join(t.TempDir(), "root")
	must.OK(t, os.Mkdir(root, 0o755))
	run(t, "/", "sh", "-ec", debian, "sh", root)
	options := []string{"--from", root}
	if os.Getuid() == 0 {
		options = append(options, "-o", "allow_other")
	}
	m := harness.New(t, options...)
	t.Log(run(t, m.Dir, harness.Binary(t), "run", "--fork", "c", "--root", "--", "sh", "-exc", `
state() { dpkg -l; dpkg --verify || true; }
state >/state
mkdir /.snapshots/before
apt-get install -qq -o APT::Sandbox::User=root /new.deb
dpkg -s new | grep 'Status: install ok installed'
test -e /opt/new/200 -a -e /var/lib/new/state -a ! -e /usr/bin/diff3
dpkg --verify | grep diff3
mv /.snapshots/restore /.snapshots/restore@before
state | diff /state -
dpkg -l | grep '^ii  coreutils'
`))
	fork := m.Path(".forks/c")
	harness.CheckSameTree(t, "the container", harness.ReadTree(t, filepath.Join(fork, ".snapshots/before")), harness.ReadTree(t, fork))
}
