package ui_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestStates: an empty workspace shows how to begin, and what went wrong says what to do.
func TestStates(t *testing.T) {
	m := harness.New(t)
	b := open(t, m)
	b.wait(`['mkdir .snapshots/first', 'amberfs restore first', 'amberfs fork try'].every((c) => document.querySelector('#diffs').innerText.includes(c))`)
	must.OK(t, os.WriteFile(m.Path("a"), []byte("one\n"), 0o644))
	must.OK(t, os.Mkdir(m.Path(".snapshots", "first"), 0o755))
	b.wait(`document.querySelector('#snapshots').innerText.includes('first')`)
	b.eval(`localStorage.setItem('amberfs-session', 'of another page')`, nil)
	b.do(chromedp.Navigate(strings.Split(b.url, "#")[0]))
	b.wait("document.querySelector('#banner').innerText.includes('Run `amberfs ui`')")
}

// TestUnmounted: the page says that the workspace is not mounted, and how to mount it.
func TestUnmounted(t *testing.T) {
	m := harness.New(t)
	must.OK(t, os.Mkdir(m.Path(".snapshots", "first"), 0o755))
	b := open(t, m)
	m.Amberfs("umount", m.Path())
	m.WaitUntilGone()
	b.wait("document.querySelector('#banner').innerText.includes('`amberfs mount')")
}

// TestFollows: what the page counts is right after a change, whoever makes it.
func TestFollows(t *testing.T) {
	m := harness.New(t)
	must.OK(t, os.WriteFile(m.Path("a"), []byte("one\n"), 0o644))
	must.OK(t, os.Mkdir(m.Path(".snapshots", "first"), 0o755))
	m.Amberfs("fork", "try")
	b := open(t, m)
	must.OK(t, os.WriteFile(m.Path("a"), []byte("one\ntwo\n"), 0o644))
	b.wait(`document.querySelector('#snapshots').innerText.includes('1 changed file') && document.querySelector('#diffs tr.add')?.innerText.includes('two')`)
	m.Amberfs("restore", "first")
	b.wait(`document.querySelector('#snapshots').innerText.includes('undo point')`)
	m.Amberfs("fork", "other")
	b.wait(`document.querySelector('#workspaces').innerText.includes('other')`)
	for i := range 3 {
		must.OK(t, os.WriteFile(m.Path(".forks", "try", fmt.Sprint(i)), nil, 0o644))
	}
	b.wait(`document.querySelector('#snapshots').innerText.includes('3 files')`)
	m.Amberfs("-C", m.Path(".forks", "try"), "snapshot", "in-fork")
	b.click("#workspaces [role=tab]", "try")
	b.wait(`document.querySelector('#snapshots').innerText.includes('in-fork')`)
}
