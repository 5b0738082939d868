package service

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzWords: for any words and flag, a command returns an error, or arguments that an operation accepts in a
// request.
func FuzzWords(f *testing.F) {
	f.Add("v1", 0, "1")
	f.Add("a..b\x00dir/a b", -1, "true")
	f.Add("\x00", 1, "")
	f.Add("dir/\xff\x00{\"keep\":1}", 0, "2h")
	f.Fuzz(func(t *testing.T, text string, dash int, value string) {
		words := strings.Split(text, "\x00")
		for _, o := range ops {
			for i := range o.Commands {
				c := &o.Commands[i]
				least, most := c.Args.WordLimits()
				if len(words) < least || most >= 0 && len(words) > most || c.DashField != "" {
					continue
				}

				g := &ParsedLine{Words: words, WordsBeforeDash: min(dash, len(words)), Flags: map[string]string{}}
				checkArguments(t, o, c, g)
				for _, flag := range c.Flags {
					name, _, _ := flag.Parts()
					g.Flags = map[string]string{name: value}
					checkArguments(t, o, c, g)
				}
			}
		}
	})
}

// checkArguments checks the arguments that a command makes from a command line.
func checkArguments(t *testing.T, o *Op, c *Command, g *ParsedLine) {
	t.Helper()
	g.ReadFile = func(string) ([]byte, error) { return []byte(g.Words[0]), nil }
	args, err := c.Arguments(o, c.Preset, g)
	if err != nil {
		return
	}

	object, err := json.Marshal(args)
	if err == nil {
		_, err = OpOf(args).decode(object)
	}
	if err != nil && !strings.Contains(err.Error(), "is missing") {
		t.Errorf("amberfs %s: %q, %v: %+v: %v", c.Use, g.Words, g.Flags, args, err)
	}
}
