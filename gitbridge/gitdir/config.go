package gitdir

import (
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

// A setting is one line of a configuration.
type setting struct {
	section, sub, key string // section and key in lower case
	value             string
}

type config []setting

// parseConfig reads the settings of a configuration that have a line of their own and no escapes. Quotes may only
// enclose a whole value. Included files are not read.
func parseConfig(text string) (c config) {
	section, sub := "", ""

	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			head, rest, ok := strings.Cut(line[1:], "]")
			if !ok {
				section = ""
				continue
			}

			name, quoted, _ := strings.Cut(head, " ")
			section, sub = strings.ToLower(name), strings.Trim(strings.TrimSpace(quoted), `"`)
			if line = strings.TrimSpace(rest); line == "" {
				continue
			}
		}
		if section == "" || line == "" || line[0] == '#' || line[0] == ';' || strings.HasSuffix(line, "\\") {
			continue
		}

		key, value, ok := strings.Cut(line, "=")
		if !ok {
			value = "true"
		}

		value = strings.TrimSpace(value)
		if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		} else if i := strings.IndexAny(value, "#;"); i >= 0 {
			value = strings.TrimSpace(value[:i])
		}

		// Git reads a name up to a NUL: [core "fsmonitor\x00"] would set core.fsmonitor, which names a program.
		if strings.ContainsAny(value+sub, "\"\\\x00") {
			continue
		}
		c = append(c, setting{section, sub, strings.ToLower(strings.TrimSpace(key)), value})
	}

	return c
}

// configOf returns the configuration of a git directory. It has no settings if the file cannot be read.
func configOf(dir string) config {
	text, _ := readSmall(filepath.Join(dir, "config"))
	return parseConfig(text)
}

// lastValue returns the last value of a setting, "" if it is not set. name is SECTION.KEY in lower case.
func (c config) lastValue(name string) (value string) {
	section, key, _ := strings.Cut(name, ".")
	for _, s := range c {
		if s.section == section && s.sub == "" && s.key == key {
			value = s.value
		}
	}

	return value
}

// plainKeys are the settings that PlainConfig keeps: the format of a repository, the user's name, the remotes and the
// branches. None of them names a program or a file.
var plainKeys = map[string][]string{
	"core":       {"repositoryformatversion", "filemode", "ignorecase", "precomposeunicode", "symlinks", "autocrlf", "eol", "logallrefupdates", "sparsecheckout", "sparsecheckoutcone"},
	"extensions": {"objectformat", "compatobjectformat", "refstorage", "partialclone"},
	"user":       {"name", "email"},
	"remote":     {"url", "pushurl", "fetch", "promisor", "partialclonefilter"},
	"branch":     {"remote", "merge", "rebase"},
	"index":      {"version"},
}

// PlainConfig returns a configuration with the settings in plainKeys that the given configurations have. It removes
// passwords from addresses.
func PlainConfig(texts ...string) string {
	var out strings.Builder
	section := ""

	for _, text := range texts {
		for _, s := range parseConfig(text) {
			if !slices.Contains(plainKeys[s.section], s.key) {
				continue
			}
			if s.key == "url" || s.key == "pushurl" {
				s.value = withoutPassword(s.value)
			}

			head := "[" + s.section + "]\n"
			if s.sub != "" {
				head = "[" + s.section + ` "` + s.sub + "\"]\n"
			}

			if head != section {
				out.WriteString(head)
				section = head
			}

			out.WriteString("\t" + s.key + ` = "` + s.value + "\"\n")
		}
	}

	return out.String()
}

// withoutPassword removes credentials from an address. Only an ssh address keeps its user name: in others, the user
// name can be a token.
func withoutPassword(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return address // a path, or user@host:path
	}

	if u.User != nil && strings.HasSuffix(u.Scheme, "ssh") {
		u.User = url.User(u.User.Username())
	} else {
		u.User = nil
	}

	u.RawQuery = ""
	return u.String()
}
