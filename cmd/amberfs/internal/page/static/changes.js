// What differs between two states: a header, a tree of files, and all diffs below each other.
import { call, currentWorkspace } from "./api.js";
import { $, ask, button, bytes, chip, colourOf, count, el, focus, frame, icon, menu, redraw, spelledOut, text, time, visible } from "./dom.js";
import { Diff, images } from "./diff.js";
import { Rows } from "./rows.js";
import { kindIcon } from "./timeline.js";
import { named, page, spelled, store, titleOf } from "./store.js";
const generated = new RegExp("(^|/)(package-lock\\.json|(yarn|Cargo|poetry|composer|Gemfile)\\.lock|pnpm-lock\\.yaml|go\\.sum)$"
  + "|\\.(min\\.(js|css)|map|pb\\.go|snap)$|(^|/)(node_modules|vendor|dist|__pycache__)/");
const git = (f) => f.path === ".git" || f.path.startsWith(".git/");
const words = { A: "added", M: "modified", D: "deleted", R: "renamed", T: "type changed" };
const part = 60; // articles at once
const key = (f) => `${f.path}\n${f.raw || ""}`;
const message = (words) => el("p.message", words);
export class Changes {
  constructor() {
    Object.assign(this, { files: [], found: [], viewed: new Set(), asked: new Set(), sides: false, last: Promise.resolve() });
    this.rows = new Rows($("files"), { height: () => 28, draw: (item, row) => this.draw(item, row), choose: (item) => this.choose(item) });
    $("filter").addEventListener("input", () => this.list());
    $("diffs").addEventListener("scroll", () => { this.spying ??= requestAnimationFrame(() => this.spy()); }, { passive: true });
    this.near = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting: near } of entries) {
        target.near = near;
        if (near && target === this.more) this.extend(); else if (near) this.want(target);
      }
    }, { root: $("diffs"), rootMargin: "500px" });
  }
  mark(f) { return `${currentWorkspace()}\n${this.at.a}\n${this.at.b}\n${key(f)}`; } // of a file that was viewed in this comparison
  // show compares a with b in a workspace; one is the name of the state that it is about.
  async show(at) {
    this.stop?.abort();
    this.stop = new AbortController();
    Object.assign(this, { at, files: [], found: [], total: null, failed: false, articles: new Map(), closed: new Set([".git"]), current: null });
    $("filter").value = "";
    this.header();
    const slow = setTimeout(() => $("diffs").replaceChildren(message("Comparing …")), 200);
    try {
      await this.fetch((files) => { clearTimeout(slow); this.set(files); });
    } catch (e) {
      if (e.name === "AbortError") return;
      this.failed = true;
      this.set([]);
      $("diffs").replaceChildren(page.sorry(e));
    } finally { clearTimeout(slow); }
  }
  // refresh looks again, and leaves what is being read where it is. Files in dirty have other contents.
  async refresh(dirty) {
    const top = $("diffs").scrollTop;
    await this.fetch((files) => this.set(files, dirty));
    $("diffs").scrollTop = top;
  }
  async fetch(arrived) {
    this.looking?.abort();
    this.looking = new AbortController();
    const { a, b, by, workspace } = this.at, options = { signal: this.looking.signal, workspace };
    for (const part of [{ limit: 300, quick: true }, { limit: 20000 }]) {
      const found = await call("changes", { a, b, by, lines: true, ...part }, options);
      this.total = found.more ? Infinity : found.files;
      arrived(found.paths || []);
      if (!found.more) return;
    }
  }
  set(files, dirty = new Set()) {
    const { a, b, by, workspace } = this.at;
    const all = files.map((f) => (f.raw ? { ...f, path: spelledOut(f.raw) } : f)); // git's own last
    this.files = all.sort((x, y) => git(x) - git(y) || (x.path < y.path ? -1 : 1));
    if (b === "" && workspace === undefined && !by) page.counted(a, this.total);
    for (const [k, article] of this.articles) if (dirty.has(article.file.path)) this.articles.delete(k);
    this.list();
    this.header();
  }
  header() {
    const { a, b, one, by, title } = this.at, s = !title && named(one);
    const end = (name, label, to) => button([text(spelled(name)), icon("down")], () => pick(`Compare ${label}`, to), { class: "end" });
    const [added, removed] = ["added", "removed"].map((k) => this.files.reduce((n, f) => n + (f[k] || 0), 0)), sum = added + removed;
    const total = this.total === null ? "" : count(this.files.length, "file") + (this.total > this.files.length ? " and more" : "");
    // The title and the buttons stay while they are the same: a click on one may be under way.
    const same = JSON.stringify([currentWorkspace(), this.at, s, store.undo, store.writes, store.forks.map((f) => [f.name, f.run?.state])]);
    const top = same === this.headed && $("subject").firstChild;
    this.headed = same;
    const line = top || el("div.line", button(icon("back", "Back to the timeline"), () => page.pane("timeline"), { class: "quiet narrow" }),
        el("h2.path", visible(title || (one === undefined ? `${spelled(a)} → ${spelled(b)}` : titleOf(one)))),
        el("div.actions", { id: "actions" }, ...(store.writes ? page.actions(this.at) : [])));
    const back = focus($("subject"));
    while ($("subject").lastChild && $("subject").lastChild !== top) $("subject").lastChild.remove();
    $("subject").append(...[top ? "" : line, s ? el("div.line.meta", kindIcon(s), titleOf(one) !== one && el("span.name", visible(one)),
        ...(s.actors || []).map((actor) => menu(el("span.text", visible(actor)), () => page.actorItems(actor), { class: `chip ${colourOf(actor)}` })),
        time(s.created), s.pinned && el("span.badge", "pinned")) : "",
      el("div.line.compare", end(a, "from", (x) => page.compare(x, b)), icon("to", "compared with"),
        end(b, "to", (x) => page.compare(a, x)), button(icon("swap", "Swap"), () => page.compare(b, a, by), { class: "quiet" }),
        by && el("span", "only ", chip(by), button(icon("close", "All actors"), () => page.compare(a, b), { class: "quiet" })),
        el("span", { id: "counts", "aria-live": "polite" }, total), sum > 0 && tally(added, removed),
        el("span.actions", button([icon("list"), "Files"], () => page.pane("tree"), { class: "narrow" }),
          el("span.choice", ...["Inline", "Side by side"].map((t, i) => button(t, () => this.turn(Boolean(i)),
            { "aria-pressed": String(this.sides === Boolean(i)), title: `${t} (s)`, id: i && "sides" })))))].filter(Boolean));
    back();
  }
  // list shows the files that the filter leaves, as a tree and as articles.
  list() {
    const want = $("filter").value.toLowerCase();
    this.found = want ? this.files.filter((f) => f.path.toLowerCase().includes(want)) : this.files;
    this.stack(0);
    this.tree();
  }
  tree() {
    const items = [];
    // walk adds what is in a directory, whose path has some characters. A directory that has only one is a row with it.
    const walk = (files, from, depth, above) => {
      for (const [name, inside] of Map.groupBy(files, ({ file }) => /^[^/]+\/|.+/s.exec(file.path.slice(from))[0])) {
        const next = from + name.length, path = inside[0].file.path.slice(0, next).replace(/\/$/, ""), one = path === ".git" ? 0 : next;
        const deeper = inside[0].file.path.indexOf("/", next) + 1, only = inside[0].file.path.slice(0, deeper);
        if (!name.endsWith("/")) items.push(...inside.map(({ file, at }) => ({ file, path, at, name, depth })));
        else if (one && deeper && inside.every(({ file }) => file.path.startsWith(only))) walk(inside, next, depth, above + name);
        else {
          items.push({ dir: true, path, name: above + name.slice(0, -1), depth, files: inside.length });
          if (!this.closed.has(path)) walk(inside, next, depth + 1, "");
        }
      }
    };
    walk(this.found.map((file, at) => ({ file, at })), 0, 0, "");
    this.rows.set(items, (a, b) => a.path === b.path);
  }
  choose(item) {
    if (!item.dir) { page.show("changes"); this.jump(item.at, true); return; }
    if (!this.closed.delete(item.path)) this.closed.add(item.path);
    this.tree();
  }
  draw(item, row) {
    const f = item.file, shut = this.closed.has(item.path);
    row.classList.add("entry");
    row.setAttribute("role", "treeitem");
    row.ariaLevel = item.depth + 1;
    row.ariaSelected = String(!item.dir && f === this.current);
    row.title = visible(f?.from ? `${f.from} → ${f.path}` : item.path);
    row.style.paddingLeft = `${.6 + item.depth * .9}rem`;
    if (item.dir) {
      row.ariaExpanded = String(!shut);
      row.append(icon(shut ? "right" : "down"), text(item.name, "path dir"), el("span.count", item.files.toLocaleString()));
      return;
    }
    row.classList.toggle("seen", this.viewed.has(this.mark(f)));
    row.append(status(f), text(item.name, "path"), f.added + f.removed > 0 ? tally(f.added, f.removed) : "");
  }
  // stack shows articles from one on, and more as the end comes near.
  stack(from) {
    const back = focus($("diffs"));
    if (!this.articles.size) $("diffs").scrollTop = 0; // another comparison
    Object.assign(this, { from, to: from, more: el("div.message") });
    this.near.disconnect();
    const nothing = this.files.length ? "No file has this in its path." : "Nothing changed.";
    const empty = !this.found.length && this.total !== null && (page.empty(this.at) || message(nothing));
    const above = from > 0 && button(`Show ${count(from, "file")} before`, () => this.jump(0), { class: "wide" });
    $("diffs").replaceChildren(...[above, empty, this.more].filter(Boolean));
    this.extend();
    back();
    this.current = this.found.find((f) => this.current && key(f) === key(this.current)) || this.found[0];
  }
  extend() {
    const end = Math.min(this.found.length, this.to + part);
    this.more.before(...this.found.slice(this.to, end).map((f) => this.article(f)));
    this.to = end;
    this.near.unobserve(this.more);
    if (end < this.found.length) this.near.observe(this.more);
  }
  article(f) {
    const known = this.articles.get(key(f)), same = known?.sides === this.sides && JSON.stringify(known.file) === JSON.stringify(f);
    if (same) { known.file = f; this.near.observe(known); return known; }
    const slash = f.path.lastIndexOf("/") + 1, name = visible(f.path), open = (tab) => () => page.file(f, this.at, tab);
    const see = () => {
      if (!this.viewed.delete(this.mark(f))) this.viewed.add(this.mark(f));
      this.fold(article, this.viewed.has(this.mark(f)));
      this.rows.redraw();
    };
    const article = el("article.file", { "data-path": f.path, "aria-label": name }, el("header",
      button(icon("down", `Fold ${name}`), () => this.fold(article), { class: "quiet fold", "aria-expanded": "true" }), status(f),
      el("h3.path", el("span.faint", visible(`${f.from ? `${f.from} → ` : ""}${f.path.slice(0, slash)}`)), visible(f.path.slice(slash))),
      el("span.counts", ...counts(f)),
      el("span.actions",
        el("label.check", el("input", { type: "checkbox", checked: this.viewed.has(this.mark(f)), onchange: see }), "Viewed"),
        store.writes && this.at.workspace === undefined && button("Restore", () => page.restoreFile(f, this.at)),
        menu(icon("more", `More for ${name}`), () => [["View file and blame", open("File")],
          ["History", open("History")], ["Events", open("Events")], ["Copy path", () => navigator.clipboard.writeText(f.path)]]))),
    el("div.body"));
    Object.assign(article, { file: f, sides: this.sides });
    const reason = this.viewed.has(this.mark(f)) ? "viewed" : this.why(f);
    if (reason) this.fold(article, true, reason);
    if (known) article.lastChild.style.minHeight = `${known.lastChild.offsetHeight}px`;
    this.articles.set(key(f), article);
    this.near.observe(article);
    return article;
  }
  // why is the reason to show a file folded, if there is one.
  why(f) {
    const large = f.added + f.removed > 1000 || Math.max(f.old_size || 0, f.new_size || 0) > 1 << 20;
    return this.asked.has(key(f)) ? "" : git(f) ? "git's own file" : generated.test(f.path) ? "generated"
      : f.binary && !images.test(f.path) ? `binary: ${bytes(f.old_size)} → ${bytes(f.new_size)}` : large ? "large" : "";
  }
  fold(article, shut = !article.classList.contains("folded"), reason = "") {
    article.classList.toggle("folded", shut);
    article.querySelector(".fold").setAttribute("aria-expanded", String(!shut));
    article.querySelector(".reason")?.remove();
    if (reason) article.querySelector(".counts").before(el("span.badge.reason", reason));
    if (!shut) this.want(article, true);
  }
  turn(sides = !this.sides) {
    this.sides = sides;
    if (this.at) this.header();
    if (!this.found.length) return; // nothing is shown yet
    const at = this.found.indexOf(this.current);
    this.stack(0);
    this.jump(at);
  }
  // want loads diffs one after the other, if they are still near when it is their turn, and what a person opens at once.
  want(article, now = false) {
    if (article.asked || article.classList.contains("folded")) return;
    article.asked = true;
    const load = async () => {
      if (now || (article.isConnected && article.near)) await this.load(article); else article.asked = false;
      await frame();
    };
    if (now) load(); else this.last = this.last.then(load);
  }
  async load(article) {
    const body = article.lastChild, at = { ...this.at, file: article.file };
    const restore = store.writes && at.workspace === undefined && ((h) => page.restoreHunk(at, h));
    try {
      redraw(body, await new Diff(at, { sides: this.sides, signal: this.stop.signal, restore }).load());
    } catch (e) { if (e.name === "AbortError") article.asked = false; else body.replaceChildren(page.sorry(e)); }
    body.style.minHeight = "";
  }
  // jump scrolls to a file, and opens it if it was asked for.
  jump(at, open = false) {
    const f = this.found[at];
    if (!f || !this.files.length) return; // others are being fetched
    if (at < this.from || at >= this.to + part) this.stack(Math.max(0, at - 1));
    while (this.to <= at) this.extend();
    const article = this.articles.get(key(f));
    this.current = f;
    if (open) { this.asked.add(key(f)); this.fold(article, false); }
    article.scrollIntoView();
    this.rows.redraw();
    this.rows.show(Math.max(0, this.rows.items.findIndex((i) => i.file === f)));
  }
  step(by) { this.jump(this.found.indexOf(this.current) + by); }
  // spy marks in the tree which file is being read.
  spy() {
    this.spying = null;
    const { left, top } = $("diffs").getBoundingClientRect(), now = document.elementFromPoint(left + 40, top + 40)?.closest("article");
    if (now?.file && now.file !== this.current) { this.current = now.file; this.rows.redraw(); }
  }
}
const status = ({ status: s }) => el("span", { class: `status ${s}`, role: "img", "aria-label": words[s], title: words[s] }, s);
const tally = (added = 0, removed = 0) => el("span.tally",
  el("span.plus", `+${added.toLocaleString()}`), el("span.minus", `−${removed.toLocaleString()}`));
function counts({ added = 0, removed = 0 }) {
  if (!(added + removed)) return [];
  const green = Math.round(5 * added / (added + removed));
  return [tally(added, removed), el("span.bars", { "aria-hidden": "true" },
    ...[0, 1, 2, 3, 4].map((i) => el("i", { class: i < green ? "plus" : "minus" })))];
}
// pick asks for one end of a comparison.
async function pick(label, done) {
  const all = [["", "Now", "the present state"], ...store.forks.map((f) => [`.forks/${f.name}`, `${f.name}, now`, "a fork"]),
    ...store.snapshots.map((s) => [s.name, titleOf(s.name), s.name]), ["base", "The beginning", "base"]];
  const list = el("div.choices", { role: "group", "aria-label": "States" });
  const show = () => {
    const found = all.filter((x) => x.join(" ").toLowerCase().includes(search.value.toLowerCase())).slice(0, 60);
    list.replaceChildren(...found.map(([name, title, note]) => el("button", { value: `=${name}` }, text(title), el("span.name", visible(note)))),
      found.length ? "" : message("No state has this in its name."));
  };
  const search = el("input", { type: "search", "aria-label": "Search states", placeholder: "Search", autocomplete: "off", oninput: show });
  show();
  const answer = await ask(label, [search, list], []);
  if (answer) done(answer.slice(1));
}
