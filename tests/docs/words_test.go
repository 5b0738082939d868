package docs_test

import (
	"regexp"
	"strings"
	"testing"
)

// odd are phrases that do not occur in the documentation and in help texts, with a
// better word.
var odd = map[string]string{
	`\bwhoever\b`:                          "name the subject",
	`\bwho (has|waits|reads|asks|comes)\b`: "name the subject",
	`\bcomes? to be\b`:                     "becomes",
	`\bby itself\b`:                        "automatically",
	`\bof which\b`:                         "two sentences",
	`\bmends?\b|\bmended\b`:                "fix",
	`\bstoreys?\b`:                         "layer",
	`\banew\b`:                             "again",
	`\btells? of\b`:                        "reports",
	`\bwhat is there\b`:                    "name the object",
	`\bthat there (is|are)\b`:              "cut",
	`\bgets? to know\b`:                    "adds",
	`\bmade-up\b`:                          "generated",
	`\b(bring|brings|brought|take|takes|took|go|goes|went) (it )?back\b`: "restore, undo",
	`\bcarr(y|ies|ied)\b`:         "apply, merge",
	`\bin vain\b`:                 "without an answer",
	`\bfor ever\b`:                "without limit",
	`\bnobody's\b|\bsomebody's\b`: "name the subject",
}

// retired are words that users no longer meet, with the word that is used now.
var retired = map[string]string{
	`\bcaptures?\b`:                     "snapshot",
	`\bpromot(e|es|ed|ion)\b`:           "merge",
	`\borigin\b`:                        "base, kind",
	`\bseals?\b|\bsealed\b|\bsealing\b`: "stored",
	`\bfigures?\b`:                      "metrics",
	`\bcollections?\b`:                  "gc",
	`\btimeline of states\b`:            "timeline",
	`\bviews?\b`:                        "workspace",
}

// maxSentence is the length of the longest sentence, in words.
const maxSentence = 40

// TestWords holds the pages for users to plain words. Fix the text, not the test.
func TestWords(t *testing.T) {
	for name, page := range pages(t) {
		if !strings.HasPrefix(name, "docs/") && name != "README.md" || strings.HasPrefix(name, "docs/dev/") {
			continue
		}
		prose := code.ReplaceAllString(fence.ReplaceAllString(page, "\n\n"), "X")
		for _, list := range []map[string]string{odd, retired} {
			if name == "docs/reference/glossary.md" {
				continue // it defines the words
			}
			for pattern, better := range list {
				re := regexp.MustCompile(`(?i)` + pattern)
				for line := range strings.Lines(prose) {
					if found := re.FindString(line); found != "" {
						t.Errorf("%s: %q; better: %s: %s", name, found, better, strings.TrimSpace(line))
					}
				}
			}
		}
		for sentence := range sentences(prose) {
			if n := len(strings.Fields(sentence)); n > maxSentence {
				t.Errorf("%s: a sentence of %d words: %s", name, n, strings.TrimSpace(sentence))
			}
		}
	}
}

var (
	sentenceEnd = regexp.MustCompile(`[.!?:](\s|$)|\n\s*\n|\n\s*[-*] |\n\s*\d+\. |\n#|\||\n>`)
)

// sentences are the sentences of a page without its code blocks. A cell of a table
// and an item of a list end one.
func sentences(prose string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, s := range sentenceEnd.Split(prose, -1) {
			if !yield(s) {
				return
			}
		}
	}
}
