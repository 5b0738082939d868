package ui_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// on calls look on screens of several widths, in light and dark, and takes pictures if
// AMBERFS_SCREENSHOTS names a directory.
func (b *browser) on(name string, look func(width int64)) {
	b.t.Helper()
	dir := os.Getenv("AMBERFS_SCREENSHOTS")
	for _, width := range []int64{1440, 1024, 400} {
		for _, scheme := range []string{"light", "dark"} {
			b.look(scheme, width)
			b.frames()
			look(width)
			if dir != "" {
				b.screenshot(filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)))
			}
		}
	}
}

// is fails the test unless an expression is true.
func (b *browser) is(where, what string) {
	b.t.Helper()
	var ok bool
	b.eval("Boolean("+what+")", &ok)
	if !ok {
		b.t.Errorf("%s: not so: %s", where, what)
	}
}

// apart is true if the header's parts do not overlap and stay on the screen.
const headerFits = `(() => {
	const seen = [...document.querySelectorAll('#top > h1 > *, #workspaces > *, #more-workspaces > *, #forks-button, #top .actions > *')]
		.map((e) => e.getBoundingClientRect()).filter((r) => r.width > 0 && r.right > 0);
	return seen.every((r, i) => r.right <= innerWidth + 1 && (!i || seen[i - 1].right <= r.left + 1));
})()`

// cardsFit is true if what is in a card does not reach over its edge.
const cardsFit = `[...document.querySelectorAll('#forks .card')].every((c) =>
	[...c.querySelectorAll('header > *, p, .actions > *')].every((e) => e.getBoundingClientRect().right <= c.getBoundingClientRect().right))`

// whole is true if no text of some elements is cut off.
func whole(selector string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(%q)].every((e) => e.offsetWidth > 0 && e.scrollWidth <= e.clientWidth + 1)`, selector)
}

// TestCrowded looks at 500 snapshots, and at 20 forks with long names and actors.
func TestCrowded(t *testing.T) {
	const forks = 20
	m := harness.New(t)
	actor := "an-agent-with-a-very-long-name/19960"
	take(t, m, 490)
	as(t, m, actor, `for i in 1 2 3; do echo $i > a; amberfs snapshot -q step-$i -m "fix what the reviewer of the third part found in the tests of the parser, and say why: $i"; done`)
	for i := range forks {
		name := fmt.Sprintf("feature-the-same-beginning-of-a-long-name-%02d", i)
		m.Amberfs("fork", name)
		if i >= forks-4 {
			as(t, m, actor, "echo x > .forks/"+name+"/a")
		}
	}
	m.Amberfs("restore", "step-1")
	for i := range 1200 {
		must.OK(t, os.WriteFile(m.Path(fmt.Sprint("f", i)), nil, 0o644))
	}
	b := open(t, m, "--write")
	b.wait(`document.querySelectorAll('#snapshots .row.fork').length === 4 && /1,2\d\d changed files/.test(document.querySelector('#snapshots').innerText)`)
	b.wait(`document.querySelectorAll('#snapshots .fork .chip').length === 4`)
	b.on("crowded", func(width int64) {
		where := fmt.Sprint(width, " pixels")
		b.is(where, headerFits)
		b.is(where, `[...document.querySelectorAll('#workspaces [role=tab]')].filter((e) => !e.hidden).every((e) => e.offsetWidth > 30)`)
		if width > 800 {
			b.is(where, `document.querySelector('#more-workspaces button').offsetWidth > 0`)
			b.is(where, `document.querySelector('#where').offsetWidth > 20`)
		}
		b.is(where, whole("#snapshots .row.now .title .text"))
		b.is(where, `[...document.querySelectorAll('#snapshots .row.fork')].every((r) => {
			const [name, chip] = ['.ends', '.chip'].map((s) => r.querySelector(s).getBoundingClientRect().width);
			return name >= 80 && name > chip && r.querySelector('.ends').lastChild.offsetWidth > 30 && r.title.startsWith('feature-');
		})`)
		b.is(where, `document.querySelector('#snapshots .row.more').innerText.includes('16 more forks')`)
		b.is(where, `document.querySelector('#snapshots .row.fork').title.endsWith('19')`)
		b.is(where, `[...document.querySelectorAll('#snapshots .facts')].filter((f) => f.querySelector('.name')).every((f) => {
			const all = f.getBoundingClientRect(), name = f.querySelector('.name');
			return name.offsetWidth > 20 && name.getBoundingClientRect().bottom <= all.bottom + 1;
		})`)
		b.is(where, `[...document.querySelectorAll('#snapshots .row.two .title .text')].every((e) => e.offsetHeight > 30)`)
	})
	b.look("light", 1440)
	b.click("#more-workspaces button", "more")
	b.wait(`document.querySelectorAll('.menu button').length >= 12`)
	b.click(".menu button", "feature-the-same-beginning-of-a-long-name-00")
	b.wait(`document.querySelector('#workspaces [aria-selected=true]').title.endsWith('-00') && document.querySelector('#workspaces [aria-selected=true]').offsetWidth > 30`)
	b.is("the tab of a fork", headerFits)
	b.click("#workspaces [role=tab]", "main")
	b.wait(`document.querySelector('#snapshots .row.more')`)
	b.click("#snapshots .row.more", "more forks")
	b.wait(`document.querySelectorAll('#forks .card').length === 20`)
	b.on("forks", func(width int64) {
		b.is(fmt.Sprint(width, " pixels"), headerFits)
		b.is(fmt.Sprint(width, " pixels"), cardsFit)
	})
}

// TestManyRuns: the page of a directory with runs begins with these, those that can be applied
// first, and shows nothing of the copy that they come from.
func TestManyRuns(t *testing.T) {
	tmp, err := filepath.EvalSymlinks(t.TempDir())
	must.OK(t, err)
	t.Setenv("AMBERFS_RUNS", filepath.Join(tmp, "runs"))
	dir := filepath.Join(tmp, "a-project-with-a-long-name")
	must.OK(t, os.Mkdir(dir, 0o755))
	must.OK(t, os.WriteFile(filepath.Join(dir, "text"), []byte("one\n"), 0o644))
	amberfs := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(harness.Binary(t), args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	const runs, gone = 8, 2
	for i := range runs {
		amberfs("run", "--from", dir, "--name", fmt.Sprintf("run-of-an-agent-with-a-long-name-%d", i), "--", "sh", "-c", fmt.Sprintf("echo %d > new-%d; echo 'the work of an agent that says much about it'", i, i))
	}
	for i := range gone {
		amberfs("runs", "rm", "--yes", fmt.Sprintf("run-of-an-agent-with-a-long-name-%d", i))
	}
	amberfs("apply", "--yes", dir, "--run", "run-of-an-agent-with-a-long-name-2")
	b := openIn(t, dir, "--write")
	b.wait(fmt.Sprintf(`document.querySelectorAll('#forks > .cards .card').length === %d`, runs-gone))
	b.on("runs", func(width int64) {
		where := fmt.Sprint(width, " pixels")
		b.is(where, headerFits)
		b.is(where, `document.querySelector('#forks').offsetWidth > 300 && !document.querySelector('#timeline').offsetWidth`)
		b.is(where, `document.querySelector('#forks h2').innerText.startsWith('6 runs of ')`)
		b.is(where, `!/main|before refresh|Undo the last|Snapshot now/.test(document.body.innerText)`)
		b.is(where, cardsFit)
		b.is(where, `document.querySelector('#forks .card').ariaLabel.endsWith('-7')`)
		b.is(where, `document.querySelector('#forks .card .command').innerText.includes('sh -c')`)
		b.is(where, `[...document.querySelectorAll('#forks > .cards .card')].at(-1).ariaLabel.endsWith('-2') && [...document.querySelectorAll('#forks > .cards .primary')].at(-1).disabled`)
		b.is(where, `document.querySelector('#forks summary').innerText === '2 removed runs'`)
	})
	b.look("light", 1440)
	b.click("#forks .card button", "Open")
	b.wait(`document.querySelector('#timeline').offsetWidth && /The run ended/.test(document.querySelector('#snapshots').innerText)`)
	b.is("a run", headerFits)
	b.is("a run", `!/run=/.test(document.querySelector('#snapshots').innerText)`)
	b.on("run", func(int64) {
		// While the subject is drawn anew, it has no heading for a moment.
		b.wait(`!document.querySelector('#subject').offsetWidth || document.querySelector('#subject h2').offsetWidth > 30 && document.querySelector('#actions').getBoundingClientRect().right <= innerWidth`)
	})
	b.click("#forks-button", "Runs")
	b.wait(`document.querySelector('#forks').offsetWidth > 300`)
}

// TestButtonsStay: the buttons of a snapshot are the same before and after its changes have arrived,
// so that a click on one is not lost.
func TestButtonsStay(t *testing.T) {
	m := harness.New(t)
	must.OK(t, os.WriteFile(m.Path("a"), []byte("one\n"), 0o644))
	m.Amberfs("snapshot", "first")
	must.OK(t, os.WriteFile(m.Path("a"), []byte("two\n"), 0o644))
	m.Amberfs("snapshot", "second")
	b := open(t, m, "--write")
	b.chosen("second")
	b.hold("changes")
	b.click("#snapshots [role=option]", "first")
	b.wait(`held && document.querySelector('#subject h2').innerText === 'first'`)
	b.eval(`window.pressed = document.querySelector('#actions button')`, nil)
	b.eval(`release()`, nil)
	b.wait(`document.querySelector('#counts').textContent`)
	b.frames()
	b.is("after the changes arrived", `pressed.isConnected && pressed === document.querySelector('#actions button')`)
	b.eval(`pressed.click()`, nil)
	b.answer("1 file will change", "Restore")
	b.has("a", "one\n")

	t.Log("the button for the last undo point says what it does")
	b.chosen("Now")
	b.wait(`document.querySelector('#actions button').innerText === 'Undo the last restore'`)
	b.undo("Restored first")
	b.has("a", "two\n")
	b.wait(`document.querySelector('#actions button').innerText === 'Redo the last restore'`)
}
