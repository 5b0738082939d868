package ui_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
)

// TestLarge looks at much at once, and times the first row of each list.
func TestLarge(t *testing.T) {
	snapshots, files, lines := 2000, 10_000, 20_000
	if harness.Long() {
		snapshots, files, lines = 10_000, 100_000, 100_000
	}
	m := harness.New(t)
	for i := range snapshots {
		must(t, os.Mkdir(m.Path(".snapshots", fmt.Sprintf("s%d", i)), 0o755))
	}
	text := make([]byte, 0, 50*lines)
	for i := range lines {
		text = fmt.Appendf(text, "line %d of a text that was not there before\n", i)
	}
	must(t, os.WriteFile(m.Path("a-text"), text, 0o644))
	must(t, os.WriteFile(m.Path("a-large"), bytes.Repeat([]byte("a line of a text that was not there before\n"), 5<<20/43), 0o644))
	for i := range files {
		if i%1000 == 0 {
			must(t, os.Mkdir(m.Path(fmt.Sprintf("d%d", i/1000)), 0o755))
		}
		must(t, os.WriteFile(m.Path(fmt.Sprintf("d%d/f%d", i/1000, i)), nil, 0o644))
	}
	m.Amberfs("-C", m.Path(), "snapshot", "large", "--no-wait")
	b := open(t, m)
	b.eval(`window.longest = 0; new PerformanceObserver((l) => l.getEntries().forEach((e) => { longest = Math.max(longest, e.duration); })).observe({ type: 'longtask' })`, nil)
	b.wait(fmt.Sprintf(`document.querySelector('#snapshots').scrollHeight > %d`, 40*snapshots))
	b.timed("the listing of the changed files", 200, `[...document.querySelectorAll('#snapshots [role=option]')].find((e) => e.textContent.includes('large')).click()`,
		`document.querySelector('#files [role=treeitem]')`)
	b.wait(fmt.Sprintf(`document.querySelector('#counts').textContent.includes('%s')`, grouped(min(files+2, 20_000))))
	b.timed("the first screen of a diff of 5 MB", 300, `[...document.querySelectorAll('#files [role=treeitem]')].find((e) => e.textContent.includes('a-large')).click()`,
		`document.querySelector('#diffs tr.add')`)
	var longest float64
	b.eval(`longest`, &longest)
	t.Logf("the longest task: %.0f ms", longest)
	if longest > 100*loaded {
		t.Errorf("a task takes %.0f ms", longest)
	}
	b.timed("a diff of much text", 300, `[...document.querySelectorAll('#files [role=treeitem]')].find((e) => e.textContent.includes('a-text')).click()`,
		`document.querySelector('#diffs tr.add')`)
	b.timed("the text itself", 300, `document.body.dispatchEvent(new KeyboardEvent('keydown', {key: '1', bubbles: true}))`, `document.querySelector('#view .row-line')?.textContent.includes('line 0')`)
	b.eval(`document.querySelector('#view').scrollTop = document.querySelector('#view').scrollHeight`, nil)
	b.wait(fmt.Sprintf(`document.querySelector('#view').innerText.includes('line %d of')`, lines-1))
}

func grouped(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}

// loaded is how often a budget may be taken on a machine that does other work meanwhile: the
// tests of all packages run at once. The times themselves are logged.
const loaded = 10

// timed tells how many milliseconds pass until what an action asks for is there.
func (b *browser) timed(what string, budget float64, action, until string) {
	b.t.Helper()
	var ms float64
	b.eval(fmt.Sprintf(`new Promise((done, fail) => {
		const began = performance.now();
		%s;
		const look = () => (%s) ? done(performance.now() - began) : performance.now() - began > %d ? fail(new Error('not there')) : requestAnimationFrame(look);
		look();
	})`, action, until, harness.Timeout.Milliseconds()), &ms)
	b.t.Logf("%s: %.0f ms, budget %.0f", what, ms, budget)
	if ms > budget*loaded {
		b.t.Errorf("%s took %.0f ms", what, ms)
	}
}
