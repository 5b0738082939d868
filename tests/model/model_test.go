// Package model_test drives the mount with random operations and compares it
// with a filesystem in memory after every step: files, links, attributes,
// captures, restores, forks, remounts and kills in between.
//
//	go test ./tests/model -rapid.checks=1000     for longer
package model_test

import (
	"flag"
	"os"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/amberfs/amberfs/tests/harness"
)

func TestMain(m *testing.M) {
	if asProcess() {
		return
	}
	// A check is a fresh store and some forty steps on it.
	checks := "15"
	if harness.LongTests() {
		checks = "500"
	}
	for name, value := range map[string]string{"rapid.checks": checks, "rapid.steps": "40", "rapid.shrinktime": "60s"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	flag.Parse()
	unix.Umask(0)
	os.Exit(harness.Run(m))
}

func TestMountAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, rt)
		defer w.mount.Stop()
		rt.Repeat(map[string]func(*rapid.T){
			"change":        w.change,
			"changeMore":    w.change,
			"capture":       w.capture,
			"look":          w.look,
			"restore":       w.restore,
			"restorePath":   w.restorePath,
			"undo":          w.undo,
			"renameCapture": w.renameCapture,
			"deleteCapture": w.deleteCapture,
			"fork":          w.fork,
			"endFork":       w.endFork,
			"remount":       w.remount,
			"kill":          w.kill,
			"":              w.check,
		})
	})
}
