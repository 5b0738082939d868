package policy

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/strictjson"
)

// Keep has a rule for each kind of snapshot. Manual and pinned snapshots, latest, undo
// and base are always kept.
type Keep struct {
	Auto       Rule `json:"auto"`
	Turn       Rule `json:"turn"`
	Call       Rule `json:"call"`
	Actor      Rule `json:"actor"`
	PreRestore Rule `json:"pre-restore"`
	Fork       Rule `json:"fork"`
	Import     Rule `json:"import"`
	Pull       Rule `json:"pull"`
}

// A Rule says which snapshots are kept, in the words of restic's forget: a snapshot is
// kept if any part of the rule matches it. A rule without parts keeps all.
type Rule struct {
	Last    int  `json:"last,omitempty"`    // the newest so many
	Within  Span `json:"within,omitempty"`  // those that are at most so much older than the newest
	Hourly  int  `json:"hourly,omitempty"`  // the newest of each of the last so many hours that have any
	Daily   int  `json:"daily,omitempty"`   // the same for days
	Weekly  int  `json:"weekly,omitempty"`  // for weeks of ISO 8601
	Monthly int  `json:"monthly,omitempty"` // for months
}

// UnmarshalJSON implements json.Unmarshaler: a rule replaces the default as a whole.
func (r *Rule) UnmarshalJSON(b []byte) error {
	type rule Rule
	var whole rule
	if err := strictjson.Decode(b, &whole); err != nil {
		return errs.New(errs.Invalid, "a rule of keep: %w", err)
	}
	*r = Rule(whole)
	return nil
}

func (k *Keep) Rules() map[string]*Rule {
	return map[string]*Rule{
		"auto": &k.Auto, "turn": &k.Turn, "call": &k.Call, "actor": &k.Actor, "pre-restore": &k.PreRestore,
		"fork": &k.Fork, "import": &k.Import, "pull": &k.Pull,
	}
}

func (k *Keep) check() error {
	for kind, r := range k.Rules() {
		if min(r.Last, r.Hourly, r.Daily, r.Weekly, r.Monthly) < 0 || r.Within < 0 {
			return refuse("keep.%s has a negative number", kind)
		}
	}
	return nil
}

// A Selection applies a rule to the snapshots of one kind, newest first.
type Selection struct {
	rule    Rule
	now     time.Time
	newest  time.Time // of the snapshots so far, apart from those of the future
	seen    int
	periods []period
}

// A period is a part of a rule that keeps one snapshot for each hour, day, week or month.
type period struct {
	left int                    // how many more it keeps
	name func(time.Time) string // of the hour, day, week or month
	last string                 // the name of the last one it kept a snapshot of
}

// Select begins a selection at the time now.
func (r Rule) Select(now time.Time) *Selection {
	return &Selection{rule: r, now: now, periods: []period{
		{left: r.Hourly, name: func(t time.Time) string { return t.Format("2006-01-02 15") }},
		{left: r.Daily, name: func(t time.Time) string { return t.Format("2006-01-02") }},
		{left: r.Weekly, name: func(t time.Time) string { y, w := t.ISOWeek(); return fmt.Sprint(y, w) }},
		{left: r.Monthly, name: func(t time.Time) string { return t.Format("2006-01") }},
	}}
}

// Keeps reports whether the rule keeps the next snapshot, which was taken at t.
func (k *Selection) Keeps(t time.Time) bool {
	if k.rule == (Rule{}) {
		return true
	}
	k.seen++
	if !t.After(k.now) && t.After(k.newest) {
		k.newest = t
	}
	keep := k.seen <= k.rule.Last || k.rule.Within > 0 && k.newest.Sub(t) <= time.Duration(k.rule.Within)
	for i := range k.periods {
		p := &k.periods[i]
		if p.left == 0 {
			continue
		}
		if name := p.name(t); name != p.last {
			p.last = name
			p.left--
			keep = true
		}
	}
	return keep
}

// A Span is a time.Duration that is written as 7d or 2w where it can be.
type Span time.Duration

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// ParseSpan is time.ParseDuration with days and weeks.
func ParseSpan(text string) (time.Duration, error) {
	for unit, d := range map[string]time.Duration{"d": day, "w": week} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			n, err := strconv.ParseFloat(number, 64)
			if limit := float64(maxSeconds * time.Second / d); err == nil && (n > limit || n < -limit) {
				err = strconv.ErrRange
			}
			return time.Duration(n * float64(d)), err
		}
	}
	return time.ParseDuration(text)
}

// String is the shortest form that ParseSpan reads.
// ParseExpiry reads a span from now (with d and w besides Go's units) or a date; nil for "".
func ParseExpiry(text string, now time.Time) (*time.Time, error) {
	if text == "" {
		return nil, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		if !t.After(now) {
			return nil, errs.Fail(errs.Invalid, "the expiry %s is in the past", text)
		}
		return &t, nil
	}
	d, err := ParseSpan(text)
	if err != nil || d <= 0 {
		return nil, errs.Fail(errs.Invalid, "an expiry is a duration such as 30m, 24h, 7d or 2w, or a date in RFC 3339, not %q", text)
	}
	t := now.Add(d)
	return &t, nil
}

// ParseTTL reads how long a fork lives; 0 for "".
func ParseTTL(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := ParseSpan(text)
	if err != nil || d <= 0 {
		return 0, errs.Fail(errs.Invalid, "a ttl is a duration such as 30m, 1h or 7d, not %q", text)
	}
	return d, nil
}

func (s Span) String() string {
	if d := time.Duration(s); d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return time.Duration(s).String()
}

func (s Span) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

func (s *Span) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	d, err := ParseSpan(text)
	if err != nil {
		return fmt.Errorf("a duration is 30m, 24h, 7d or 2w, for example, not %q", text)
	}
	*s = Span(d)
	return nil
}
