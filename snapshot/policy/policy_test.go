package policy

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
)

func TestPatch(t *testing.T) {
	p := Default()
	p.Protect, p.ManualLimit = true, 7
	for _, tc := range []struct {
		patch string
		want  func(p *Policy)
	}{
		{`{}`, func(*Policy) {}},
		{`{"manual_limit":3}`, func(p *Policy) { p.ManualLimit = 3 }},
		{`{"keep":{"turn":{"within":"2w"}}}`, func(p *Policy) { p.Keep.Turn.Within = Span(2 * week); p.Keep.Turn.Last = 0 }},
		{`{"keep":{"turn":{"last":3}}}`, func(p *Policy) { p.Keep.Turn = Rule{Last: 3} }}, // replaced as a whole
		{`{"keep":{"turn":null,"auto":{"last":0,"daily":2}}}`, func(p *Policy) { p.Keep.Auto = Rule{Daily: 2} }},
		{`{"interval_seconds":null,"forks":{"snapshots":5}}`, func(p *Policy) { p.Forks.Snapshots = 5 }},
		{`{"push":{"remote":"origin","only":"turn"}}`, func(p *Policy) { p.Push.Remote, p.Push.Only = "origin", PushTurn }},
	} {
		want := p
		tc.want(&want)
		if got, err := p.Patch([]byte(tc.patch)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s gives %+v, %v", tc.patch, got, err)
		}
	}
	for _, bad := range []string{
		``, `[]`, `null`, `{"manual_limit":-1}`, `{"protekt":true}`, `{"keep":{"auto":{"lasst":1}}}`, `{"keep":{"autos":{}}}`,
		`{"delete":"me"}`, `{"keep":{"auto":{"within":"soon"}}}`, `{"keep":{"auto":{"daily":-1}}}`, `{"protect":false,"interval_seconds":1e12}`,
		`{"push":{"only":"auto"}}`, `{"push":{"interval_seconds":-1}}`, `{"push":{"remotes":"origin"}}`,
	} {
		if _, err := p.Patch([]byte(bad)); !errors.Is(err, errs.Invalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestRefusalsArePlain: a refusal names the field and what it takes, not a type of Go.
func TestRefusalsArePlain(t *testing.T) {
	for patch, want := range map[string]string{
		`{"interval_seconds":"soon"}`: "interval_seconds must be a whole number, not a string",
		`{"protect":1}`:               "protect must be true or false, not a number",
		`-`:                           "not valid JSON",
	} {
		if _, err := Default().Patch([]byte(patch)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Go") {
			t.Errorf("%s is refused with %v", patch, err)
		}
	}
}

func TestRestoreKeeps(t *testing.T) {
	p, err := Default().Patch([]byte(`{"restore_keeps":[".git","data/db"]}`))
	if err != nil || !reflect.DeepEqual(p.RestoreKeeps, []string{".git", "data/db"}) {
		t.Errorf("%v, %v", p.RestoreKeeps, err)
	}
	for _, bad := range []string{`[""]`, `["/etc"]`, `["../x"]`, `["."]`, `["a/"]`, `".git"`} {
		if _, err := p.Patch([]byte(`{"restore_keeps":` + bad + `}`)); !errors.Is(err, errs.Invalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
