package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
)

// Keep has a rule for each origin of snapshots. Manual ones, pinned ones and those
// that latest, undo and origin mean always stay.
type Keep struct {
	Auto       KeepRule `json:"auto"`
	Turn       KeepRule `json:"turn"`
	PreRestore KeepRule `json:"pre-restore"`
	Fork       KeepRule `json:"fork"`
	Import     KeepRule `json:"import"`
	Pull       KeepRule `json:"pull"`
}

// A KeepRule says which snapshots stay, in the words of restic's forget: a snapshot
// stays that any part of the rule wants. A rule without parts keeps all.
type KeepRule struct {
	Last    int  `json:"last,omitempty"`    // so many, the newest
	Within  Span `json:"within,omitempty"`  // those not older than this
	Hourly  int  `json:"hourly,omitempty"`  // the newest one of each of so many hours
	Daily   int  `json:"daily,omitempty"`   // and so on, of those that have any
	Weekly  int  `json:"weekly,omitempty"`  // weeks of ISO 8601
	Monthly int  `json:"monthly,omitempty"` //
}

// UnmarshalJSON implements json.Unmarshaler: a rule replaces the default as a whole.
func (r *KeepRule) UnmarshalJSON(b []byte) error {
	type rule KeepRule
	var whole rule
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	err := d.Decode(&whole)
	*r = KeepRule(whole)
	return err
}

func defaultKeep() Keep {
	return Keep{
		Auto:       KeepRule{Last: 10},
		Turn:       KeepRule{Last: 100, Within: Span(week)},
		PreRestore: KeepRule{Last: 10, Within: Span(30 * day)},
		Fork:       KeepRule{Within: Span(30 * day)},
	}
}

// rules are the rules by origin.
func (k *Keep) rules() map[string]*KeepRule {
	return map[string]*KeepRule{
		OriginAuto: &k.Auto, OriginTurn: &k.Turn, OriginPreRestore: &k.PreRestore,
		OriginFork: &k.Fork, OriginImport: &k.Import, OriginPull: &k.Pull,
	}
}

func (k *Keep) check() error {
	for origin, r := range k.rules() {
		if min(r.Last, r.Hourly, r.Daily, r.Weekly, r.Monthly) < 0 || r.Within < 0 {
			return errs.New(errs.Invalid, "malformed request: policy: keep.%s has a negative number", origin)
		}
	}
	return nil
}

// A keeping goes through the snapshots of one origin, newest first, and tells which
// of them a rule wants.
type keeping struct {
	rule    KeepRule
	now     time.Time
	seen    int
	periods []period
}

// A period is one of the parts of a rule that want one snapshot each.
type period struct {
	left int
	of   func(time.Time) string
	last string
}

func (r KeepRule) begin(now time.Time) *keeping {
	return &keeping{rule: r, now: now, periods: []period{
		{left: r.Hourly, of: func(t time.Time) string { return t.Format("2006-01-02 15") }},
		{left: r.Daily, of: func(t time.Time) string { return t.Format("2006-01-02") }},
		{left: r.Weekly, of: func(t time.Time) string { y, w := t.ISOWeek(); return fmt.Sprint(y, w) }},
		{left: r.Monthly, of: func(t time.Time) string { return t.Format("2006-01") }},
	}}
}

// wants reports whether the rule keeps the next snapshot, which was made at t.
func (k *keeping) wants(t time.Time) bool {
	if k.rule == (KeepRule{}) {
		return true
	}
	k.seen++
	keep := k.seen <= k.rule.Last || k.rule.Within > 0 && k.now.Sub(t) <= time.Duration(k.rule.Within)
	for i := range k.periods {
		p := &k.periods[i]
		if p.left == 0 {
			continue
		}
		if name := p.of(t); name != p.last {
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
func (s Span) String() string {
	if d := time.Duration(s); d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return time.Duration(s).String()
}

// MarshalJSON implements json.Marshaler.
func (s Span) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// UnmarshalJSON implements json.Unmarshaler.
func (s *Span) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	d, err := ParseSpan(text)
	if err != nil {
		return fmt.Errorf("a span is such as 30m, 24h, 7d or 2w, not %q", text)
	}
	*s = Span(d)
	return nil
}
