// Package ui_test uses the page of `amberfs ui` in a real browser.
package ui_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	console "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// tests are those of this package; Run also ends the browser that they share.
type tests struct{ *testing.M }

func (m tests) Run() int {
	defer func() { endBrowser() }()
	return m.M.Run()
}

func TestMain(m *testing.M) { os.Exit(harness.Run(tests{m})) }

// endBrowser ends what startBrowser started.
var endBrowser = func() {}

// startBrowser starts a browser with one tab, which all tests use, one after the other: a
// start takes more than a second of processor time.
var startBrowser = sync.OnceValues(func() (context.Context, error) {
	name := ""
	for _, n := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(n); err == nil {
			name = p
			break
		}
	}
	if name == "" {
		return nil, errors.New("there is no browser; scripts/setup test installs one")
	}
	profile, err := os.MkdirTemp("", "browser-")
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(name), chromedp.NoSandbox,
		chromedp.UserDataDir(profile), chromedp.WindowSize(1440, 900), chromedp.WSURLReadTimeout(harness.Timeout))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closeTab := chromedp.NewContext(ctx)
	endBrowser = func() {
		closeTab()
		cancel()
		os.RemoveAll(profile) // the browser's processes may still write
	}
	return ctx, chromedp.Run(ctx, chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(patient).Do(ctx)
		return err
	}))
})

// A browser has the page of one mount open.
type browser struct {
	t   *testing.T
	m   *harness.Mount
	url string
	ctx context.Context
}

// serve runs `amberfs ui` until the test ends and returns the address.
func serve(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command(harness.Binary(t), append([]string{"-C", dir, "ui"}, args...)...)
	out, err := cmd.StdoutPipe()
	must.OK(t, err)
	cmd.Stderr = os.Stderr
	must.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	must.OK(t, err)
	return strings.TrimSpace(line)
}

// open opens the page of m in a browser that ends with the test.
func open(t *testing.T, m *harness.Mount, args ...string) *browser {
	t.Helper()
	b := openIn(t, m.Path(), args...)
	b.m = m
	b.wait(`document.querySelectorAll('#snapshots [role=option]').length > 0`)
	return b
}

// openIn opens the page of what is in a directory.
func openIn(t *testing.T, dir string, args ...string) *browser {
	t.Helper()
	b := &browser{t: t, url: serve(t, dir, args...)}
	tab, err := startBrowser()
	must.OK(t, err)
	t.Cleanup(func() { (&browser{t: t, ctx: tab}).do(chromedp.Navigate("about:blank")) })
	ctx, cancel := context.WithTimeout(tab, 20*time.Minute)
	t.Cleanup(cancel)
	b.ctx = ctx
	chromedp.ListenTarget(ctx, func(e any) {
		switch e := e.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("the page threw: %s", e.ExceptionDetails.Error())
		case *page.EventJavascriptDialogOpening:
			t.Errorf("the page opened a dialog: %s", e.Message)
		}
	})
	b.do(network.ClearBrowserCookies(), emulation.SetEmulatedMedia(), emulation.ClearDeviceMetricsOverride(), chromedp.Navigate(b.url))
	return b
}

// noErrors has each error that the browser's console shows fail the test.
func (b *browser) noErrors() {
	chromedp.ListenTarget(b.ctx, func(e any) {
		if e, ok := e.(*console.EventEntryAdded); ok && e.Entry.Level == console.LevelError {
			b.t.Errorf("the console has: %s %s", e.Entry.Text, e.Entry.URL)
		}
	})
	b.do(console.Enable())
}

// patient makes messages of the page stay until they are read: end is the function that takes one away.
const patient = `{ const real = window.setTimeout; window.setTimeout = (f, ms, ...rest) => real(f, f.name === "end" ? 1e9 : ms, ...rest); }`

func (b *browser) do(actions ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, harness.Timeout)
	defer cancel()
	must.OK(b.t, chromedp.Run(ctx, actions...))
}

func (b *browser) eval(js string, out any) {
	b.t.Helper()
	await := func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
	b.do(chromedp.Evaluate(js, out, await))
}

// wait waits until an expression of JavaScript is true. What it looks for may not be there yet.
func (b *browser) wait(js string) {
	b.t.Helper()
	if !harness.Poll(func() (ok bool) {
		b.eval("(() => { try { return Boolean("+js+") } catch { return false } })()", &ok)
		return ok
	}) {
		var text string
		b.eval("document.body.innerText", &text)
		b.t.Fatalf("the page never came to %s; it shows:\n%s", js, text)
	}
}

// click clicks the first element that the selector finds whose text has what is
// wanted.
func (b *browser) click(selector, text string) {
	b.t.Helper()
	b.press(fmt.Sprintf(`[...document.querySelectorAll(%q)].find((e) => e.textContent.includes(%q))`, selector, text))
}

// press waits for an element that an expression of JavaScript finds, and clicks it before the page
// can draw it anew.
func (b *browser) press(find string) {
	b.t.Helper()
	b.wait("((e) => e && (e.click(), true))(" + find + ")")
}

// set replaces the text of a field.
func (b *browser) set(selector, value string) {
	b.t.Helper()
	b.wait(fmt.Sprintf(`((e) => e && (e.value = %q, e.dispatchEvent(new Event('input')), true))(document.querySelector(%q))`, value, selector))
}

// key presses a key that the page as a whole takes.
func (b *browser) key(key string) {
	b.t.Helper()
	b.eval(fmt.Sprintf(`document.body.dispatchEvent(new KeyboardEvent('keydown', {key: %q, bubbles: true}))`, key), nil)
}

func (b *browser) write(path, content string) {
	b.t.Helper()
	must.OK(b.t, os.MkdirAll(filepath.Dir(b.m.Path(path)), 0o755))
	must.OK(b.t, os.WriteFile(b.m.Path(path), []byte(content), 0o644))
}

func (b *browser) has(path, content string) {
	b.t.Helper()
	harness.Eventually(b.t, path+" has "+content, func() bool {
		got, _ := os.ReadFile(b.m.Path(path))
		return string(got) == content
	})
}

func TestLookRestoreUndo(t *testing.T) {
	m := harness.New(t)
	put := func(path, content string) { must.OK(t, os.WriteFile(m.Path(path), []byte(content), 0o644)) }
	put("a.go", "package a\n\nfunc one() {}\n")
	must.OK(t, os.Mkdir(m.Path(".snapshots", "first"), 0o755))
	b := open(t, m, "--write")
	b.wait(`document.body.innerText.includes('first')`)

	b.write("a.go", "package a\n\nfunc two() {}\n")
	m.Amberfs("-C", m.Path(), "snapshot", "second", "-m", "a shell made it")
	b.wait(`document.querySelector('#snapshots').innerText.includes('a shell made it')`)

	b.click("#snapshots [role=option]", "a shell made it")
	b.click("#files [role=treeitem]", "a.go")
	b.wait(`document.querySelector('#diffs tr.del')?.innerText.includes('func one()')`)
	b.wait(`document.querySelector('#diffs tr.add')?.innerText.includes('func two()')`)
	b.key("1")
	b.wait(`document.querySelector('#view .row-line')?.innerText.includes('package a')`)
	b.click("#tabs [role=tab]", "History")
	b.wait(`document.querySelector('#view .history')?.innerText.includes('second')`)
	b.click("#tabs [role=tab]", "Events")
	b.wait(`document.querySelector('#view .history')?.innerText.includes('modified')`)

	b.click("#snapshots [role=option]", "first")
	b.click("article.file button", "Restore")
	b.wait(`document.querySelector('#dialog').open && document.querySelector('#dialog').innerText.includes('a.go')`)
	b.click("#dialog button", "Restore")
	b.has("a.go", "package a\n\nfunc one() {}\n")
	b.click("#messages button", "Undo")
	b.has("a.go", "package a\n\nfunc two() {}\n")

	b.write("log", "kept")
	b.write("note", "one")
	m.Amberfs("-C", m.Path(), "snapshot", "third")
	b.write("log", "kept too")
	must.OK(t, os.WriteFile(m.Path(".snapshots", "policy"), []byte(`{"restore_keeps":["log","none"]}`), 0o644))
	b.click("#snapshots [role=option]", "third")
	b.click("#actions button", "Restore")
	b.wait(`document.querySelector('#messages').innerText.includes('Kept as it is: log')`)
	b.write("note", "two")
	b.click("#actions button", "Restore")
	b.wait(`document.querySelector('#dialog').open && document.querySelector('#dialog').innerText.includes('Kept as it is: log')`)
	b.click("#dialog button", "Restore")
	b.has("note", "one")
	b.has("log", "kept too")
}

// A request that is given up while its answer comes changes nothing in the page.
func TestGivenUp(t *testing.T) {
	m := harness.New(t)
	must.OK(t, os.WriteFile(m.Path("a"), []byte("one\n"), 0o644))
	must.OK(t, os.Mkdir(m.Path(".snapshots", "first"), 0o755))
	b := open(t, m)
	b.eval(`{
		const real = window.fetch;
		window.held = 0;
		window.fetch = (address, options) => {
			if (!address.startsWith("/api/v1/changes") || window.held++) return real(address, options);
			const json = () => new Promise((_, fail) => options.signal.addEventListener("abort", () => fail(options.signal.reason)));
			return Promise.resolve({ ok: true, json });
		};
	}`, nil)
	b.write("a", "two\n")
	b.wait(`held >= 1`)
	b.click("#snapshots [role=option]", "first")
	b.wait(`document.querySelector('#files').innerText.includes('a')`)
	b.click("#snapshots [role=option]", "Now")
	b.wait(`document.querySelector('#snapshots').innerText.includes('1 changed file')`)
	var said string
	b.eval(`document.querySelector('#messages').innerText`, &said)
	if said != "" {
		t.Errorf("the page says %s", said)
	}
}

// Empty lines that are gone count as lines, side by side too.
func TestSideBySide(t *testing.T) {
	m := harness.New(t)
	must.OK(t, os.WriteFile(m.Path("text"), []byte("one\n\n\ntwo\n"), 0o644))
	must.OK(t, os.Mkdir(m.Path(".snapshots", "first"), 0o755))
	must.OK(t, os.WriteFile(m.Path("text"), []byte("one\ntwo\n"), 0o644))
	b := open(t, m)
	b.click("#files [role=treeitem]", "text")
	b.wait(`document.querySelector('#diffs tr.del')`)
	b.press(`document.querySelector('#sides')`)
	b.wait(`[...document.querySelectorAll('#diffs table.sides tr:not(.hunk) td.no:first-child')].map((e) => e.textContent).join() === '1,2,3,4'`)
}

func TestPromoteWithConflict(t *testing.T) {
	m := harness.New(t)
	put := func(path, content string) { must.OK(t, os.WriteFile(m.Path(path), []byte(content), 0o644)) }
	put("same", "base\n")
	put("other", "base\n")
	m.Amberfs("-C", m.Path(), "fork", "try")
	put(".forks/try/same", "theirs\n")
	put(".forks/try/other", "theirs\n")
	put("same", "ours\n")
	put("other", "ours\n")
	b := open(t, m, "--write")
	b.noErrors()
	b.wait(`document.querySelectorAll("#workspaces [role=tab]").length === 2`)
	b.key("s") // draws the title and the buttons of main, with its forks
	b.click("#workspaces [role=tab]", "try")
	b.click("#actions button", "Merge")
	b.click("#conflicts [aria-label=same] > header button", "try")
	b.click("#conflicts [aria-label=other] > header button", "main")
	b.click("#conflicts .actions button", "Merge")
	b.answer("1 file will change", "Merge")
	b.has("same", "theirs\n")
	b.has("other", "ours\n")
}

// TestHostile shows names and contents that would be something else than text.
func TestHostile(t *testing.T) {
	m := harness.New(t)
	names := []string{"<img src=x onerror=alert(1)>", "\u202egpj.exe", "a\nb", "\xff\xfe", strings.Repeat("n", 255), "\x1b[31mred"}
	for i, name := range names {
		content := "<script>alert(1)</script>\n"
		if i == 2 {
			content = strings.Repeat("x", 1<<20)
		}
		must.OK(t, os.WriteFile(m.Path(name), []byte(content), 0o644))
	}
	must.OK(t, os.WriteFile(m.Path("page.html"), []byte("<script>alert(1)</script>\n"), 0o644))
	m.Amberfs("-C", m.Path(), "snapshot", "s", "-m", "<b onmouseover=alert(1)>\u202emessage")
	b := open(t, m)
	b.click("#snapshots [role=option]", "<b onmouseover")
	b.wait(fmt.Sprintf(`document.querySelectorAll('#files [role=treeitem]').length === %d`, len(names)+1))
	for i := range len(names) + 1 {
		b.key("Escape")
		b.press(fmt.Sprintf(`document.querySelectorAll('#files [role=treeitem]')[%d]`, i))
		for _, tab := range []string{"1", "2", "3", "4"} {
			b.key(tab)
			b.wait(`!document.querySelector('#view').hasAttribute('aria-busy')`)
		}
	}
	var scripts, buttons int
	b.eval(`document.querySelectorAll('main script, main img, main b').length`, &scripts)
	b.eval(`document.querySelectorAll('#actions button, #file-head .actions button').length`, &buttons)
	if scripts != 0 {
		t.Errorf("%d elements came out of contents", scripts)
	}
	if buttons != 0 {
		t.Errorf("%d buttons without --write", buttons)
	}
	var bidi bool
	b.eval(`/[\u202a-\u202e\u001b]/.test(document.body.innerText)`, &bidi)
	if bidi {
		t.Error("characters that turn text round, or command terminals, are shown as they are")
	}
}

func TestRefused(t *testing.T) {
	m := harness.New(t)
	address, token, _ := strings.Cut(serve(t, m.Path(), "--write"), "/#token=")
	port := address[strings.LastIndexByte(address, ':'):]
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, "127.0.0.1"+port)
	}}}
	ask := func(method, path string, set func(*http.Request)) int {
		r, err := http.NewRequest(method, address+path, strings.NewReader("{}"))
		must.OK(t, err)
		if set != nil {
			set(r)
		}
		resp, err := client.Do(r)
		must.OK(t, err)
		resp.Body.Close()
		return resp.StatusCode
	}
	if got := ask("POST", "/api/v1/list", nil); got != 401 {
		t.Errorf("without a token: %d, want 401", got)
	}
	if got := ask("POST", "/api/v1/snapshot", nil); got != 401 {
		t.Errorf("a change without a token: %d, want 401", got)
	}
	for _, host := range []string{"evil.example", "localhost" + port, "127.0.0.1" + port, "other.localhost" + port} {
		if got := ask("GET", "/", func(r *http.Request) { r.Host = host }); got != 403 {
			t.Errorf("the host %s: %d, want 403", host, got)
		}
	}
	if got := ask("POST", "/session", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }); got != 403 {
		t.Errorf("another site: %d, want 403", got)
	}
	if len(token) != 64 {
		t.Errorf("the token has %d digits, want 256 bits", len(token))
	}
}

// TestEarlierServer: a service worker that an earlier server on the same port left in the browser answers
// nothing of the page.
func TestEarlierServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	earlier := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", map[bool]string{true: "text/javascript", false: "text/html"}[r.URL.Path == "/worker.js"])
		if r.URL.Path == "/worker.js" {
			fmt.Fprint(w, `onfetch = e => e.respondWith(new Response("<title>taken</title>", {headers: {"Content-Type": "text/html"}}))`)
			return
		}
		fmt.Fprint(w, `<title>earlier</title><script>navigator.serviceWorker.register("/worker.js").then(() => navigator.serviceWorker.ready).then(() => document.title = "left")</script>`)
	})}
	go earlier.Serve(l)
	m := harness.New(t)
	b := open(t, m)
	title := func(address, want string) {
		t.Helper()
		must.OK(t, chromedp.Run(b.ctx, chromedp.Navigate(address)))
		b.wait("document.title === " + strconv.Quote(want))
	}
	at := "http://" + l.Addr().String() + "/"
	title(at, "left")
	title(at, "taken")
	earlier.Close()
	address := serve(t, m.Path(), "--listen", l.Addr().String())
	title(at, "taken") // it is still in the browser
	b.do(chromedp.Navigate(address))
	b.wait(`document.title.endsWith("amberfs") && document.querySelectorAll('#snapshots [role=option]').length > 0`)
}

// TestOpen: the address with its token is in no command line, and in no file that others
// can read.
func TestOpen(t *testing.T) {
	m := harness.New(t)
	bin, seen := t.TempDir(), filepath.Join(t.TempDir(), "seen")
	script := "#!/bin/sh\n{ echo \"$#\"; stat -c %a \"$1\"; echo \"$1\"; cat \"$1\"; } > " + seen + ".new; mv " + seen + ".new " + seen + "\n"
	must.OK(t, os.WriteFile(filepath.Join(bin, "xdg-open"), []byte(script), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	address := serve(t, m.Path(), "--open")
	var got []byte
	harness.Eventually(t, "the browser is started", func() bool {
		var err error
		got, err = os.ReadFile(seen)
		return err == nil
	})
	lines := strings.SplitN(string(got), "\n", 4)
	if lines[0] != "1" || lines[1] != "600" || strings.Contains(lines[2], "token") || !strings.Contains(lines[3], address) {
		t.Errorf("the browser got %s, for %s", got, address)
	}
}

// TestDialog: Enter makes the snapshot, and a refused name stays to be corrected.
func TestDialog(t *testing.T) {
	m := harness.New(t)
	must.OK(t, os.WriteFile(m.Path("a"), []byte("one\n"), 0o644))
	must.OK(t, os.Mkdir(m.Path(".snapshots", "first"), 0o755))
	b := open(t, m, "--write")
	b.click("#snapshot-button", "")
	b.do(chromedp.SendKeys("#new-name", "first"), chromedp.SendKeys("#new-message", "a text\r"))
	b.wait(`document.querySelector('#dialog [role=alert]').textContent.includes('name in use')`)
	b.wait(`document.querySelector('#dialog').open && document.querySelector('#new-message').value === 'a text'`)
	b.do(chromedp.SendKeys("#new-name", "-2\r"))
	b.wait(`!document.querySelector('#dialog').open && document.querySelector('#snapshots').innerText.includes('first-2')`)
	if out := m.Amberfs("show", "first-2"); !strings.Contains(out, "a text") {
		t.Errorf("the snapshot is %s", out)
	}
}

// TestNow: what changed since the newest snapshot is counted again after a restore, also
// while something else is selected.
func TestNow(t *testing.T) {
	m := harness.New(t)
	for _, name := range []string{"a", "b", "c"} {
		must.OK(t, os.WriteFile(m.Path(name), []byte("one\n"), 0o644))
	}
	must.OK(t, os.Mkdir(m.Path(".snapshots", "first"), 0o755))
	for _, name := range []string{"a", "b", "c"} {
		must.OK(t, os.WriteFile(m.Path(name), []byte("two\n"), 0o644))
	}
	must.OK(t, os.Mkdir(m.Path(".snapshots", "second"), 0o755))
	must.OK(t, os.WriteFile(m.Path("a"), []byte("three\n"), 0o644))
	b := open(t, m, "--write")
	b.wait(`document.querySelector('#snapshots').innerText.includes('1 changed file')`)
	b.click("#snapshots [role=option]", "first")
	b.click("#actions button", "Restore")
	b.click("#dialog button", "Restore")
	b.wait(`document.querySelector('#snapshots').innerText.includes('3 changed files')`)
}

// TestForkGone: the tab of a fork goes when the fork ends, also the one that is shown.
func TestForkGone(t *testing.T) {
	m := harness.New(t)
	m.Amberfs("fork", "left")
	m.Amberfs("fork", "right")
	b := open(t, m)
	b.click("#workspaces [role=tab]", "left")
	b.wait(`document.querySelector('#workspaces [aria-selected=true]').innerText.includes('left')`)
	m.Amberfs("fork", "--discard", "right")
	b.wait(`!document.querySelector('#workspaces').innerText.includes('right')`)
	m.Amberfs("fork", "--discard", "left")
	b.wait(`document.querySelector('#workspaces').innerText.trim() === 'main'`)
	b.wait(`document.querySelector('#workspaces [aria-selected=true]').innerText === 'main'`)
}

// TestAccessible runs axe-core on each view, in light and dark, wide and narrow.
func TestAccessible(t *testing.T) {
	axe, err := os.ReadFile("../../bin/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("%v; scripts/setup test installs it", err)
	}
	m := harness.New(t)
	must.OK(t, os.WriteFile(m.Path("a.go"), []byte("package a\n"), 0o644))
	must.OK(t, os.Mkdir(m.Path("d"), 0o755))
	must.OK(t, os.WriteFile(m.Path("d", "b.txt"), []byte("b\n"), 0o644))
	m.Amberfs("-C", m.Path(), "snapshot", "s", "-m", "first", "--label", "k=v")
	m.Amberfs("-C", m.Path(), "fork", "try")
	must.OK(t, os.WriteFile(m.Path("a.go"), []byte("package b\n"), 0o644))
	b := open(t, m, "--write")
	b.do(page.SetBypassCSP(true))
	b.do(chromedp.Navigate(strings.Split(b.url, "#")[0]))
	b.click("#files [role=treeitem]", "a.go")
	b.key("1")
	looks := 1 // TestViews looks at the other screens
	if harness.LongTests() {
		looks = 4
	}
	for _, look := range []struct {
		scheme string
		width  int64
	}{{"light", 1440}, {"dark", 1440}, {"light", 400}, {"dark", 3840}}[4-looks:] {
		b.look(look.scheme, look.width)
		for _, tab := range []string{"Diff", "File", "History", "Events"} {
			b.click("#tabs [role=tab]", tab)
			b.wait(`!document.querySelector('#view').hasAttribute('aria-busy')`)
			b.axe(string(axe), fmt.Sprintf("%s, %s, %d pixels", tab, look.scheme, look.width))
		}
	}
	b.click("#help-button", "?")
	b.axe(string(axe), "the help")
}

func (b *browser) axe(source, where string) {
	b.t.Helper()
	b.eval("typeof axe === 'undefined' ? (0, eval)("+quoted(source)+") && 0 : 0", nil)
	var found []struct {
		ID, Impact, Help string
		Nodes            []struct{ HTML, FailureSummary string }
	}
	b.eval(`axe.run(document, {resultTypes: ['violations']}).then((r) => r.violations)`, &found)
	for _, v := range found {
		b.t.Errorf("%s: %s (%s): %s: %.300s: %s", where, v.ID, v.Impact, v.Help, v.Nodes[0].HTML, v.Nodes[0].FailureSummary)
	}
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
