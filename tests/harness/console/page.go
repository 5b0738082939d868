package console

import (
	"regexp"
	"strings"
)

// A Command is a line that is typed, and what comes of it.
type Command struct {
	Text string // without the prompt; further lines after a newline
	// Want is what it prints, and Told whether the page says so.
	Want string
	Told bool
	// from and to are the lines of the page that Want has.
	from, to int
}

// Commands are the commands of a page that are to be run.
func Commands(page string) []Command {
	var out []Command
	lines := strings.Split(page, "\n")
	for i := 0; i < len(lines); i++ {
		lang, words, _ := strings.Cut(strings.TrimPrefix(lines[i], "```"), " ")
		if !strings.HasPrefix(lines[i], "```") {
			continue
		}
		end := i + 1
		for end < len(lines) && lines[end] != "```" {
			end++
		}
		switch {
		case strings.HasPrefix(words, "no-run:"):
		case lang == "console":
			out = append(out, session(lines, i+1, end)...)
		case lang == "sh":
			for _, text := range script(lines[i+1 : end]) {
				out = append(out, Command{Text: text})
			}
		}
		i = end
	}
	return out
}

// Session are the commands of a file that is one session.
func Session(text string) []Command {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	return session(lines, 0, len(lines))
}

// Alone is the first command of a file, which printed all the rest.
func Alone(text string) []Command {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	return []Command{{Text: strings.TrimPrefix(lines[0], "$ "), Want: strings.Join(lines[1:], "\n") + "\n", Told: true, from: 1, to: len(lines)}}
}

func session(lines []string, from, to int) []Command {
	var out []Command
	for i := from; i < to; {
		text, ok := strings.CutPrefix(lines[i], "$ ")
		if !ok {
			i++ // before the first prompt
			continue
		}
		for i++; i < to && strings.HasPrefix(lines[i], "> "); i++ {
			text += "\n" + lines[i][2:]
		}
		begin := i
		for i < to && !strings.HasPrefix(lines[i], "$ ") {
			i++
		}
		c := Command{Text: text, Told: true, from: begin, to: i}
		if i > begin {
			c.Want = strings.Join(lines[begin:i], "\n") + "\n"
		}
		out = append(out, c)
	}
	return out
}

// script are the commands of a block without output.
func script(lines []string) []string {
	var out []string
	more := false
	for _, line := range lines {
		if more {
			out[len(out)-1] += "\n" + line
		} else if line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		} else {
			continue
		}
		more = strings.HasSuffix(line, "\\")
	}
	return out
}

// Update puts what commands have printed into the page, where it does not match.
func Update(page string, commands []Command, printed []string, match Match) string {
	lines := strings.Split(page, "\n")
	for i := len(commands) - 1; i >= 0; i-- {
		c := commands[i]
		if !c.Told || match(c.Want, printed[i]) {
			continue
		}
		var text []string
		if printed[i] != "" {
			text = strings.Split(strings.TrimSuffix(printed[i], "\n"), "\n")
		}
		lines = append(lines[:c.from], append(text, lines[c.to:]...)...)
	}
	return strings.Join(lines, "\n")
}

// varying is what differs from run to run, and what stands for it.
var varying = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`(?m)[ \t]+$`), ""},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?`), "TIME"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "ID"},
	{regexp.MustCompile(`\b[0-9a-f]{12}\b`), "ID"},
	{regexp.MustCompile(`\t-\t`), "\tID\t"}, // of a snapshot that is not sealed yet
	{regexp.MustCompile(`("ms":|real\s+)[0-9.ms]+`), "${1}N"},
	{regexp.MustCompile(`\b\d+(\.\d+)? ?(ms|µs|s)\b`), "DURATION"},
}

// Normal is a text with times, ids and durations by their form.
func Normal(text string) string {
	for _, v := range varying {
		text = v.what.ReplaceAllString(text, v.as)
	}
	return text
}

// A Match reports whether what was printed is what a page says.
type Match func(want, printed string) bool

// Matches reports whether what was printed is what a page says.
func Matches(want, printed string) bool {
	parts := strings.Split(Normal(strings.TrimSuffix(want, "\n")), "…")
	for i, p := range parts {
		parts[i] = regexp.QuoteMeta(p)
	}
	return regexp.MustCompile(`(?s)^` + strings.Join(parts, ".*") + `$`).MatchString(Normal(strings.TrimSuffix(printed, "\n")))
}

var number = regexp.MustCompile(`\d[\d.,]*`)

// MatchesForm reports the same with any numbers.
func MatchesForm(want, printed string) bool {
	form := func(s string) string { return number.ReplaceAllString(Normal(s), "N") }
	return Matches(form(want), form(printed))
}
