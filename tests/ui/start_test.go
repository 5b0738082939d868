package ui_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// hold keeps back the answers to an operation until the page calls release.
func (b *browser) hold(op string) {
	b.t.Helper()
	b.eval(fmt.Sprintf(`{
		const real = window.fetch, gate = new Promise((open) => { window.release = open; });
		window.held = 0;
		window.fetch = async (address, options) => {
			const answer = await real(address, options);
			if (address.startsWith("/api/v1/" + %q)) { held++; await gate; }
			return answer;
		};
	}`, op), nil)
}

// reload loads the page again, and runs a script in it first.
func (b *browser) reload(first string) {
	b.t.Helper()
	b.do(chromedp.ActionFunc(func(ctx context.Context) error {
		id, err := page.AddScriptToEvaluateOnNewDocument(first).Do(ctx)
		b.t.Cleanup(func() { b.do(page.RemoveScriptToEvaluateOnNewDocument(id)) })
		return err
	}), chromedp.Navigate(strings.Split(b.url, "#")[0]))
}

// frames lets the page draw ten times.
func (b *browser) frames() {
	b.t.Helper()
	b.eval(`(async () => {
		for (let i = 0; i < 10; i++) await new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)));
	})()`, nil)
}

// selected fails the test unless a row is selected and the header is about it.
func (b *browser) selected(title string) {
	b.t.Helper()
	var row, header string
	b.eval(`document.querySelector('#snapshots [aria-selected=true]').innerText`, &row)
	b.eval(`document.querySelector('#subject h2').innerText`, &header)
	if !strings.Contains(row, title) || header != title {
		b.t.Errorf("the row %q is selected and the header says %q; both must say %q", row, header, title)
	}
}

// TestChosenWhileLoading: a row that is clicked before all of a workspace is loaded stays
// selected.
func TestChosenWhileLoading(t *testing.T) {
	m := harness.New(t)
	must.OK(t, os.WriteFile(m.Path("a"), []byte("one\n"), 0o644))
	m.Amberfs("snapshot", "first", "-m", "A person's")
	m.Amberfs("fork", "try")
	b := open(t, m)
	b.click("#workspaces [role=tab]", "try")
	b.wait(`document.querySelector('#workspaces [aria-selected=true]').innerText.includes('try')`)
	b.hold("forks")
	b.click("#workspaces [role=tab]", "main")
	b.wait(`held`)
	b.click("#snapshots [role=option]", "A person's")
	b.wait(`document.querySelector('#counts').textContent`)
	b.eval(`release()`, nil)
	b.frames()
	b.selected("A person's")

	b.reload(`new MutationObserver((_, observer) => {
		const row = [...document.querySelectorAll('#snapshots [role=option]')].find((e) => e.textContent.includes("A person's"));
		if (row) { observer.disconnect(); window.clicked = true; row.click(); }
	}).observe(document, { childList: true, subtree: true })`)
	b.wait(`window.clicked && document.querySelector('#counts')?.textContent`)
	b.frames()
	b.selected("A person's")
}

// TestBrokenConnection: requests that get no answer while the page begins are sent again.
func TestBrokenConnection(t *testing.T) {
	const snapshots = 150 // the first answer has 100
	all := fmt.Sprintf(`document.querySelector('#snapshots').scrollHeight > %d && document.querySelector('#banner').hidden`, 50*snapshots)
	m := harness.New(t)
	take(t, m, snapshots)
	m.Amberfs("fork", "try")
	b := open(t, m)
	b.wait(all)
	b.reload(`{
		const real = window.fetch, broken = () => Promise.reject(new TypeError('Failed to fetch'));
		window.lists = 0;
		window.fetch = (address, options) => {
			if (sessionStorage.getItem('away')) return broken();
			return address.startsWith('/api/v1/list') && ++lists === 2 ? broken() : real(address, options);
		};
	}`)
	b.wait(`lists >= 3`)
	b.wait(all)

	b.eval(`sessionStorage.setItem('away', 'yes')`, nil)
	b.do(chromedp.Reload())
	b.wait("document.querySelector('#banner').innerText.includes('does not answer')")
	b.eval(`sessionStorage.clear()`, nil)
	b.wait(all)
	must.OK(t, os.WriteFile(m.Path(".forks/try/new"), nil, 0o644))
	b.wait(`document.querySelector('#snapshots').innerText.includes('1 file')`)
}

// TestLastChange: the button that undoes the last change says what that was.
func TestLastChange(t *testing.T) {
	m := harness.New(t)
	must.OK(t, os.WriteFile(m.Path("a"), []byte("one\n"), 0o644))
	m.Amberfs("snapshot", "first")
	m.Amberfs("fork", "try")
	must.OK(t, os.WriteFile(m.Path(".forks/try/a"), []byte("two\n"), 0o644))
	m.Amberfs("merge", "try")
	b := open(t, m, "--write")
	b.wait(`document.querySelector('#actions').innerText.includes('Undo the last merge')`)
	m.Amberfs("restore", "first")
	b.wait(`document.querySelector('#actions').innerText.includes('Undo the last restore')`)
}

// TestColours: an actor has the same colour in the page, whoever else is in it.
func TestColours(t *testing.T) {
	m := harness.New(t)
	as(t, m, "anna", `echo 1 > a; amberfs snapshot --turn -q -m one`)
	as(t, m, "claude/1", `echo 2 > a; amberfs snapshot --turn -q -m two`)
	colours := func(b *browser) (of map[string]string) {
		t.Helper()
		b.wait(`document.querySelectorAll('#snapshots .chip').length >= 2`)
		b.eval(`Object.fromEntries([...document.querySelectorAll('#snapshots .chip')].map((e) => [e.textContent, e.className]))`, &of)
		return of
	}
	before := colours(open(t, m))
	as(t, m, "zed", `echo 3 > a; amberfs snapshot --turn -q -m three`)
	after := colours(open(t, m))
	for _, actor := range []string{"anna", "claude/1"} {
		if before[actor] == "" || before[actor] != after[actor] {
			t.Errorf("%s was %q and is %q", actor, before[actor], after[actor])
		}
	}
}

// TestProgress: while the daemon computes what an operation changes, the page says so.
func TestProgress(t *testing.T) {
	m := harness.New(t)
	must.OK(t, os.WriteFile(m.Path("a"), []byte("one\n"), 0o644))
	m.Amberfs("snapshot", "first")
	as(t, m, "robot/1", `echo 2 > a; amberfs snapshot --turn -q -m "a turn"`)
	b := open(t, m, "--write")
	b.chosen("a turn")
	shown := func(what string) {
		t.Helper()
		b.wait(`held`)
		var now string
		b.eval(`document.querySelector('#messages').innerText`, &now)
		if !strings.Contains(now, what) {
			t.Errorf("the page says %q while it waits, not %q", now, what)
		}
		b.eval(`release()`, nil)
	}
	b.hold("undo-by")
	b.menu("#subject button", "robot/1", "Undo everything")
	shown("Computing what will change …")
	b.wait(`document.querySelector('#dialog').open && !document.querySelector('#messages').innerText`)
	b.hold("undo-by")
	b.answer("1 file will change", "Undo")
	shown("Changing 1 file …")
	b.has("a", "one\n")
	b.said("Undid the changes by robot/1")
}

// TestKeysWhileLoading presses the keys of the list of changes before the page has anything to compare, and before it has
// the changes.
func TestKeysWhileLoading(t *testing.T) {
	m := harness.New(t)
	must.OK(t, os.WriteFile(m.Path("text"), []byte("one\n"), 0o644))
	b := open(t, m)
	b.reload(`{
		const press = () => { for (const key of "snpx") document.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })); };
		const real = window.fetch;
		window.pressed = [];
		window.fetch = (address, options) => {
			if (address.startsWith("/api/v1/changes")) { press(); pressed.push("changes"); }
			return real(address, options);
		};
		addEventListener("DOMContentLoaded", () => { press(); pressed.push("nothing"); });
	}`)
	b.wait(`pressed.includes("nothing") && pressed.includes("changes") && document.querySelector('#files').innerText.includes('text')`)
}
