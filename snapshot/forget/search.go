package forget

import (
	"bytes"
	"context"
	"io"
	"regexp"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/pattern"
)

// A Search finds contents in files: exact bytes, or matches of regular expressions in single lines.
type Search struct {
	Bytes       []byte // may be nil
	Patterns    []*regexp.Regexp
	PrivateKeys bool // also match the lines of private keys in PEM format
}

const (
	searchBlockSize = 4 << 20 // bytes of a file that are searched at a time
	// MaxSearchBytes is the largest length of Search.Bytes.
	MaxSearchBytes = 16 << 20
	// maxParts is the largest number of matching parts of a file, and maxTextBytes the largest total size of the
	// different texts in them. The matches of one further block may exceed these limits.
	maxParts, maxTextBytes = 1 << 20, 64 << 20
)

// A searchResult is the result of a Search in one file.
type searchResult struct {
	wholeFile    bool            // the file equals Search.Bytes
	parts        [][2]int64      // begin and end offsets of the matching parts, in order
	texts        map[string]bool // the bytes of these parts
	textBytes    int             // number of bytes of texts
	inPrivateKey bool            // the search is within a private key
}

// searchFile searches a file with the given size in bytes.
func (s *Search) searchFile(ctx context.Context, r io.Reader, size int64) (f searchResult, err error) {
	var buf []byte
	f.texts = make(map[string]bool)
	at, ended := int64(0), false // at: the offset of buf in the file

	for !ended && size >= int64(len(s.Bytes)) {
		if err := ctx.Err(); err != nil {
			return f, err
		}

		n := len(buf)
		buf = append(buf, make([]byte, searchBlockSize+len(s.Bytes))...)
		m, err := io.ReadFull(r, buf[n:])
		if ended = err == io.EOF || err == io.ErrUnexpectedEOF; err != nil && !ended {
			return f, err
		}

		buf = buf[:n+m]
		if len(f.parts) > maxParts || f.textBytes > maxTextBytes {
			return f, errs.New(errs.TooBig, "a file has too many matches; the patterns match too much")
		}
		done := s.searchBlock(buf, ended, at, &f)
		at += int64(done)
		buf = append(buf[:0:0], buf[done:]...)
	}

	f.wholeFile = len(s.Bytes) > 0 && size == int64(len(s.Bytes)) && len(f.parts) == 1
	return f, nil
}

// add adds a matching part with its bytes. If the last part ends where this part begins, it joins the two.
func (f *searchResult) add(from, to int64, text []byte) {
	if last := len(f.parts) - 1; last >= 0 && f.parts[last][1] == from {
		f.parts[last][1] = to
	} else {
		f.parts = append(f.parts, [2]int64{from, to})
	}

	if !f.texts[string(text)] {
		f.texts[string(text)] = true
		f.textBytes += len(text)
	}
}

// searchBlock adds the matches in the block b to f. off is the offset of b in the file, and last is set for the
// last block. done is the number of bytes of b that need not be searched again. The bytes after them may be the
// beginning of a match: they are fewer than Search.Bytes, or the beginning of a line.
func (s *Search) searchBlock(b []byte, last bool, off int64, f *searchResult) (done int) {
	add := func(from, to int) {
		if len(bytes.Trim(b[from:to], "*")) == 0 {
			return // an earlier forget has overwritten this part
		}
		f.add(off+int64(from), off+int64(to), b[from:to])
	}

	if len(s.Bytes) > 0 {
		for {
			i := bytes.Index(b[done:], s.Bytes)
			if i < 0 {
				break
			}
			add(done+i, done+i+len(s.Bytes))
			done += i + len(s.Bytes)
		}
		if last {
			return len(b)
		}
		return max(done, len(b)-len(s.Bytes)+1)
	}

	done = len(b)
	if i := bytes.LastIndexByte(b, '\n'); !last && i >= 0 {
		done = i + 1
	}

	for from := 0; from < done; {
		to := done
		if i := bytes.IndexByte(b[from:done], '\n'); i >= 0 {
			to = from + i
		}
		line := b[from:to]
		if end := bytes.Contains(line, []byte("-----END ")); f.inPrivateKey && !end {
			add(from, to)
		} else {
			f.inPrivateKey = s.PrivateKeys && !end && privateKeyPattern().Match(line)
			s.searchLine(line, func(i, j int) { add(from+i, from+j) })
		}
		from = to + 1
	}

	return done
}

// searchLine calls fn with each match in a line. If the pattern has a group, it passes only the first group
// of the match.
func (s *Search) searchLine(line []byte, fn func(from, to int)) {
	for _, p := range s.Patterns {
		for _, m := range p.FindAllSubmatchIndex(line, -1) {
			if len(m) > 2 && m[2] >= 0 {
				m = m[2:]
			}
			if m[0] < m[1] {
				fn(m[0], m[1])
			}
		}
	}
}

// A masker reads a file with stars in place of some parts. Newlines stay.
type masker struct {
	r     io.Reader
	parts [][2]int64
	off   int64
}

func (m *masker) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	for _, part := range m.parts {
		for i := max(part[0]-m.off, 0); i < min(part[1]-m.off, int64(n)); i++ {
			if p[i] != '\n' {
				p[i] = '*'
			}
		}
	}

	m.off += int64(n)
	return n, err
}

var privateKeyPattern = pattern.New(`-----BEGIN [A-Z ]*PRIVATE KEY( BLOCK)?-----\s*$`)

// SecretPatterns are patterns of keys and passwords, like the patterns of secret scanners.
var SecretPatterns = []string{
	`\b((?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})\b`,                            // AWS
	`\b(gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})\b`,  // GitHub
	`\b(glpat-[A-Za-z0-9_-]{20,})`,                                         // GitLab
	`\b(xox[abeoprs]-[A-Za-z0-9-]{10,})`,                                   // Slack
	`\b(sk-(?:ant-|proj-)?[A-Za-z0-9_-]{20,})`,                             // Anthropic, OpenAI
	`\b((?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,})\b`,                       // Stripe
	`\b(AIza[A-Za-z0-9_-]{35})`,                                            // Google
	`\b(npm_[A-Za-z0-9]{36})\b`,                                            // npm
	`\b(eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,})`, // JSON web tokens
	`(?i)[a-z0-9+.-]{2,20}://[^/\s:@]+:([^/\s:@]{4,})@`,                    // passwords in URLs
	`(?i)(?:secret|token|passw(?:or)?d|api[_-]?key|private[_-]?key|access[_-]?key)[a-z0-9_-]*["']?\s*[:=]\s*["']?([^\s"',;]{8,})`,
}
