package forget

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/tests/must"
)

// TestScanner: bytes are found at every offset, and nothing else is.
func TestScanner(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.IntN(4))
		}
		return b
	}
	gone := [][]byte{random(windowLen), random(40), random(3000)}
	var prints []Fingerprint
	for _, b := range gone {
		prints = append(prints, fingerprintOf(b))
	}
	s := NewScanner(prints)

	for _, b := range gone {
		for _, n := range []int{0, 1, windowLen - 1, windowLen, 5000} {
			text := append(append(random(n), b...), random(n)...)
			if !s.Contains(text) {
				t.Errorf("%d bytes are not found behind %d", len(b), n)
			}
			text[n+len(b)/2] ^= 8
			if s.Contains(text) {
				t.Errorf("other bytes are found behind %d", n)
			}
			has, err := s.FileContains(context.Background(), bytes.NewReader(append(make([]byte, fileWindowSize-7), b...)), int64(fileWindowSize-7+len(b)))
			must.OK(t, err)
			if !has {
				t.Errorf("%d bytes are not found between two windows", len(b))
			}
		}
	}
}

// TestSearch: matches are found over the ends of blocks, and masked in place.
func TestSearch(t *testing.T) {
	filler := strings.Repeat("some line of text\n", searchBlockSize/18-1)
	for _, c := range []struct {
		s          Search
		text, want string
	}{
		{Search{Bytes: []byte("two\nlines")}, "a two\nlines b", "a ***\n***** b"},
		{Search{Patterns: []*regexp.Regexp{regexp.MustCompile(`key=(\w+)`)}}, "key=abc, key=d\nkey=\n", "key=***, key=*\nkey=\n"},
		{Search{PrivateKeys: true}, "-----BEGIN RSA PRIVATE KEY-----\nabc\ndef\n-----END RSA PRIVATE KEY-----\nghi", "-----BEGIN RSA PRIVATE KEY-----\n***\n***\n-----END RSA PRIVATE KEY-----\nghi"},
	} {
		for _, text := range []string{c.text, filler + c.text, filler + "x" + c.text + "\n" + filler + c.text} {
			f, err := c.s.searchFile(context.Background(), strings.NewReader(text), int64(len(text)))
			must.OK(t, err)
			got, err := io.ReadAll(&masker{r: strings.NewReader(text), parts: f.parts})
			must.OK(t, err)
			if string(got) != strings.ReplaceAll(text, c.text, c.want) && !strings.HasPrefix(c.text, "-----") {
				t.Errorf("%q in %d bytes: %q", c.text, len(text), got[len(got)-min(len(got), 80):])
			}
			if strings.HasPrefix(c.text, "-----") && text == c.text && string(got) != c.want {
				t.Errorf("a key: %q", got)
			}
		}
	}
}

// TestSecrets: keys of well-known forms are found, and ordinary lines are not.
func TestSecrets(t *testing.T) {
	s := Search{}
	for _, p := range SecretPatterns {
		s.Patterns = append(s.Patterns, regexp.MustCompile(p))
	}
	for text, want := range map[string]int{
		"id = AKIA" + "IOSFODNN7EXAMPLE":                  1,
		"token: ghp_" + strings.Repeat("aB3", 12):         2,
		"postgres://me:hunter22@db/x":                     1,
		`DB_PASSWORD="correct horse"`:                     0,
		"API_KEY=0123456789abcdef":                        1,
		"the token is checked, and the password too":      0,
		"func password(x string) string { return \"a\" }": 0,
	} {
		f, err := s.searchFile(context.Background(), strings.NewReader(text), int64(len(text)))
		must.OK(t, err)
		if len(f.parts) != want {
			t.Errorf("%q: %v", text, f.texts)
		}
	}
}

// TestManyMatches: neighbouring matches are one part, and too many others are refused.
func TestManyMatches(t *testing.T) {
	text := strings.Repeat("a", 9<<20)
	s := Search{Bytes: []byte("aaa")}
	f, err := s.searchFile(t.Context(), strings.NewReader(text), int64(len(text)))
	must.OK(t, err)
	if len(f.parts) != 1 || len(f.texts) != 1 {
		t.Errorf("%d parts, %d texts", len(f.parts), len(f.texts))
	}

	s = Search{Patterns: []*regexp.Regexp{regexp.MustCompile("a")}}
	text = strings.Repeat("a\n", 4<<20)
	if _, err := s.searchFile(t.Context(), strings.NewReader(text), int64(len(text))); !errors.Is(err, errs.TooBig) {
		t.Errorf("%v", err)
	}
}
