package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// containerRows compare containers whose root directory is a fork with those of podman on
// overlayfs on the plain disk. Each has the same Debian system.
var containerRows = []row{
	{name: "containers-start", what: "podman's first command in a new container", unit: "ms", where: hasContainers, named: true, run: boxed(boxStart), reach: "≤ 1.1 × plain", how: boxHow("podman run --rm --network=none %s /bin/true")},
	{name: "containers-apt", what: "apt installs 40 packages of 50 files", unit: "s", where: hasContainers, named: true, run: boxed(boxApt), reach: "≤ 1.3 × plain", how: boxHow("podman run --network=none -v REPOSITORY:/repo %s apt-get install")},
	{name: "containers-snapshot", what: "snapshot of a running container with 100 new files", unit: "ms", where: hasContainers, named: true, run: boxed(boxSnapshot), reach: "≤ 1 ms", how: func(p place) string {
		if p.kind == amber {
			return "mkdir(2) of FORK/.snapshots/N"
		}
		return "podman commit CONTAINER"
	}},
	{name: "containers-many", what: "200 running containers of one state", unit: "s", where: hasContainers, named: true, run: boxed(boxMany), how: boxHow("podman run -d --network=none %s sleep")},
}

func hasContainers(p place) bool {
	return os.Getuid() == 0 && (p.kind == amber || p.kind == plain)
}

func boxHow(command string) func(place) string {
	return func(p place) string {
		if p.kind == amber {
			return "mkdir(2) of .forks/N, " + fmt.Sprintf(command, "--rootfs .forks/N")
		}
		return fmt.Sprintf(command, "IMAGE")
	}
}

// A box is where containers of one place come from: a mount, or podman's own storage. It
// is kept in the bench until the end.
type box struct {
	w   *work
	h   *amberHistory // nil in the plain directory
	dir string
}

// system makes what all containers begin with: an archive of a Debian system, and a
// repository of 40 packages.
func (b *bench) system() (string, error) {
	return b.input("system", func(path string) error {
		for _, tool := range []string{"podman", "runc", "debootstrap", "dpkg-deb"} {
			if _, err := exec.LookPath(tool); err != nil {
				return &leftOut{tool + " is not installed"}
			}
		}
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		if err := commandIn(b.ctx, path, nil, "sh", "-ec", systemScript); err != nil {
			return &leftOut{err.Error()}
		}
		return os.Setenv("CONTAINERS_CONF", filepath.Join(path, "containers.conf"))
	})
}

const systemScript = `
printf '[containers]\nnetns="none"\ndefault_ulimits=["nofile=1024:1024","nproc=1024:1024"]\n[engine]\nruntime="runc"\n' >containers.conf
debootstrap --variant=minbase bookworm root
mkdir repo
for i in $(seq 40); do
	mkdir -p p/DEBIAN p/opt/bench$i
	printf 'Package: bench%s\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: files\n' $i >p/DEBIAN/control
	for j in $(seq 50); do head -c 4096 /dev/urandom >p/opt/bench$i/$j; done
	dpkg-deb -b p repo/bench$i.deb; rm -r p
done
for f in repo/*.deb; do
	dpkg-deb -f $f; echo "Filename: ./${f##*/}"; echo "Size: $(stat -c %s $f)"; echo "SHA256: $(sha256sum <$f | cut -d' ' -f1)"; echo
done >repo/Packages
echo 'deb [trusted=yes] file:/repo ./' >root/etc/apt/sources.list
mkdir -p root/repo; cp repo/Packages root/repo; chroot root apt-get -qq update; rm -rf root/repo/*
tar -C root -cf root.tar .
rm -r root`

func boxed(do func(b *box) (float64, error)) func(*work) (float64, error) {
	return func(w *work) (f float64, err error) {
		system, err := w.b.system()
		if err != nil {
			return 0, err
		}
		b := &box{w: w, dir: filepath.Join(w.b.base, fmt.Sprintf("box-%d", w.b.serial))}
		if err := os.Mkdir(b.dir, 0o755); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, b.close()) }()
		tar := filepath.Join(system, "root.tar")
		if w.place.kind == plain {
			err = b.podman("import", "-q", tar, "box")
		} else if b.h, err = amberHistoryOf(w.b, place{name: w.place.name, options: ",allow_other,dev,suid"}, filepath.Join(b.dir, "mount")); err == nil {
			w.place.metrics = ""
			var f *os.File
			if f, err = os.Open(tar); err == nil {
				err = b.h.importTar(f)
			}
		}
		if err != nil {
			return 0, err
		}
		if _, err := b.run("warm", "/bin/true"); err != nil {
			return 0, err
		}
		unix.Sync()
		return do(b)
	}
}

func (b *box) podman(args ...string) error {
	return command("podman", append([]string{"--root", filepath.Join(b.dir, "root"), "--runroot", filepath.Join(b.dir, "run"), "--storage-driver", "overlay"}, args...)...)
}

func (b *box) fork(name string) string { return filepath.Join(b.h.root(), ".forks", name) }

// run runs a command in a new container, with flags of podman before "--", and returns how
// many ms it took with all that made it.
func (b *box) run(name string, argv ...string) (float64, error) {
	start := time.Now()
	args := []string{"run", "--name", name, "--network=none", "-v", filepath.Join(b.w.b.inputs["system"], "repo") + ":/repo:ro"}
	if argv[0] == "-d" {
		args, argv = append(args, "-d"), argv[1:]
	}
	if b.h != nil {
		if err := unix.Mkdir(b.fork(name), 0o755); err != nil {
			return 0, err
		}
		args = append(args, "--rootfs", b.fork(name))
	} else {
		args = append(args, "box")
	}
	err := b.podman(append(args, argv...)...)
	return ms(time.Since(start)), err
}

func (b *box) close() error {
	err := errors.Join(b.podman("rm", "-f", "-t", "0", "-a"), b.podman("rmi", "-f", "-a"))
	if b.h != nil {
		err = errors.Join(err, b.h.close())
	}
	_ = unix.Unmount(filepath.Join(b.dir, "root", "overlay"), 0)
	return errors.Join(err, os.RemoveAll(b.dir))
}

// boxStart is podman's start, and beside it that of amberfs itself and of runc.
func boxStart(b *box) (float64, error) {
	i := 0
	next := func() error { i++; return nil }
	took, err := b.w.medianOf(5, next, func() error { _, err := b.run(fmt.Sprintf("c%d", i), "/bin/true"); return err })
	if err != nil || b.h == nil {
		return took, err
	}
	own, err := b.w.medianOf(5, next, func() error { return b.h.run("run", "--fork", fmt.Sprintf("c%d", i), "--root", "--", "/bin/true") })
	b.w.also("the same with amberfs run --root", "ms", own)
	if err != nil {
		return 0, err
	}
	bundle := filepath.Join(b.dir, "bundle")
	runc, err := b.w.medianOf(5, next, func() error {
		fork := b.fork(fmt.Sprintf("c%d", i))
		return errors.Join(unix.Mkdir(fork, 0o755), command("sh", "-ec", `rm -rf "$1"; mkdir "$1"; cd "$1"; runc spec; sed -i 's|"rootfs"|"'"$2"'"|; s/"terminal": true/"terminal": false/; s|"sh"|"/bin/true"|' config.json; runc --root "$1/state" run box`, "sh", bundle, fork))
	})
	b.w.also("the same with runc run", "ms", runc)
	return took, err
}

func boxApt(b *box) (float64, error) {
	var packages strings.Builder
	for i := range 40 {
		fmt.Fprintf(&packages, " bench%d", i+1)
	}
	took, err := b.run("apt", "sh", "-c", "apt-get install -qq -y"+packages.String()+" >/dev/null")
	return took / 1e3, err
}

func boxSnapshot(b *box) (float64, error) {
	if _, err := b.run("live", "-d", "sh", "-c", "for i in $(seq 100); do head -c 4096 /dev/urandom >/opt/$i; done; touch /ready; exec sleep 1000"); err != nil {
		return 0, err
	}
	if err := patient(func() error { return b.podman("exec", "live", "test", "-e", "/ready") }); err != nil {
		return 0, err
	}
	i := 0
	return b.w.medianOf(5, func() error { i++; return nil }, func() error {
		if b.h != nil {
			return unix.Mkdir(filepath.Join(b.fork("live"), ".snapshots", fmt.Sprintf("s%d", i)), 0o755)
		}
		return b.podman("commit", "-q", "live", fmt.Sprintf("s%d", i))
	})
}

// boxMany starts containers that stay, and notes what they take together.
func boxMany(b *box) (float64, error) {
	n := b.w.n(200)
	free, disk := available(), b.used()
	start := time.Now()
	for i := range n {
		if _, err := b.run(fmt.Sprintf("m%d", i), "-d", "sh", "-c", "echo $$ >/opt/pid; exec sleep 1000"); err != nil {
			return 0, err
		}
	}
	took := time.Since(start).Seconds()
	b.w.also("memory of each, all processes included", "MB", (free-available())/float64(n))
	b.w.also("disk of each", "kB", (b.used()-disk)*1e3/float64(n))
	return took, nil
}

// available is the machine's free memory, in MB.
func available() (kib float64) {
	_, rest, _ := strings.Cut(fileText("/proc/meminfo"), "MemAvailable:")
	_, _ = fmt.Sscan(rest, &kib)
	return kib * 1024 / 1e6
}

// used is the space that the place takes, in MB, without what is mounted in it.
func (b *box) used() (kib float64) {
	unix.Sync()
	_, _ = fmt.Sscan(output("du", "-skx", b.dir), &kib)
	return kib * 1024 / 1e6
}
