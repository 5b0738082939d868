package ui_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/amberfs/amberfs/tests/harness"
)

// TestBudgets compares the page with its budgets: 10,000 snapshots, and two files of 5 MB that
// changed. The median of the rounds counts.
func TestBudgets(t *testing.T) {
	m := harness.New(t)
	must(t, os.WriteFile(m.Path("changed"), lines(100_000, 0), 0o644))
	take(t, m, 10_000)
	must(t, os.WriteFile(m.Path("changed"), lines(100_000, 7), 0o644))
	must(t, os.WriteFile(m.Path("new"), lines(100_000, 0), 0o644))
	b := open(t, m)
	b.wait(all)
	b.do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(watch).Do(ctx)
		return err
	}))
	shares := make(map[string][]float64)
	for range harness.Count(t, "ROUNDS", 3, 5) {
		b.round(shares)
	}
	for what, of := range shares {
		slices.Sort(of)
		if median := of[len(of)/2]; median > 1 {
			t.Errorf("%s: over budget: %.2f of it, in the median of %d rounds", what, median, len(of))
		}
	}
}

// round loads the page once, and adds how much of its budget each of its parts took.
func (b *browser) round(shares map[string][]float64) {
	b.t.Helper()
	within := func(what string, ms, budget float64) {
		b.t.Helper()
		shares[what] = append(shares[what], b.share(what, ms, budget))
	}
	b.do(chromedp.Navigate(strings.Split(b.url, "#")[0]))
	b.wait(`window.painted`)
	var first, gap, longest float64
	b.eval(`painted`, &first)
	within("the first snapshot of 10,000, after the navigation began", first, 200)
	b.wait(all)
	b.eval(`new Promise((done) => {
		const box = document.querySelector('#snapshots'), gaps = [], steps = 180;
		let last = performance.now();
		const step = (now) => {
			gaps.push(now - last);
			last = now;
			box.scrollTop = box.scrollHeight * gaps.length / steps;
			if (gaps.length < steps) requestAnimationFrame(step);
			else done(gaps.slice(1).sort((x, y) => x - y)[Math.floor(steps * .95)]);
		};
		requestAnimationFrame((now) => { last = now; requestAnimationFrame(step); });
	})`, &gap)
	within("a frame while 10,000 rows are scrolled, 95 of 100", gap, 20)
	for _, file := range []string{"new", "changed"} {
		b.wait(`document.querySelectorAll('#files [role=treeitem]').length === 2`)
		within("the first screen of a diff of 5 MB, "+file, b.timed(
			fmt.Sprintf(`[...document.querySelectorAll('#files [role=treeitem]')].find((e) => e.textContent.includes(%q)).click()`, file),
			fmt.Sprintf(`document.querySelector('article[data-path=%s] tr.add')`, file)), 300)
	}
	b.eval(`longest`, &longest)
	within("the longest task", longest, 100)
}

// all is true when all snapshots are listed.
const all = `document.querySelector('#snapshots').scrollHeight > 400000`

// watch notes the longest task, and when the first snapshot is painted.
const watch = `
	window.longest = 0;
	new PerformanceObserver((l) => l.getEntries().forEach((e) => { longest = Math.max(longest, e.duration); })).observe({ type: 'longtask', buffered: true });
	const look = () => {
		const row = document.querySelector('#snapshots [role=option]:not(.now)');
		if (row) requestAnimationFrame(() => setTimeout(() => { window.painted = performance.now(); })); else requestAnimationFrame(look);
	};
	requestAnimationFrame(look);
`

// lines is n lines of 50 bytes, of which every so many are others.
func lines(n, every int) []byte {
	out := make([]byte, 0, 50*n)
	for i := range n {
		word := "was"
		if every > 0 && i%every == 0 {
			word = "is "
		}
		out = fmt.Appendf(out, "line %6d of a text that %s there from then on..\n", i, word)
	}
	return out
}

// take takes n snapshots over the store's socket.
func take(t *testing.T, m *harness.Mount, n int) {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(m.Store, "socket"))
	}}}
	defer c.CloseIdleConnections()
	for i := range n {
		resp, err := c.Post("http://amberfs/v1/snapshot", "application/json", strings.NewReader(fmt.Sprintf(`{"name":"s%d","message":"step %d"}`, i, i)))
		must(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		must(t, errors.Join(err, resp.Body.Close()))
	}
}

// TestLarge looks at many files and at long texts.
func TestLarge(t *testing.T) {
	files, lines := 10_000, 20_000
	if harness.Long() {
		files, lines = 100_000, 100_000
	}
	m := harness.New(t)
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
	quick := func(what string, budget float64, action, until string) {
		t.Helper()
		const loaded = 10 // times the budget, on a machine with much other work
		ms := b.timed(action, until)
		t.Logf("%s: %.0f ms, budget %.0f", what, ms, budget)
		if ms > loaded*budget {
			t.Errorf("%s: over budget", what)
		}
	}
	quick("the listing of the changed files", 200, `[...document.querySelectorAll('#snapshots [role=option]')].find((e) => e.textContent.includes('large')).click()`,
		`document.querySelector('#files [role=treeitem]')`)
	b.wait(fmt.Sprintf(`document.querySelector('#counts').textContent.includes('%s')`, grouped(min(files+1, 20_000))))
	quick("a diff of much text", 300, `[...document.querySelectorAll('#files [role=treeitem]')].find((e) => e.textContent.includes('a-text')).click()`,
		`document.querySelector('#diffs tr.add')`)
	quick("the text itself", 300, `document.body.dispatchEvent(new KeyboardEvent('keydown', {key: '1', bubbles: true}))`, `document.querySelector('#view .row-line')?.textContent.includes('line 0')`)
	// The end is reached while the middle is fetched.
	b.eval(`{ const v = document.querySelector('#view'); v.scrollTop = v.scrollHeight / 2; setTimeout(() => { v.scrollTop = v.scrollHeight; }, 50); }`, nil)
	b.wait(fmt.Sprintf(`document.querySelector('#view').innerText.includes('line %d of')`, lines-1))
}

func grouped(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}

// share returns how much of a budget a measure takes. The load is how long a short piece of
// work in the browser takes on average, divided by the shortest time that it took. A machine
// with other work gets as much more time, and from twice on it is not judged.
func (b *browser) share(what string, ms, budget float64) float64 {
	b.t.Helper()
	var load float64
	b.eval(`(async () => {
		const times = [];
		for (let i = 0; i < 40; i++) { // a task each
			await new Promise((next) => setTimeout(next));
			const began = performance.now();
			let x = 0;
			for (let k = 0; k < 3000000; k++) x = (x * 31 + k) | 0;
			times.push(performance.now() - began + (x && 0));
		}
		const part = times.slice(10);
		return part.reduce((a, b) => a + b) / part.length / Math.min(...part);
	})()`, &load)
	b.t.Logf("%s: %.0f ms, budget %.0f, load %.2f", what, ms, budget, load)
	if load >= 2 {
		return 0
	}
	return ms / (budget * load)
}

// timed returns how many milliseconds pass from an action until its result is painted.
func (b *browser) timed(action, until string) float64 {
	b.t.Helper()
	var ms float64
	b.eval(fmt.Sprintf(`new Promise((done, fail) => {
		const began = performance.now();
		%s;
		const painted = () => requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
		const look = () => (%s) ? painted() : performance.now() - began > %d ? fail(new Error('not there')) : requestAnimationFrame(look);
		look();
	})`, action, until, harness.Timeout.Milliseconds()), &ms)
	return ms
}
