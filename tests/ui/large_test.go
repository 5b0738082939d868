package ui_test

import (
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
	for i := range files {
		if i%1000 == 0 {
			must(t, os.Mkdir(m.Path(fmt.Sprintf("d%d", i/1000)), 0o755))
		}
		must(t, os.WriteFile(m.Path(fmt.Sprintf("d%d/f%d", i/1000, i)), nil, 0o644))
	}
	m.Amberfs("-C", m.Path(), "snapshot", "large", "--no-wait")
	b := open(t, m)
	b.wait(fmt.Sprintf(`document.querySelector('#snapshots').scrollHeight > %d`, 40*snapshots))
	b.timed("the listing of the changed files", `[...document.querySelectorAll('#snapshots [role=option]')].find((e) => e.textContent.includes('large')).click()`,
		`document.querySelector('#files [role=treeitem]')`)
	b.wait(fmt.Sprintf(`document.querySelector('#counts').textContent.includes('%s')`, grouped(min(files+1, 20_000))))
	b.timed("a diff of much text", `[...document.querySelectorAll('#files [role=treeitem]')].find((e) => e.textContent.includes('a-text')).click()`,
		`document.querySelector('#diffs tr.add')`)
	b.timed("the text itself", `document.body.dispatchEvent(new KeyboardEvent('keydown', {key: '1', bubbles: true}))`, `document.querySelector('#view .row-line')?.textContent.includes('line 0')`)
	b.eval(`document.querySelector('#view').scrollTop = document.querySelector('#view').scrollHeight`, nil)
	b.wait(fmt.Sprintf(`document.querySelector('#view').innerText.includes('line %d of')`, lines-1))
}

func grouped(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}

// timed tells how many milliseconds pass until what an action asks for is there.
func (b *browser) timed(what, action, until string) {
	b.t.Helper()
	var ms float64
	b.eval(fmt.Sprintf(`new Promise((done, fail) => {
		const began = performance.now();
		%s;
		const look = () => (%s) ? done(performance.now() - began) : performance.now() - began > %d ? fail(new Error('not there')) : requestAnimationFrame(look);
		look();
	})`, action, until, harness.Timeout.Milliseconds()), &ms)
	b.t.Logf("%s: %.0f ms", what, ms)
	if harness.Long() && ms > 2000 { // far beyond what it takes, on a machine with nothing else to do
		b.t.Errorf("%s took %.0f ms to its first row", what, ms)
	}
}
