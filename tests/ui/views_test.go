package ui_test

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// work is a repository that a person, two agents and two forks changed.
const work = `
set -e
as() { bash -c 'amberfs actor "$0" --pid $$ > /dev/null; set -e; eval "$1"' "$1" "$2"; } # ACTOR COMMANDS
turn() { amberfs snapshot --turn -q -m "$1"; }
export -f turn
amberfs actor anna --pid $$ > /dev/null
mkdir -p ledger docs && cp -r "$SRC"/diff ledger/diff && cp -r "$SRC"/internal/budget ledger/budget && rm -rf ledger/*/testdata
cp "$SRC"/go.mod "$SRC"/LICENSE . && printf '# Ledger\n' > README.md && echo '{"name":"ledger","lockfileVersion":3}' > package-lock.json
printf 'caf\351\n' > $'docs/caf\351.txt' && head -c 3000 /dev/zero > ledger/table.bin && cp "$PICTURES"/before.png docs/logo.png
git init -q . && git add -A && git commit -qm begin
amberfs snapshot begin -q -m "Ledger as it was handed over" --pin
as claude/ab12 '
  turn "explain how hunks are computed"
  sed -i "s/hunk/group/g" ledger/diff/hunks.go && turn "name the groups of changed lines as what they are"
  sed -i "1i // Part of the ledger.\n" ledger/*/*.go && turn "say in each file what it is part of"
  for i in 1 2 3 4 5; do printf "func Test%s(t *testing.T) {}\n" $i >> ledger/diff/hunks_test.go; turn "add test $i for empty files"; done
  printf "# Ledger\n\nDifferences between trees, and what they cost.\n" > README.md && turn "write a README"
  for f in api cases cost errors faq glossary limits memory names paths; do printf "# %s\n\nTo be written.\n" $f > docs/$f.md; done; turn "outline the documentation"
'
amberfs fork faster-diff > /dev/null && amberfs fork docs-only --ttl 7d > /dev/null
as codex/7 '
  git mv ledger/budget ledger/limits && turn "move the limits to a package of their own"
  sed -i "s/Take/Charge/g" ledger/limits/*.go && sed -i "s/budget/limits/g" ledger/diff/*.go && turn "call it limits everywhere"
  cp "$PICTURES"/after.png docs/logo.png && printf "caf\351 au lait\n" > $(printf "docs/caf\351.txt") && head -c 4000 /dev/urandom > ledger/table.bin
  echo "{\"name\":\"ledger\",\"lockfileVersion\":4}" > package-lock.json && turn "a new logo, and the table that goes with it"
'
amberfs snapshot reviewed -q -m "Reviewed with Berta: limits are fine"
as claude/ab12 'sed -i "s/return nil/return errEmpty/" ledger/diff/lines.go ledger/diff/options.go && turn "return an error for empty files" && rm ledger/diff/doc.go && turn "remove what is not needed"'
amberfs restore reviewed > /dev/null
(cd .forks/faster-diff && as explore/2 'sed -i "s/contextLines *= 3 /contextLines = 5 /" ledger/diff/options.go && sed -i "3i Twice as fast as before.\n" README.md && amberfs snapshot -q -m "compare in one pass" --label check=passed')
(cd .forks/docs-only && as claude/cd34 'mkdir -p docs && for f in use install licence; do printf "# %s\n\nText.\n" $f > docs/$f.md; done')
sed -i 's/contextLines *= 3 /contextLines = 4 /' ledger/diff/options.go && printf '# Ledger\n\nDifferences between trees: what they are, and what they cost.\n' > README.md
as claude/ab12 'for f in ledger/diff/*.go; do echo "// checked" >> $f; done'
`

// ledger makes the repository in a new mount.
func ledger(t *testing.T) *harness.Mount {
	t.Helper()
	source, err := filepath.Abs("../..")
	must.OK(t, err)
	pictures := t.TempDir()
	for name, blue := range map[string]uint8{"before": 90, "after": 220} {
		logo := image.NewRGBA(image.Rect(0, 0, 240, 160))
		for y := range 160 {
			for x := range 240 {
				logo.Set(x, y, color.RGBA{uint8(x / 80 * 80), uint8(y / 80 * 80), blue, 255})
			}
		}
		var b bytes.Buffer
		must.OK(t, png.Encode(&b, logo))
		must.OK(t, os.WriteFile(filepath.Join(pictures, name+".png"), b.Bytes(), 0o644))
	}
	m := harness.New(t)
	cmd := exec.Command("bash", "-c", work)
	cmd.Dir = m.Path()
	cmd.Env = append(os.Environ(), "SRC="+source, "PICTURES="+pictures, "PATH="+filepath.Dir(harness.Binary(t))+":"+os.Getenv("PATH"),
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return m
}

// A view is one look of the page: what leads to it, and what it has then.
type view struct {
	name, scheme string
	width        int64
	do           func(b *browser)
	has          string
}

func snapshotOf(message string) func(*browser) {
	return func(b *browser) {
		b.click("#snapshots [role=option]", message)
		b.wait(`document.querySelector('#counts')?.textContent`)
	}
}

var views = []view{
	{"changes", "light", 1440, snapshotOf("13 turns by"), `document.querySelectorAll('#diffs article').length >= 30 && document.querySelector('#diffs tr.add')`},
	{"side-by-side", "dark", 1440, func(b *browser) {
		b.press(`document.querySelector('#snapshots .unfold')`)
		snapshotOf("call it limits")(b)
		b.wait(`document.querySelector('#subject').innerText.includes('codex/7')`)
		b.key("s")
	}, `document.querySelector('#diffs table.sides tr')`},
	{"images", "light", 1440, func(b *browser) {
		b.key("s")
		snapshotOf("a new logo")(b)
		b.click("#files [role=treeitem]", "logo.png")
	}, `document.querySelectorAll('#diffs img').length >= 2`},
	{"blame", "light", 1440, func(b *browser) {
		snapshotOf("Now")(b)
		b.click("#files [role=treeitem]", "hunks_test.go")
		b.key("1")
		b.wait(`document.querySelector('#view .blame')`)
		b.eval(`document.querySelector('#view').scrollTop = 10000`, nil) // what several changed is at the end
	}, `[...document.querySelectorAll('#view .blame')].some((e) => e.innerText.includes('claude'))`},
	{"history", "dark", 1440, func(b *browser) { b.click("#tabs [role=tab]", "History") }, `document.querySelector('#view .history')?.innerText.includes('test 3')`},
	{"forks", "light", 1440, func(b *browser) { b.click("#forks-button", "Forks") }, `document.querySelectorAll('#forks .card').length === 2`},
	{"conflict", "dark", 1440, func(b *browser) {
		b.click("#forks [aria-label=faster-diff] button", "Merge")
		b.click("#conflicts .part .choice button", "Both")
	},
		`document.querySelectorAll('#conflicts article').length === 2 && document.querySelector('#conflicts').innerText.includes('contextLines = 5')`},
	{"restore", "light", 1440, func(b *browser) {
		b.eval(`document.querySelector('#snapshots').scrollTop = 10000`, nil)
		snapshotOf("Ledger as it was handed over")(b)
		b.click("#actions button", "Restore")
	}, `document.querySelector('#dialog').open && document.querySelector('#dialog').innerText.includes('hunks.go')`},
	{"undo-by", "dark", 1440, func(b *browser) {
		b.click("#dialog button", "Cancel")
		b.eval(`document.querySelector('#snapshots').scrollTop = 0`, nil)
		snapshotOf("remove what is not needed")(b)
		b.click("#subject button", "claude/ab12")
		b.click(".menu button", "Undo everything")
	}, `/[1-9] to decide/.test(document.querySelector('#conflicts').innerText) && document.querySelector('#conflicts').innerText.includes('Without claude/ab12')`},
	{"search", "light", 1440, func(b *browser) {
		b.click("#conflicts button", "Back")
		b.set("#search", "nothing of this")
	}, `document.querySelector("#timeline").innerText.includes("No snapshot has")`},
	{"narrow", "light", 400, func(b *browser) {
		b.set("#search", "")
		b.eval(`document.body.dataset.pane = 'timeline'; document.querySelector('#snapshots').scrollTop = 0`, nil)
	}, `document.querySelector('#snapshots').innerText.includes('Reviewed')`},
	{"narrow-changes", "dark", 400, snapshotOf("13 turns by"), `document.querySelector('#diffs').offsetWidth > 300 && document.querySelector('#diffs tr.add')`},
}

// TestViews looks at the page as a person would: everything is there, axe-core finds nothing,
// and the pictures go to AMBERFS_SCREENSHOTS, if that names a directory.
func TestViews(t *testing.T) {
	axe, err := os.ReadFile("../../bin/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("%v; scripts/setup test installs it", err)
	}
	b := open(t, ledger(t), "--write")
	b.do(page.SetBypassCSP(true))
	b.do(chromedp.Navigate(strings.Split(b.url, "#")[0]))
	dir := os.Getenv("AMBERFS_SCREENSHOTS")
	for _, v := range views {
		b.look(v.scheme, v.width)
		t.Log(v.name)
		v.do(b)
		b.wait(v.has)
		b.wait(`[...document.querySelectorAll('#diffs article:not(.folded)')].every((a) => {
			const { top, bottom } = a.getBoundingClientRect();
			return bottom <= 0 || top > innerHeight || a.lastChild.childElementCount > 0;
		})`)
		b.wait(`!document.querySelector('[aria-busy=true]') && !/Comparing …|Loading/.test(document.body.innerText)`)
		// The mount point is a temporary directory.
		b.eval(`{ const w = document.querySelector('#where'); w.textContent = '~/ledger'; }
			Promise.all(document.getAnimations().map((a) => a.finished)).then(() => 0)`, nil)
		b.frames()
		b.axe(string(axe), v.name)
		if dir != "" {
			b.screenshot(filepath.Join(dir, v.name+".png"))
		}
	}
}

// look emulates a screen.
func (b *browser) look(scheme string, width int64) {
	b.t.Helper()
	b.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
		chromedp.EmulateViewport(width, 900))
	b.eval(`new Promise((drawn) => {
		const look = () => matchMedia('(prefers-color-scheme: `+scheme+`)').matches && innerWidth === `+fmt.Sprint(width)+`
			? requestAnimationFrame(() => requestAnimationFrame(() => drawn(0))) : setTimeout(look, 10);
		look();
	})`, nil)
}

// screenshot writes a picture with at most 256 colours, which is a third of the size.
func (b *browser) screenshot(file string) {
	b.t.Helper()
	var shot []byte
	b.do(chromedp.CaptureScreenshot(&shot))
	full, err := png.Decode(bytes.NewReader(shot))
	must.OK(b.t, err)
	often := map[color.RGBA]int{}
	for y := range full.Bounds().Dy() {
		for x := range full.Bounds().Dx() {
			c := color.RGBAModel.Convert(full.At(x, y)).(color.RGBA)
			often[c]++
		}
	}
	colours := make([]color.RGBA, 0, len(often))
	for c := range often {
		colours = append(colours, c)
	}
	slices.SortFunc(colours, func(a, b color.RGBA) int { return often[b] - often[a] })
	var palette color.Palette
	for _, c := range colours { // those that are like another leave room for rare ones
		if len(palette) == 0 || len(palette) < 256 && apart(c, palette.Convert(c).(color.RGBA)) > 12 {
			palette = append(palette, c)
		}
	}
	small, near := image.NewPaletted(full.Bounds(), palette), map[color.Color]uint8{}
	for y := range full.Bounds().Dy() {
		for x := range full.Bounds().Dx() {
			c := full.At(x, y)
			if _, ok := near[c]; !ok {
				near[c] = uint8(palette.Index(c))
			}
			small.SetColorIndex(x, y, near[c])
		}
	}
	var out bytes.Buffer
	must.OK(b.t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small))
	must.OK(b.t, os.WriteFile(file, out.Bytes(), 0o644))
}

// apart is how far two colours are from each other.
func apart(a, b color.RGBA) (sum int) {
	for _, pair := range [][2]uint8{{a.R, b.R}, {a.G, b.G}, {a.B, b.B}} {
		sum += int(max(pair[0], pair[1]) - min(pair[0], pair[1]))
	}
	return sum
}
