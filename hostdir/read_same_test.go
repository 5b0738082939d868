package hostdir

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestExchangedFiles: a file system whose times have ticks, or none of birth, gives two files the same
// times. The inode number distinguishes them.
func TestExchangedFiles(t *testing.T) {
	one := unix.Stat_t{Ino: 100, Ctim: unix.Timespec{Sec: 1_700_000_000}}
	other := one
	other.Ino = 101
	if changeTime(&one) == changeTime(&other) {
		t.Error("two inodes have the same time of change")
	}
	if changeTime(&one) != recordedTime(&one) {
		t.Error("a file that is old would be read again")
	}
	other.Ctim.Sec -= 2
	if other.Ino = one.Ino; changeTime(&one) == changeTime(&other) {
		t.Error("two times of an inode are the same")
	}
}
