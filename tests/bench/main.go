package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	var b bench
	bin := flag.String("bin", "bin/amberfs", "the amberfs binary")
	only := flag.String("rows", "", "comma-separated names, or beginnings of names, of the rows to run; when empty, all that are not marked * by -list")
	places := flag.String("places", "", "comma-separated names of the places to run in; all when empty")
	flag.IntVar(&b.repeat, "repeat", 7, "samples of each row, after one to warm up")
	flag.Float64Var(&b.scale, "scale", 1, "multiplies the size of the work")
	dir := flag.String("dir", "", "where to work; a new directory of the temporary one when empty")
	out := flag.String("o", "", "append the results to this file as JSON lines")
	list := flag.Bool("list", false, "list the rows")
	writes := flag.Bool("docs", false, "write the tables of the documentation from "+current)
	rounds := flag.String("rounds", "", "work in this directory, as a process of the row curves-many does")
	pace := flag.Duration("pace", 0, "how often such a process takes a snapshot")
	noBytes := flag.String("nothing", "", "mount a FUSE server that keeps no bytes here, and serve")
	flag.Parse()

	if *noBytes != "" {
		return serveNothing(*noBytes)
	}
	if *rounds != "" {
		return makeRounds(*rounds, *pace)
	}
	if *list {
		for _, r := range rows {
			mark := " "
			if r.named {
				mark = "*"
			}
			fmt.Printf("%s %-19s %-62s %s\n", mark, r.name, r.what+" ("+r.unit+")", r.reach)
		}
		return nil
	}
	if *writes {
		return writeDocs(".")
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	if b.bin, err = filepath.Abs(*bin); err != nil {
		return err
	}
	if b.base, err = os.MkdirTemp(*dir, "amberfs-bench-"); err != nil {
		return err
	}
	// Interrupted, it ends the row, reports, and leaves nothing mounted.
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	b.ctx = ctx
	defer b.close()
	b.open(*places)

	start, m := time.Now(), thisMachine()
	var lines []line
	var failed error
	for _, r := range chosen {
		rs, err := b.measure(r)
		if ctx.Err() != nil {
			failed = errors.New("interrupted")
			break
		}
		var left *leftOut
		if errors.As(err, &left) {
			fmt.Fprintf(os.Stderr, "without %s: %v\n", r.name, left)
			continue
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", r.name, err)
			failed = errors.Join(failed, fmt.Errorf("%s failed", r.name))
			continue
		}
		var ls []line
		for _, r := range rs {
			ls = append(ls, line{m, r})
		}
		lines = append(lines, ls...)
		if *out != "" {
			if err := appendJSON(*out, ls); err != nil {
				return err
			}
		}
	}
	report(os.Stdout, lines)
	fmt.Printf("\n%.1f minutes in all\n", time.Since(start).Minutes())
	return failed
}

// choose finds rows by how their names begin.
func choose(only string) (chosen []row, err error) {
	if only == "" {
		return slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return r.named }), nil
	}
	for name := range strings.SplitSeq(only, ",") {
		found := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return !strings.HasPrefix(r.name, name) })
		if len(found) == 0 {
			return nil, fmt.Errorf("there is no row %q (see -list)", name)
		}
		chosen = append(chosen, found...)
	}
	return chosen, nil
}
