package page

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

const maxColoured = 1 << 20

func colour(path, text string) [][]token {
	lines := [][]token{}
	if text == "" {
		return lines
	}
	pieces := func(text string, emit func(class, text string)) { emit("", text) }
	if l := languageOf(path); l != nil && len(text) <= maxColoured {
		pieces = l.tokens
	}
	line, room := []token{}, maxLine
	pieces(strings.TrimSuffix(text, "\n"), func(class, text string) {
		for i, part := range strings.Split(text, "\n") {
			if i > 0 {
				lines, line, room = append(lines, line), []token{}, maxLine
			}
			if part == "" || room <= 0 {
				continue
			}
			line = append(line, token{class, cut(part, room)})
			room -= len(part)
		}
	})
	return append(lines, line)
}

// cut shortens a line that is too long to read.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + " …"
}

// A language has the comments, strings and keywords that are coloured. It is no grammar.
type language struct {
	line     []string    // beginnings of comments to the end of the line
	block    [][2]string // comments and strings over several lines
	quotes   string      // of strings that end on their line
	keywords []string
}

const (
	common  = "as async await break case catch class const continue default do else enum export extends false finally fn for from func function if impl import in interface let match mod new nil null package pub return self static struct super switch this throw trait true try type undefined use var void while with yield "
	cTypes  = "auto bool byte char double extern final float goto inline int long namespace operator override private protected public register short signed sizeof string template typedef typename union unsigned using virtual volatile "
	goWords = "chan defer fallthrough go goto map range select any bool byte error float64 int int64 iota rune string uint uint64 "
	pyWords = "None True False and assert def del elif except global is lambda nonlocal not or pass raise "
	shWords = "case do done elif else esac fi for function if in local return select then until while export readonly set unset "
	sqlWord = "select insert update delete from where join left right inner outer on group by order having limit create table index view drop alter add primary key foreign references not null and or in is like as distinct union values set into begin commit rollback "
	rubyish = "alias and begin def defined elsif end ensure module next not or redo rescue retry then undo unless until when do local require elseif repeat "
)

var (
	cBlock  = [][2]string{{"/*", "*/"}}
	cLike   = &language{[]string{"//"}, cBlock, "\"'`", strings.Fields(common + cTypes)}
	golang  = &language{[]string{"//"}, [][2]string{{"/*", "*/"}, {"`", "`"}}, "\"'", strings.Fields(common + goWords)}
	python  = &language{[]string{"#"}, [][2]string{{`"""`, `"""`}, {`'''`, `'''`}}, "\"'", strings.Fields(common + pyWords)}
	shell   = &language{[]string{"#"}, nil, "\"'", strings.Fields(shWords)}
	ruby    = &language{[]string{"#"}, nil, "\"'`", strings.Fields(common + rubyish)}
	lua     = &language{[]string{"--"}, [][2]string{{"--[[", "]]"}}, "\"'", strings.Fields(common + rubyish)}
	sql     = &language{[]string{"--"}, cBlock, "\"'", strings.Fields(sqlWord + strings.ToUpper(sqlWord))}
	data    = &language{[]string{"#"}, nil, "\"'", strings.Fields("true false null yes no")}
	config  = &language{[]string{"#", ";", "//"}, cBlock, "\"'", strings.Fields("true false on off yes no")}
	markup  = &language{nil, [][2]string{{"<!--", "-->"}}, "\"", nil}
	style   = &language{nil, cBlock, "\"'", strings.Fields("important media import keyframes supports")}
	lisp    = &language{[]string{";"}, nil, "\"", strings.Fields("define defn defun fn let if cond lambda ns require quote nil true false")}
	haskell = &language{[]string{"--"}, [][2]string{{"{-", "-}"}}, "\"", strings.Fields(common + "data deriving instance module newtype of then where qualified")}
	tex     = &language{[]string{"%"}, nil, "", nil}
)

// byName has the languages by the ending of a file's name, or by its whole name.
var byName = map[string]*language{}

func init() {
	for l, names := range map[*language]string{
		cLike:   "c h cc cpp cxx hpp hh cs java js mjs cjs jsx ts tsx kt kts swift rs scala dart d zig glsl proto thrift php groovy gradle sol v sv m mm json5 jsonc vue",
		golang:  "go",
		python:  "py pyi bzl star Tiltfile SConstruct",
		shell:   "sh bash zsh fish ksh Makefile makefile mk Dockerfile Containerfile",
		ruby:    "rb Gemfile Rakefile ex exs cr pl pm r jl tcl nim cmake",
		lua:     "lua",
		sql:     "sql",
		data:    "yaml yml toml json properties graphql",
		config:  "ini conf cfg service timer socket mount tf hcl nix desktop",
		markup:  "html htm xml svg md markdown",
		style:   "css scss sass less",
		lisp:    "clj cljs el lisp scm rkt",
		haskell: "hs elm ml",
		tex:     "tex sty",
	} {
		for name := range strings.FieldsSeq(names) {
			byName[name] = l
		}
	}
}

func languageOf(file string) *language {
	name := path.Base(file)
	return byName[name[strings.LastIndexByte(name, '.')+1:]]
}

// pattern matches comments in its first group, strings in its second one, and words.
func (l *language) pattern() *regexp.Regexp {
	comments, texts := []string{never}, []string{never}
	for _, b := range l.block {
		whole := `(?s:` + regexp.QuoteMeta(b[0]) + `.*?(?:` + regexp.QuoteMeta(b[1]) + `|\z))`
		if strings.ContainsAny(b[0], "\"'`") {
			texts = append(texts, whole)
		} else {
			comments = append(comments, whole)
		}
	}
	for _, c := range l.line {
		comments = append(comments, regexp.QuoteMeta(c)+`[^\n]*`)
	}
	for _, q := range strings.Split(l.quotes, "") {
		texts = append(texts, q+`(?:\\[^\n]|[^\\\n`+q+`])*`+q)
	}
	return regexp.MustCompile(`(` + strings.Join(comments, "|") + `)|(` + strings.Join(texts, "|") + `)|[\pL\p{Nd}_]+`)
}

const never = `[^\s\S]`

// tokens cuts a text into pieces. The class of a piece is c for a comment, s for a
// string, n for a number, k for a keyword, and else empty.
func (l *language) tokens(text string, emit func(class, text string)) {
	begin := 0 // of the text without a class that was not emitted yet
	for _, m := range l.pattern().FindAllStringSubmatchIndex(text, -1) {
		piece, class := text[m[0]:m[1]], ""
		switch {
		case m[2] >= 0:
			class = "c"
		case m[4] >= 0:
			class = "s"
		case piece[0] >= '0' && piece[0] <= '9':
			class = "n"
		case slices.Contains(l.keywords, piece):
			class = "k"
		default:
			continue
		}
		emit("", text[begin:m[0]])
		emit(class, piece)
		begin = m[1]
	}
	emit("", text[begin:])
}
