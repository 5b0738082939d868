package ui_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/amberfs/amberfs/tests/harness"
)

// TestStates: an empty workspace shows how to begin, and what went wrong says what to do.
func TestStates(t *testing.T) {
	m := harness.New(t)
	b := open(t, m)
	b.wait(`['mkdir .snapshots/first', 'amberfs restore first', 'amberfs fork try'].every((c) => document.querySelector('#diffs').innerText.includes(c))`)
	must(t, os.WriteFile(m.Path("a"), []byte("one\n"), 0o644))
	must(t, os.Mkdir(m.Path(".snapshots", "first"), 0o755))
	b.wait(`document.querySelector('#snapshots').innerText.includes('first')`)
	b.eval(`localStorage.setItem('amberfs-session', 'of another page')`, nil)
	b.do(chromedp.Navigate(strings.Split(b.url, "#")[0]))
	b.wait("document.querySelector('#banner').innerText.includes('Run `amberfs ui`')")
}

// TestUnmounted: the page says that the workspace is not mounted, and how to mount it.
func TestUnmounted(t *testing.T) {
	m := harness.New(t)
	must(t, os.Mkdir(m.Path(".snapshots", "first"), 0o755))
	b := open(t, m)
	m.Amberfs("umount", m.Path())
	m.Gone()
	b.wait("document.querySelector('#banner').innerText.includes('`amberfs mount')")
}

// TestSoon: what the page counts is right a second after a change, by whomever. Ten times
// that is allowed on a machine with other work.
func TestSoon(t *testing.T) {
	m := harness.New(t)
	must(t, os.WriteFile(m.Path("a"), []byte("one\n"), 0o644))
	must(t, os.Mkdir(m.Path(".snapshots", "first"), 0o755))
	m.Amberfs("fork", "try")
	b := open(t, m)
	soon := func(what, js string) {
		t.Helper()
		began := time.Now()
		b.wait(js)
		took := time.Since(began)
		t.Logf("%s: %d ms", what, took.Milliseconds())
		if took > 10*time.Second {
			t.Errorf("%s is shown after %s", what, took)
		}
	}
	must(t, os.WriteFile(m.Path("a"), []byte("one\ntwo\n"), 0o644))
	soon("a changed file", `document.querySelector('#snapshots').innerText.includes('1 changed file') && document.querySelector('#diffs tr.add')?.innerText.includes('two')`)
	m.Amberfs("restore", "first")
	soon("a restore", `document.querySelector('#snapshots').innerText.includes('undo point')`)
	m.Amberfs("fork", "other")
	soon("a new fork", `document.querySelector('#workspaces').innerText.includes('other')`)
	for i := range 3 {
		must(t, os.WriteFile(m.Path(".forks", "try", fmt.Sprint(i)), nil, 0o644))
	}
	soon("changes in a fork", `document.querySelector('#snapshots').innerText.includes('3 files')`)
	m.Amberfs("-C", m.Path(".forks", "try"), "snapshot", "in-fork")
	b.click("#workspaces [role=tab]", "try")
	soon("a workspace", `document.querySelector('#snapshots').innerText.includes('in-fork')`)
}
