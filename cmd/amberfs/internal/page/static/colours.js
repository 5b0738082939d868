// Colours of source code: comments, strings, numbers and keywords. It knows no grammar.
const most = 1 << 20, longest = 4096; // characters of a text that is coloured, and of a line that is shown
const common = `as async await break case catch class const continue default do else enum export extends false finally fn for from func
  function if impl import in interface let match mod new nil null package pub return self static struct super switch this throw trait
  true try type undefined use var void while with yield `;
const ruby = `${common} alias and begin def defined elsif end ensure module next not or redo rescue retry then undo unless until when do
  local require elseif repeat`;
const sql = `select insert update delete from where join left right inner outer on group by order having limit create table index view
  drop alter add primary key foreign references not null and or in is like as distinct union values set into begin commit rollback `;
const c = ["/*", "*/"];
// Languages by the endings of files' names, or whole names: beginnings of comments to the end of the line, comments and strings
// over several lines, quotes of strings that end on their line, and keywords.
const languages = {
  "c h cc cpp cxx hpp hh cs java js mjs cjs jsx ts tsx kt kts swift rs scala dart d zig glsl proto thrift php groovy gradle sol v sv m mm json5 jsonc vue":
    [["//"], [c], "\"'`", `${common} auto bool byte char double extern final float goto inline int long namespace operator override private
      protected public register short signed sizeof string template typedef typename union unsigned using virtual volatile`],
  go: [["//"], [c, ["`", "`"]], "\"'", `${common} chan defer fallthrough go goto map range select any bool byte error float64 int int64
    iota rune string uint uint64`],
  "py pyi bzl star Tiltfile SConstruct": [["#"], [['"""', '"""'], ["'''", "'''"]], "\"'",
    `${common} None True False and assert def del elif except global is lambda nonlocal not or pass raise`],
  "sh bash zsh fish ksh Makefile makefile mk Dockerfile Containerfile": [["#"], [], "\"'",
    "case do done elif else esac fi for function if in local return select then until while export readonly set unset"],
  "rb Gemfile Rakefile ex exs cr pl pm r jl tcl nim cmake": [["#"], [], "\"'`", ruby],
  lua: [["--"], [["--[[", "]]"]], "\"'", ruby],
  sql: [["--"], [c], "\"'", sql + sql.toUpperCase()],
  "yaml yml toml json properties graphql": [["#"], [], "\"'", "true false null yes no"],
  "ini conf cfg service timer socket mount tf hcl nix desktop": [["#", ";", "//"], [c], "\"'", "true false on off yes no"],
  "html htm xml svg md markdown": [[], [["<!--", "-->"]], "\"", ""],
  "css scss sass less": [[], [c], "\"'", "important media import keyframes supports"],
  "clj cljs el lisp scm rkt": [[";"], [], "\"", "define defn defun fn let if cond lambda ns require quote nil true false"],
  "hs elm ml": [["--"], [["{-", "-}"]], "\"", `${common} data deriving instance module newtype of then where qualified`],
  "tex sty": [["%"], [], "", ""],
};
const plain = (s) => s.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
const anyOf = (parts) => `(${parts.join("|") || "(?!)"})`;
function rule([line, blocks, quotes, keywords]) {
  const within = (text) => blocks.filter(([from]) => /["'`]/.test(from) === text).map(([from, to]) => `${plain(from)}[^]*?(?:${plain(to)}|$)`);
  const comments = [...within(false), ...line.map((from) => `${plain(from)}.*`)];
  const strings = [...within(true), ...[...quotes].map((q) => `${q}(?:\\\\.|[^\\\\\n${q}]){0,500}${q}`)];
  return { pattern: new RegExp([comments, strings, ["[\\p{L}\\p{N}_]+"]].map(anyOf).join("|"), "gu"), keywords: new Set(keywords.split(/\s+/)) };
}
const rules = new Map(); // by ending, made when they are needed
function ruleOf(path) {
  const name = path.split("/").pop(), ending = name.slice(name.lastIndexOf(".") + 1);
  if (!rules.has(ending)) {
    const found = Object.entries(languages).find(([names]) => names.split(" ").includes(ending));
    rules.set(ending, found && rule(found[1]));
  }
  return rules.get(ending);
}
// colour cuts lines into tokens, each a kind and a piece: c for a comment, s for a string, n for a number, k for a keyword, or "".
export function colour(path, lines) {
  const shown = lines.map((l) => (l.length > longest ? `${l.slice(0, longest)} …` : l)), found = ruleOf(path), text = shown.join("\n");
  if (!found || text.length > most) return shown.map((l) => [["", l]]);
  const out = [[]];
  let at = 0;
  const add = (kind, to) => {
    text.slice(at, to).split("\n").forEach((part, i) => {
      if (i) out.push([]);
      if (part) out.at(-1).push([kind, part]);
    });
    at = to;
  };
  for (const { 0: all, 1: comment, 2: string, 3: word, index } of text.matchAll(found.pattern)) {
    const kind = comment ? "c" : string ? "s" : /^\d/.test(word) ? "n" : found.keywords.has(word) && "k";
    if (kind) { add("", index); add(kind, index + all.length); }
  }
  add("", text.length);
  return out;
}
