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

// Keep has the rules for the kinds of snapshots. Manual and pinned snapshots, and the snapshots
// latest, undo and base, are kept without a rule.
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

// A Rule selects the snapshots of one kind to keep, with the terms of restic's forget: a snapshot is kept if one
// of the fields matches it. An empty rule keeps all snapshots.
type Rule struct {
	Last    int  `json:"last,omitempty"`    // keep the newest N snapshots
	Within  Span `json:"within,omitempty"`  // keep snapshots that are at most this much older than the newest
	Hourly  int  `json:"hourly,omitempty"`  // keep the newest snapshot of each of the last N hours with a snapshot
	Daily   int  `json:"daily,omitempty"`   // like Hourly, for days
	Weekly  int  `json:"weekly,omitempty"`  // like Hourly, for weeks of ISO 8601
	Monthly int  `json:"monthly,omitempty"` // like Hourly, for months
}

// UnmarshalJSON implements json.Unmarshaler. The rule replaces the default rule as a whole.
func (r *Rule) UnmarshalJSON(b []byte) error {
	type rule Rule
	var whole rule
	if err := strictjson.Decode(b, &whole); err != nil {
		return errs.New(errs.Invalid, "a rule of keep: %w", err)
	}

	*r = Rule(whole)

	return nil
}

// Rules returns the rules by kind of snapshot.
func (k *Keep) Rules() map[string]*Rule {
	return map[string]*Rule{
		"auto": &k.Auto, "turn": &k.Turn, "call": &k.Call, "actor": &k.Actor, "pre-restore": &k.PreRestore,
		"fork": &k.Fork, "import": &k.Import, "pull": &k.Pull,
	}
}

func (k *Keep) check() error {
	for kind, r := range k.Rules() {
		if min(r.Last, r.Hourly, r.Daily, r.Weekly, r.Monthly) < 0 || r.Within < 0 {
			return invalidPolicy("keep.%s has a negative number", kind)
		}
	}
	return nil
}

// A Selection applies a rule to the snapshots of one kind, newest first.
type Selection struct {
	rule          Rule
	now           time.Time
	newest        time.Time // time of the newest snapshot so far, except snapshots with a time after now
	snapshotCount int       // number of snapshots so far
	periods       []period
}

// A period is a field of a rule that keeps one snapshot for each hour, day, week or month.
type period struct {
	remaining  int                    // number of snapshots that the period can still keep
	periodName func(time.Time) string // returns the name of the hour, day, week or month of a time
	lastName   string                 // name of the hour, day, week or month of the last kept snapshot
}

// Select begins a selection at the time now.
func (r Rule) Select(now time.Time) *Selection {
	return &Selection{rule: r, now: now, periods: []period{
		{remaining: r.Hourly, periodName: func(t time.Time) string { return t.Format("2006-01-02 15") }},
		{remaining: r.Daily, periodName: func(t time.Time) string { return t.Format("2006-01-02") }},
		{remaining: r.Weekly, periodName: func(t time.Time) string { y, w := t.ISOWeek(); return fmt.Sprint(y, w) }},
		{remaining: r.Monthly, periodName: func(t time.Time) string { return t.Format("2006-01") }},
	}}
}

// KeepsNext reports whether the rule keeps the next snapshot, which was taken at t. It is called once for
// each snapshot, newest first.
func (k *Selection) KeepsNext(t time.Time) bool {
	if k.rule == (Rule{}) {
		return true
	}
	k.snapshotCount++
	if !t.After(k.now) && t.After(k.newest) {
		k.newest = t
	}

	keep := k.snapshotCount <= k.rule.Last || k.rule.Within > 0 && k.newest.Sub(t) <= time.Duration(k.rule.Within)

	for i := range k.periods {
		p := &k.periods[i]
		if p.remaining == 0 {
			continue
		}

		if name := p.periodName(t); name != p.lastName {
			p.lastName = name
			p.remaining--
			keep = true
		}
	}

	return keep
}

// A Span is a time.Duration. A whole number of days is written in days, such as 7d.
type Span time.Duration

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// ParseSpan parses a duration as time.ParseDuration does, or a number of days (d) or weeks (w).
func ParseSpan(text string) (time.Duration, error) {
	for unit, d := range map[string]time.Duration{"d": day, "w": week} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			n, err := strconv.ParseFloat(number, 64)
			if err != nil {
				return 0, err
			}
			if limit := float64(maxSeconds * time.Second / d); n > limit || n < -limit {
				return 0, strconv.ErrRange
			}

			return time.Duration(n * float64(d)), nil
		}
	}
	return time.ParseDuration(text)
}

// ParseExpiry parses an expiry: a duration from now (see ParseSpan) or a date in RFC 3339. It returns
// nil for "", and an errs.Invalid for other text and times in the past.
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

// ParseTTL parses the lifetime of a fork (see ParseSpan). It returns 0 for "".
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

// String returns a text that ParseSpan parses.
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
