package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// manyFor is how long programs work at once.
const manyFor = 5 * time.Second

// growMany has so many processes at work at once, each in a fork of its own, in a directory of
// the plain disk, and in a fork with a snapshot each second.
func growMany(c *curving) error {
	for _, m := range []struct {
		what, top string
		pace      time.Duration
	}{
		{"", filepath.Join(c.root(), ".forks"), 0},
		{", plain directories", c.w.b.base, 0},
		{", a snapshot a second in each", filepath.Join(c.root(), ".forks"), time.Second},
	} {
		all, err := c.together(m.top, m.pace)
		if err != nil {
			return err
		}
		sum := 0.0
		for _, n := range all {
			sum += n
		}
		c.note("rounds a second"+m.what, "", sum/manyFor.Seconds())
		c.note("the slowest process beside the mean"+m.what, "%", 100*quantile(all, 0)*float64(len(all))/sum)
	}
	return nil
}

// together starts processes that begin at once, each in a new directory below top, and returns
// how many rounds each made.
func (c *curving) together(top string, pace time.Duration) (rounds []float64, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	begin, started, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer begin.Close()
	var all []*exec.Cmd
	var outs []io.ReadCloser
	for i := range c.size {
		dir := filepath.Join(top, fmt.Sprintf("many-%d-%d-%s", c.size, i, pace))
		cmd := exec.CommandContext(c.b.ctx, self, "-rounds", dir, "-pace", pace.String())
		cmd.Stdin, cmd.Stderr = begin, os.Stderr
		out, perr := cmd.StdoutPipe()
		if err = errors.Join(perr, unix.Mkdir(dir, 0o755)); err == nil {
			err = cmd.Start()
		}
		if err != nil {
			break
		}
		all, outs = append(all, cmd), append(outs, out)
	}
	started.Close()
	for i, cmd := range all {
		var n float64
		_, serr := fmt.Fscan(outs[i], &n)
		err = errors.Join(err, serr, cmd.Wait())
		rounds = append(rounds, n)
	}
	return rounds, err
}

// makeRounds is such a process: it begins when its input ends, works in a directory, takes a
// snapshot of it at a pace, and prints how many rounds it made.
func makeRounds(dir string, pace time.Duration) error {
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	n, snapshots, buf := 0, 0, make([]byte, len(block))
	for start := time.Now(); time.Since(start) < manyFor; n++ {
		if pace > 0 && time.Since(start) > time.Duration(snapshots+1)*pace {
			snapshots++
			if err := unix.Mkdir(filepath.Join(dir, ".snapshots", fmt.Sprint("s", snapshots)), 0o755); err != nil {
				return err
			}
		}
		from, to := name(dir, n), name(dir, n)+"-renamed"
		err := createOne(from)
		if err == nil {
			err = readOne(from, buf)
		}
		if err == nil {
			err = unix.Rename(from, to)
		}
		if err == nil && n%2 == 1 {
			err = unix.Unlink(to)
		}
		if err != nil {
			return err
		}
	}
	_, err := fmt.Println(n)
	return err
}
