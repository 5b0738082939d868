package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// pageRows are how fast the page of `amberfs ui` is in a browser: with 10,000 snapshots, and
// two files of 5 MB that changed.
var pageRows = []row{{
	name: "page", what: "the page's first snapshot of 10,000, after the navigation began", unit: "ms", where: onlyAmber, alone: true,
	reach: "≤ 200; page/frame ≤ 20; page/new, page/changed ≤ 300; page/task ≤ 100; page/soon ≤ 1,000", run: pageRow, how: same("chromium, headless; the median of 5 loads"),
}}

// watchPage notes the longest task, and when the first snapshot is painted.
const watchPage = `
	window.longest = 0;
	new PerformanceObserver((l) => l.getEntries().forEach((e) => { longest = Math.max(longest, e.duration); })).observe({ type: 'longtask', buffered: true });
	const look = () => {
		const row = document.querySelector('#snapshots [role=option]:not(.now)');
		if (row) requestAnimationFrame(() => setTimeout(() => { window.painted = performance.now(); })); else requestAnimationFrame(look);
	};
	requestAnimationFrame(look);
`

// scrollPage returns the 95th percentile of a frame while all snapshots are scrolled.
const scrollPage = `new Promise((done) => {
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
})`

// linesOf is n lines of 50 bytes, of which every so many are others.
func linesOf(n, every int) []byte {
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

func pageRow(w *work) (first float64, err error) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		return 0, &leftOut{err.Error()}
	}
	h, err := newAmberHistory(w.b, filepath.Join(w.b.base, fmt.Sprintf("page-%d", w.b.serial)))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	w.place.metrics = ""
	at := func(name string) string { return filepath.Join(h.root(), name) }
	err = os.WriteFile(at("changed"), linesOf(w.n(100_000), 0), 0o644)
	for i := 0; i < w.n(10_000) && err == nil; i++ {
		err = h.captureCall(fmt.Sprint("s", i))
	}
	if err = errors.Join(err, os.WriteFile(at("changed"), linesOf(w.n(100_000), 7), 0o644), os.WriteFile(at("new"), linesOf(w.n(100_000), 0), 0o644)); err != nil {
		return 0, err
	}
	ui := exec.Command(w.b.bin, "-C", h.root(), "ui")
	out, err := ui.StdoutPipe()
	if err = errors.Join(err, ui.Start()); err != nil {
		return 0, err
	}
	defer func() { _, _ = ui.Process.Signal(os.Interrupt), ui.Wait() }()
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return 0, err
	}
	ctx, stop := chromedp.NewExecAllocator(w.b.ctx, append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browser), chromedp.NoSandbox, chromedp.WindowSize(1440, 900))...)
	defer stop()
	ctx, stop = chromedp.NewContext(ctx)
	defer stop()
	p := &loadedPage{ctx: ctx, all: fmt.Sprintf(`document.querySelector('#snapshots').scrollHeight > %d`, 40*w.n(10_000)), figures: map[string][]float64{}}
	url = strings.TrimSpace(url)
	p.err = chromedp.Run(ctx) // starts the browser, which lives as long as this context
	p.do(chromedp.Navigate(url), chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(watchPage).Do(ctx)
		return err
	}))
	p.wait(p.all)
	for i := range times {
		p.load(strings.Split(url, "#")[0])
		p.number("document.querySelector('#snapshots').scrollTop = 0")
		p.figures["soon"] = append(p.figures["soon"], p.timed(func() error {
			return os.WriteFile(at(fmt.Sprint("more", i)), nil, 0o644)
		}, fmt.Sprintf(`document.querySelector('#snapshots').innerText.includes('%d changed files')`, 3+i)))
	}
	for _, name := range []string{"frame", "new", "changed", "task", "soon"} {
		w.also(name, "ms", median(p.figures[name]))
	}
	return median(p.figures["first"]), p.err
}

// A loadedPage is one in a browser, until something fails.
type loadedPage struct {
	ctx     context.Context
	all     string // true when all snapshots are listed
	figures map[string][]float64
	err     error
}

func (p *loadedPage) do(actions ...chromedp.Action) {
	if p.err == nil {
		ctx, stop := context.WithTimeout(p.ctx, time.Minute)
		defer stop()
		p.err = chromedp.Run(ctx, actions...)
	}
}

func (p *loadedPage) number(js string) (n float64) {
	p.do(chromedp.Evaluate(js, &n, func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }))
	return n
}

// wait returns when an expression is true and painted.
func (p *loadedPage) wait(js string) {
	p.number(`new Promise((done) => {
		const look = () => (` + js + `) ? requestAnimationFrame(() => setTimeout(() => done(0))) : requestAnimationFrame(look);
		look();
	})`)
}

// timed is how long it takes from what do does until the page shows it.
func (p *loadedPage) timed(do func() error, until string) float64 {
	start := time.Now()
	p.err = errors.Join(p.err, do())
	p.wait(until)
	return ms(time.Since(start))
}

func (p *loadedPage) load(url string) {
	add := func(what string, n float64) { p.figures[what] = append(p.figures[what], n) }
	p.do(chromedp.Navigate(url))
	p.wait("window.painted")
	add("first", p.number("painted"))
	p.wait(p.all)
	add("frame", p.number(scrollPage))
	for _, file := range []string{"new", "changed"} {
		row := fmt.Sprintf(`[...document.querySelectorAll('#files [role=treeitem]')].find((e) => e.textContent.includes(%q))`, file)
		p.wait(row)
		add(file, p.timed(func() error { p.number(row + ".click(), 0"); return nil }, fmt.Sprintf(`document.querySelector('article[data-path=%s] tr.add')`, file)))
	}
	add("task", p.number("longest"))
}
