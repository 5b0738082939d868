package ui_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// textOf returns the lines 1 to n, some of them with another text.
func textOf(n int, other map[int]string) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		if text, ok := other[i]; ok {
			b.WriteString(text)
		} else {
			fmt.Fprintf(&b, "line %d\n", i)
		}
	}
	return b.String()
}

// as runs commands in the workspace as an actor.
func as(t *testing.T, m *harness.Mount, actor, commands string) {
	t.Helper()
	cmd := exec.Command("bash", "-c", `amberfs actor "$0" --pid $$ > /dev/null; set -e; eval "$1"`, actor, commands)
	cmd.Dir = m.Path()
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(harness.Binary(t))+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// damage changes one bit of a content in the packs of a store that is not mounted.
func damage(t *testing.T, store, content string) {
	t.Helper()
	packs, err := filepath.Glob(filepath.Join(store, "packs", "*"))
	must.OK(t, err)
	for _, pack := range packs {
		b, err := os.ReadFile(pack)
		must.OK(t, err)
		if i := bytes.Index(b, []byte(content)); i >= 0 {
			b[i] ^= 4
			must.OK(t, os.WriteFile(pack, b, 0o600))
			return
		}
	}
	t.Fatalf("no pack has %q", content)
}

// answer waits for a dialog that says something, and presses one of its buttons.
func (b *browser) answer(says, press string) {
	b.t.Helper()
	b.wait(fmt.Sprintf(`document.querySelector('#dialog').open && document.querySelector('#dialog').innerText.includes(%q)`, says))
	b.click("#dialog .actions button", press)
}

// undo presses Undo in a message, and dismisses the other messages.
func (b *browser) undo(says string) {
	b.t.Helper()
	b.press(fmt.Sprintf(`[...document.querySelectorAll('#messages > div')].find((e) => e.innerText.includes(%q)).querySelector('.link')`, says))
}

// said waits for a message.
func (b *browser) said(says string) {
	b.t.Helper()
	b.wait(fmt.Sprintf(`document.querySelector('#messages').innerText.includes(%q)`, says))
}

// heard waits for a text in a live region of the tree that screen readers get.
func (b *browser) heard(says string) {
	b.t.Helper()
	harness.Eventually(b.t, "a screen reader hears "+says, func() bool {
		nodes := map[accessibility.NodeID]*accessibility.Node{}
		var text *accessibility.Node
		b.do(chromedp.ActionFunc(func(ctx context.Context) error {
			all, err := accessibility.GetFullAXTree().Do(ctx)
			for _, n := range all {
				nodes[n.NodeID] = n
				if n.Name != nil && strings.Contains(string(n.Name.Value), says) {
					text = n
				}
			}
			return err
		}))
		for n := text; n != nil; n = nodes[n.ParentID] {
			for _, p := range n.Properties {
				if p.Name == accessibility.PropertyNameLive {
					return string(p.Value.Value) == `"polite"`
				}
			}
		}
		return false
	})
}

// menu chooses a line of a menu.
func (b *browser) menu(opener, text, line string) {
	b.t.Helper()
	b.click(opener, text)
	b.click(".menu button", line)
}

// chosen selects a snapshot, and waits until it is compared.
func (b *browser) chosen(title string) {
	b.t.Helper()
	b.press(fmt.Sprintf(`[...document.querySelectorAll('#snapshots .title .text')].find((e) => e.textContent === %q)`, title))
	b.wait(fmt.Sprintf(`document.querySelector('#subject h2').innerText.includes(%q) && document.querySelector('#counts').textContent`, title))
}

// TestActions clicks everything that changes files or snapshots, to its end, and looks at
// the files in the mount afterwards.
func TestActions(t *testing.T) {
	m := harness.New(t)
	put := func(path, content string) { t.Helper(); must.OK(t, os.WriteFile(m.Path(path), []byte(content), 0o644)) }
	put("damaged", "Vq7#x")
	put("text", textOf(60, nil))
	put("parts", textOf(60, nil))
	put("note", "one\n")
	put("log", "one\n")
	m.Amberfs("snapshot", "first", "-m", "The beginning")
	m.Stop()
	damage(t, m.Store, "Vq7#x")
	m.Start()
	as(t, m, "robot/1", `echo robot > note; echo robot > own; amberfs snapshot --turn -q -m "a turn of the robot"`)
	put("note", "a person, later\n")
	m.Amberfs("snapshot", "second", "-m", "A person's")
	b := open(t, m, "--write")
	says := func(selector string, words ...string) {
		t.Helper()
		for _, w := range words {
			b.wait(fmt.Sprintf(`document.querySelector(%q)?.innerText.includes(%q)`, selector, w))
		}
	}
	gone := func(path string) {
		t.Helper()
		harness.Eventually(t, path+" is gone", func() bool { _, err := os.Lstat(m.Path(path)); return os.IsNotExist(err) })
	}

	t.Log("a hunk")
	changed := map[int]string{5: "five\n", 50: "fifty\n"}
	put("text", textOf(60, changed))
	b.chosen("Now")
	b.wait(`document.querySelectorAll('#diffs [data-path=text] tr.add').length === 2`)
	b.click("#diffs [data-path=text] tr.hunk button", "Restore hunk")
	b.answer("1 line will be replaced by 1 line of second", "Restore hunk")
	b.has("text", textOf(60, map[int]string{50: "fifty\n"}))
	b.wait(`document.querySelectorAll('#diffs [data-path=text] tr.add').length === 1`)
	b.undo("Restored lines of text")
	b.has("text", textOf(60, changed))

	t.Log("a restore that keeps a file, and its undo")
	put("log", "two\n")
	b.wait(`document.querySelector('#counts').innerText.includes('2 files')`)
	b.chosen("A person's")
	b.click("#actions button", "Restore")
	says("#dialog", "2 files will change: 2 will be overwritten.")
	b.click("#dialog [aria-label='Change log']", "")
	b.answer("Files that you untick", "Restore")
	b.has("text", textOf(60, nil))
	b.has("log", "two\n")
	b.undo("Restored A person's: 1 file")
	b.has("text", textOf(60, changed))
	b.has("log", "two\n")

	t.Log("what an actor did")
	b.chosen("a turn of the robot")
	b.wait(`document.querySelector('#diffs [data-path=own] tr.add') && !document.querySelector('#diffs [data-path=own] tr.hunk')`)
	for _, way := range []struct{ choices, take, says, note string }{
		{"header", "Now", "1 file will change: 1 will be deleted.", "a person, later\n"},
		{".part", "Both", "2 files will change", "a person, later\none\n"},
		{"header", "Without robot/1", "2 files will change", "one\n"},
	} {
		b.chosen("a turn of the robot")
		b.menu("#subject button", "robot/1", "Undo everything")
		says("#conflicts [role=status]", "1 to decide")
		b.click("#conflicts article "+way.choices+" .choice button", way.take)
		b.click("#conflicts .actions button", "Undo")
		b.answer(way.says, "Undo")
		gone("own")
		b.has("note", way.note)
		b.undo("Undid the changes by robot/1")
		b.has("own", "robot\n")
		b.has("note", "a person, later\n")
	}

	t.Log("parts of a conflict")
	m.Amberfs("fork", "try")
	put(".forks/try/parts", textOf(60, map[int]string{2: "theirs 2\n", 12: "theirs 12\n", 22: "theirs 22\n", 32: "theirs 32\n", 42: "theirs 42\n"}))
	put("parts", textOf(60, map[int]string{2: "ours 2\n", 12: "ours 12\n", 22: "ours 22\n", 32: "ours 32\n", 52: "ours 52\n"}))
	must.OK(t, os.Remove(m.Path(".forks/try/note")))
	put("note", "of main\n")
	b.click("#workspaces [role=tab]", "try")
	b.click("#actions button", "Merge")
	b.wait(`document.querySelectorAll('#conflicts .part').length === 5`)
	says("#conflicts [aria-label=note] .ours", "8 B")
	says("#conflicts [aria-label=note] .theirs", "There is no file")
	b.click("#conflicts [aria-label=note] .choice button", "main")
	for i, side := range []string{"main", "try", "Both", "Base"} {
		b.click(fmt.Sprintf("#conflicts .part:nth-of-type(%d) .choice button", i+1), side)
	}
	says("#conflicts [role=status]", "All is decided")
	before, err := os.ReadFile(m.Path("parts"))
	must.OK(t, err)
	b.eval(`window.usual = fetch; window.open = new Promise((now) => { window.release = now; }); window.looks = 0;
		fetch = async (...of) => {
			if (of[0].includes("/list")) await open;
			const answer = await usual(...of);
			if (of[0].includes("/changes")) requestAnimationFrame(() => setTimeout(() => looks++));
			return answer;
		}`, nil)
	b.click("#conflicts .actions button", "Merge")
	b.answer("1 file will change", "Merge")
	b.said("Merged try")
	b.click("#forks-button", "Forks") // before the page has looked at what the merge changed
	b.eval("looks = 0; release()", nil)
	b.wait("looks > 0")
	b.wait("!document.querySelector('#forks').hidden")
	b.eval("fetch = usual", nil)
	b.has("parts", textOf(60, map[int]string{2: "ours 2\n", 12: "theirs 12\n", 22: "ours 22\ntheirs 22\n", 42: "theirs 42\n", 52: "ours 52\n"}))
	b.undo("Merged try")
	b.has("parts", string(before))

	t.Log("a merge without conflicts")
	m.Amberfs("fork", "good")
	put(".forks/good/new", "of a fork\n")
	b.click("#forks-button", "Forks")
	b.click("#forks [aria-label=good] button", "Merge")
	b.answer("1 file will change: 1 will be created.", "Merge")
	b.has("new", "of a fork\n")
	b.undo("Merged good: 1 file")
	gone("new")

	t.Log("a merge of one part of a file, without another file")
	put("parts", textOf(60, nil))
	m.Amberfs("fork", "half")
	put(".forks/half/parts", textOf(60, map[int]string{12: "theirs 12\n", 42: "theirs 42\n"}))
	put(".forks/half/new", "of a fork\n")
	put("parts", textOf(60, map[int]string{52: "ours 52\n"}))
	b.click("#forks [aria-label=half] button", "Merge")
	b.wait(`document.querySelector('#dialog').open`)
	b.click(`#dialog [aria-label="Parts of parts"]`, "")
	b.click(`#dialog [aria-label="Merge part 1 of parts"]`, "")
	b.click(`#dialog [aria-label="Change new"]`, "")
	b.answer("2 files will change", "Merge")
	b.has("parts", textOf(60, map[int]string{42: "theirs 42\n", 52: "ours 52\n"}))
	b.undo("Merged half: 1 file")
	gone("new")

	t.Log("a pin, a name, and the end of a snapshot")
	b.click("#workspaces [role=tab]", "main")
	of := func(line string) { t.Helper(); b.chosen("A person's"); b.menu("#actions button", "More actions", line) }
	b.set("#search", "manual") // the other rows are in the way
	shows := func(want string) {
		t.Helper()
		harness.Eventually(t, "the snapshot is "+want, func() bool {
			out, _ := m.TryAmberfs("list", "--all", "--json")
			return strings.Contains(strings.ReplaceAll(out, " ", ""), want)
		})
	}
	of("Pin")
	b.answer("1 snapshot will be kept", "Pin")
	shows(`"pinned":true`)
	b.undo("second is pinned")
	b.wait(`!document.querySelector('#snapshots [aria-label=pinned]')`)
	of("Rename")
	b.set("#new-name", "other")
	b.answer("1 snapshot will have another name", "Rename")
	shows(`"name":"other"`)
	b.undo("second is now called other")
	shows(`"name":"second"`)
	b.wait(`[...document.querySelectorAll('#snapshots .name')].some((e) => e.innerText === 'second')`)
	b.chosen("The beginning") // so that the menu is not of the snapshot by its former name
	of("Delete")
	b.answer("This cannot be undone", "Delete")
	b.wait(`!document.querySelector('#snapshots').innerText.includes("A person's")`)
	if out, err := m.TryAmberfs("show", "second"); err == nil {
		t.Errorf("it is still there: %s", out)
	}

	t.Log("a damaged file")
	b.chosen("The beginning")
	b.click("#files [role=treeitem]", "damaged")
	b.key("1")
	b.wait(`document.querySelector('#view').innerText.includes('amberfs verify')`)
}

// TestKeyboard restores, undoes and looks at a file with keys alone.
func TestKeyboard(t *testing.T) {
	m := harness.New(t)
	must.OK(t, os.WriteFile(m.Path("a"), []byte("one\n"), 0o644))
	m.Amberfs("snapshot", "first")
	must.OK(t, os.WriteFile(m.Path("a"), []byte("two\n"), 0o644))
	b := open(t, m, "--write")
	press := func(key string, until string) {
		t.Helper()
		for range 20 {
			b.do(chromedp.KeyEvent(key))
			var ok bool
			if b.eval("new Promise((drawn) => requestAnimationFrame(() => drawn(Boolean("+until+"))))", &ok); ok {
				return
			}
		}
		t.Fatalf("no %q led to %s", key, until)
	}
	b.wait(`document.querySelector('#diffs tr.add')`)
	press("t", `document.activeElement.id === 'snapshots'`)
	press(kb.ArrowDown, `document.querySelector('#snapshots .active')?.innerText.includes('first')`)
	b.wait(`document.querySelector('#subject h2').innerText.includes('first') && document.querySelector('#counts').textContent`)
	b.do(chromedp.KeyEvent("r"))
	b.wait(`document.querySelector('#dialog').open`)
	press(kb.Tab, `document.activeElement.innerText === 'Restore'`)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.has("a", "one\n")
	b.heard("Restored first: 1 file changed.")
	b.do(chromedp.KeyEvent("u"))
	b.has("a", "two\n")
	b.heard("Undone: 1 file changed.")
	b.chosen("Now")
	b.wait(`document.querySelector('#files [role=treeitem]')`)
	press("c", `document.activeElement.id === 'files'`)
	press(kb.ArrowDown, `document.querySelector('#files .active')`)
	b.do(chromedp.KeyEvent("3"))
	b.wait(`document.querySelector('#tabs [aria-selected=true]')?.innerText === 'History'`)
	press(kb.Escape, `document.querySelector('#diffs').offsetWidth`)
	press("?", `document.querySelector('#help').matches(':popover-open')`)
	press(kb.Escape, `!document.querySelector('#help').matches(':popover-open')`)
}

// TestNarrow: on a screen of 400 pixels one pane is seen at a time, and each leads back.
func TestNarrow(t *testing.T) {
	m := harness.New(t)
	must.OK(t, os.WriteFile(m.Path("a"), []byte("one\n"), 0o644))
	m.Amberfs("snapshot", "first")
	m.Amberfs("fork", "try")
	must.OK(t, os.WriteFile(m.Path(".forks/try/a"), []byte("three\n"), 0o644))
	must.OK(t, os.WriteFile(m.Path("a"), []byte("two\n"), 0o644))
	b := open(t, m, "--write")
	b.look("light", 400)
	seen := func(id string) {
		t.Helper()
		b.wait(fmt.Sprintf(`['timeline', 'tree', 'diffs', 'view', 'forks', 'conflicts'].filter((id) => document.getElementById(id).offsetWidth > 0).join() === %q
			&& document.documentElement.scrollWidth <= 400`, id))
	}
	seen("timeline")
	b.click("#snapshots [role=option]", "Now")
	seen("diffs")
	b.click("#subject button", "Back")
	seen("timeline")
	b.click("#snapshots [role=option]", "first")
	seen("diffs")
	b.eval(`history.back()`, nil)
	seen("timeline")
	b.click("#forks-button", "Forks")
	seen("forks")
	b.click("#forks button", "Merge")
	seen("conflicts")
	b.click("#conflicts button", "Back")
	seen("diffs")
}
