// What differs between two states: a header, a tree of files, and all diffs below each
// other.

import { call } from "./api.js";
import { $, ask, button, bytes, chip, count, el, failed, frame, icon, menu, pathOf, time, visible } from "./dom.js";
import { Diff, images } from "./diff.js";
import { Rows } from "./rows.js";
import { kindIcon } from "./timeline.js";
import { named, page, parentOf, spelled, store, titleOf } from "./store.js";

const generated = new RegExp("(^|/)(package-lock\\.json|(yarn|Cargo|poetry|composer|Gemfile)\\.lock|pnpm-lock\\.yaml|go\\.sum)$"
  + "|\\.(min\\.(js|css)|map|pb\\.go|snap)$|(^|/)(node_modules|vendor|dist|__pycache__)/");
const git = (f) => f.path === ".git" || f.path.startsWith(".git/");
const words = { A: "added", M: "modified", D: "deleted", R: "renamed", T: "type changed" };
const part = 60; // articles at once
const key = (f) => `${f.path}\n${f.raw || ""}`;

export class Changes {
  constructor() {
    Object.assign(this, { files: [], articles: new Map(), closed: new Set(), viewed: new Set(), sides: false });
    this.rows = new Rows($("files"), {
      height: () => 28, draw: (item, row) => this.draw(item, row), choose: (item) => this.choose(item),
    });
    $("filter").addEventListener("input", () => this.list());
    $("diffs").addEventListener("scroll", () => { this.spying ??= requestAnimationFrame(() => this.spy()); }, { passive: true });
    this.near = new IntersectionObserver((entries) => {
      for (const e of entries) if (e.isIntersecting) e.target === this.more ? this.extend() : this.want(e.target.file);
    }, { root: $("diffs"), rootMargin: "500px" });
  }

  // show compares a with b in a workspace; one is the name of the state that it is about.
  async show(at) {
    this.stop?.abort();
    this.stop = new AbortController();
    Object.assign(this, { at, files: [], total: null, articles: new Map(), queue: [] });
    this.closed = new Set([".git"]);
    $("filter").value = "";
    this.header();
    const slow = setTimeout(() => $("diffs").replaceChildren(el("p", { class: "message" }, "Comparing …")), 200);
    try {
      await this.fetch((files) => { clearTimeout(slow); this.set(files); });
    } catch (e) {
      if (e.name === "AbortError") return;
      this.set([]);
      $("diffs").replaceChildren(page.sorry(e));
    } finally { clearTimeout(slow); }
  }

  // refresh looks again, and leaves what is being read where it is. Files in dirty, or all,
  // have other contents.
  async refresh(dirty) {
    this.stop?.abort();
    this.stop = new AbortController();
    const top = $("diffs").scrollTop;
    await this.fetch((files) => this.set(files, dirty));
    $("diffs").scrollTop = top;
  }

  async fetch(arrived) {
    const { signal } = this.stop, { a, b, workspace } = this.at;
    const query = { a, b, lines: true, by: this.at.by };
    let found = await call("changes", { ...query, limit: 300, quick: true }, { signal, workspace });
    this.total = found.more ? Infinity : found.files;
    arrived(found.paths || []);
    if (!found.more) return;
    found = await call("changes", { ...query, limit: 20000 }, { signal, workspace });
    this.total = found.files;
    arrived(found.paths || []);
  }

  set(files, dirty = new Set()) {
    this.files = [...files].sort((a, b) => git(a) - git(b) || (a.path < b.path ? -1 : 1));
    if (this.at.b === "" && this.at.workspace === undefined && !this.at.by) page.counted(this.at.a, this.total);
    for (const [path, article] of this.articles) if (!dirty.has || dirty.has(article.file.path)) this.articles.delete(path);
    this.list();
    this.header();
  }

  header() {
    const { a, b, one, by, range } = this.at, s = named(one), writes = store.writes;
    const end = (name, label) => button([el("span", { class: "text" }, visible(spelled(name))), icon("down")],
      () => pick(label, (to) => page.compare(label === "from" ? to : a, label === "from" ? b : to)), { class: "end", title: `Compare ${label} …` });
    const sum = (k) => this.files.reduce((n, f) => n + (f[k] || 0), 0);
    const sides = el("span", { class: "choice" }, ...["Inline", "Side by side"].map((t, i) => button(t, () => this.turn(Boolean(i)),
      { "aria-pressed": String(this.sides === Boolean(i)), title: `${t} (s)`, id: i && "sides" })));
    $("subject").replaceChildren(
      el("div", { class: "line" },
        button(icon("back", "Back to the timeline"), () => page.pane("timeline"), { class: "quiet narrow" }),
        el("h2", { class: "path" }, visible(one === undefined ? `${spelled(a)} → ${spelled(b)}` : range || titleOf(one))),
        el("div", { class: "actions", id: "actions" }, ...(writes ? page.actions(this.at) : []))),
      ...(s && !range ? [el("div", { class: "line meta" }, kindIcon(s), s.message && el("span", { class: "name" }, visible(one)),
        ...(s.actors || []).map((actor) => menu(visible(actor), () => page.actorItems(actor), { class: chip(actor).className })),
        time(s.created), s.pinned && el("span", { class: "badge" }, "pinned"),
        parentOf(one) !== store.snapshots[store.places.get(one) + 1]?.name && s.parent && el("span", {}, `continues ${visible(s.parent)}`))] : []),
      el("div", { class: "line compare" }, end(a, "from"), icon("to", "compared with"), end(b, "to"),
        button(icon("swap", "Swap"), () => page.compare(b, a), { class: "quiet" }),
        by && el("span", {}, "only ", chip(by), button(icon("close", "All actors"), () => page.compare(a, b), { class: "quiet" })),
        el("span", { id: "counts", "aria-live": "polite" }, this.total === null ? "" : this.total === Infinity ? `${count(this.files.length, "file")} and more` : count(this.total, "file")),
        sum("added") + sum("removed") > 0 && tally(sum("added"), sum("removed")),
        el("span", { class: "actions" },
          button([icon("list"), "Files"], () => page.pane("tree"), { class: "narrow" }),
          this.files.length > 1 && button("Fold all", () => this.foldAll()), sides)));
  }

  // list shows the files that the filter leaves, as a tree and as articles.
  list() {
    const want = $("filter").value.toLowerCase();
    this.found = want ? this.files.filter((f) => f.path.toLowerCase().includes(want)) : this.files;
    this.items();
    this.from = 0;
    this.stack();
  }

  items() {
    const items = [], inside = new Map();
    let dirs = [];
    this.found.forEach((f, at) => {
      const parts = f.path.split("/"), name = parts.pop();
      let same = 0;
      while (same < dirs.length && dirs[same] === parts[same]) same++;
      for (let i = same; i < parts.length; i++) {
        const path = parts.slice(0, i + 1).join("/");
        inside.set(path, { dir: true, path, name: parts[i], depth: i, files: 0 });
        items.push(inside.get(path));
      }
      for (let i = 0, path = ""; i < parts.length; i++) inside.get(path += (i ? "/" : "") + parts[i]).files++;
      dirs = parts;
      items.push({ file: f, path: f.path, at, name, depth: parts.length });
    });
    // A directory that has only one is a row with it.
    for (let i = items.length - 2; i >= 0; i--) {
      const [d, next] = [items[i], items[i + 1]];
      if (!d.dir || !next.dir || next.depth !== d.depth + 1 || next.files !== d.files || git(d)) continue;
      items.splice(i, 1);
      next.name = `${d.name}/${next.name}`;
      for (let j = i; j < items.length && items[j].depth > d.depth; j++) items[j].depth--;
    }
    const shut = (path) => { for (let i = path.lastIndexOf("/"); i > 0; i = path.lastIndexOf("/", i - 1)) if (this.closed.has(path.slice(0, i))) return true; return false; };
    this.rows.set(this.closed.size ? items.filter((i) => !shut(i.path)) : items, (a, b) => a.path === b.path);
  }

  choose(item) {
    if (item.dir) {
      if (!this.closed.delete(item.path)) this.closed.add(item.path);
      this.items();
      return;
    }
    page.show("changes");
    this.jump(item.at, true);
  }

  draw(item, row) {
    const f = item.file;
    row.classList.add("entry");
    row.setAttribute("role", "treeitem");
    row.setAttribute("aria-level", item.depth + 1);
    row.setAttribute("aria-selected", String(!item.dir && f === this.current));
    row.style.paddingLeft = `${.6 + item.depth * .9}rem`;
    if (item.dir) {
      row.setAttribute("aria-expanded", String(!this.closed.has(item.path)));
      row.append(icon(this.closed.has(item.path) ? "right" : "down"), el("span", { class: "path text dir" }, visible(item.name)), el("span", { class: "count" }, item.files.toLocaleString()));
    } else {
      row.classList.toggle("seen", this.viewed.has(key(f)));
      row.append(status(f), el("span", { class: "path text", title: visible(f.from ? `${f.from} → ${f.path}` : f.path) }, visible(item.name)),
        f.added + f.removed > 0 ? tally(f.added, f.removed) : "");
    }
  }

  // stack shows articles from one on, and more as the end comes near.
  stack() {
    this.queue = [];
    this.near.disconnect();
    this.to = this.from;
    this.more = el("div", { class: "message" });
    const nothing = this.total === null ? "" : this.files.length ? "No file has this in its path." : this.at.b === "" && this.at.one === "" ? "Nothing changed since then." : "No differences.";
    const empty = !this.found.length && nothing && (page.empty(this.at) || el("p", { class: "message" }, nothing));
    $("diffs").replaceChildren(...[this.from > 0 && button(`Show the ${count(this.from, "file")} before`, () => this.jump(0), { class: "wide" }), empty, this.more].filter(Boolean));
    this.extend();
    if (this.found.length) this.current ??= this.found[0];
  }

  extend() {
    const end = Math.min(this.found.length, this.to + part);
    this.more.before(...this.found.slice(this.to, end).map((f) => this.article(f)));
    this.to = end;
    this.near.unobserve(this.more);
    if (end < this.found.length) this.near.observe(this.more);
  }

  article(f) {
    const known = this.articles.get(key(f));
    if (known && known.sides === this.sides && JSON.stringify(known.file) === JSON.stringify(f)) { known.file = f; this.near.observe(known); return known; }
    const reason = this.viewed.has(key(f)) ? "viewed" : this.why(f);
    const fold = button(icon("down"), () => this.fold(article), { class: "quiet fold", "aria-expanded": "true", "aria-label": `Fold ${visible(f.path)}` });
    const slash = f.path.lastIndexOf("/") + 1;
    const see = el("input", { type: "checkbox", checked: this.viewed.has(key(f)), onchange: () => {
      if (!this.viewed.delete(key(f))) this.viewed.add(key(f));
      this.fold(article, this.viewed.has(key(f)));
      this.rows.redraw();
    } });
    const open = (tab) => () => page.file(f, this.at, tab);
    const article = el("article", { class: "file", "data-path": f.path, "aria-label": visible(f.path) },
      el("header", {}, fold, status(f),
        el("h3", { class: "path" }, f.from && el("span", { class: "faint" }, `${visible(f.from)} → `), el("span", { class: "faint" }, visible(f.path.slice(0, slash))), visible(f.path.slice(slash))),
        el("span", { class: "counts" }, ...counts(f)),
        el("span", { class: "actions" },
          el("label", { class: "check" }, see, "Viewed"),
          store.writes && button("Restore", () => page.restoreFile(f, this.at), { title: "Preview a restore of this file" }),
          menu(icon("more", `More for ${visible(f.path)}`), () => [["View file and blame", open("File")], ["History", open("History")], ["Events", open("Events")],
            ["Copy path", () => navigator.clipboard.writeText(f.path)]]))),
      el("div", { class: "body" }));
    Object.assign(article, { file: f, sides: this.sides });
    if (reason) this.fold(article, true, reason);
    if (known) article.lastChild.style.minHeight = `${known.lastChild.offsetHeight}px`;
    this.articles.set(key(f), article);
    this.near.observe(article);
    return article;
  }

  // why is the reason to show a file folded, if there is one.
  why(f) {
    if (this.asked?.has(key(f))) return "";
    if (git(f)) return "git's own file";
    if (f.binary && !images.test(f.path)) return `binary: ${bytes(f.old_size)} before, ${bytes(f.new_size)} after`;
    if (generated.test(f.path)) return "generated";
    if (f.added + f.removed > 1000 || Math.max(f.old_size || 0, f.new_size || 0) > 1 << 20) return `large: ${bytes(f.new_size || f.old_size)}`;
    return "";
  }

  fold(article, shut = !article.classList.contains("folded"), reason = "") {
    article.classList.toggle("folded", shut);
    article.querySelector(".fold").setAttribute("aria-expanded", String(!shut));
    article.querySelector(".reason")?.remove();
    if (shut && reason) article.querySelector(".counts").before(el("span", { class: "badge reason" }, reason));
    if (!shut) this.want(article.file);
  }

  foldAll() {
    const all = [...$("diffs").querySelectorAll("article")], open = all.every((a) => a.classList.contains("folded"));
    for (const a of all) this.fold(a, !open);
  }

  turn(sides = !this.sides) {
    this.sides = sides;
    this.header();
    const at = this.found.indexOf(this.current);
    this.stack();
    if (at > 0) this.jump(at);
  }

  // want loads a diff, one after the other.
  async want(f) {
    const article = f && this.articles.get(key(f));
    if (!article || article.asked || article.classList.contains("folded")) return;
    article.asked = true;
    this.queue.push(article);
    if (this.loading) return;
    this.loading = true;
    while (this.queue.length) {
      const next = this.queue.shift();
      if (next.isConnected) await this.load(next);
      await frame();
    }
    this.loading = false;
  }

  async load(article) {
    const body = article.lastChild, { signal } = this.stop, at = { ...this.at, file: article.file };
    const restore = store.writes && !at.workspace && !/^\.forks\//.test(at.a) ? (h) => page.restoreHunk(at, h) : undefined;
    try {
      const diff = new Diff(at, { sides: this.sides, signal, restore });
      const box = await diff.load();
      body.replaceChildren(box);
      if (diff.found?.hunks && !diff.found.next && article.file.added === undefined) {
        for (const [k, op] of [["added", "+"], ["removed", "-"]]) {
          article.file[k] = diff.found.hunks.reduce((n, h) => n + h.lines.filter((l) => l.op === op).length, 0);
        }
        article.querySelector(".counts").replaceChildren(...counts(article.file));
      }
    } catch (e) {
      if (e.name === "AbortError") { article.asked = false; return; }
      body.replaceChildren(page.sorry(e));
    }
    body.style.minHeight = "";
  }

  // jump scrolls to a file, and opens it if it was asked for.
  async jump(at, open = false) {
    const f = this.found[at];
    if (!f) return;
    if (at < this.from || at >= this.to + part) { this.from = at && Math.max(0, at - 1); this.stack(); } else while (this.to <= at) this.extend();
    const article = this.articles.get(key(f));
    if (open) { (this.asked ??= new Set()).add(key(f)); this.fold(article, false); }
    this.current = f;
    article.scrollIntoView();
    this.rows.redraw();
    this.jumped = performance.now();
    const row = this.rows.items.findIndex((i) => i.file === f);
    if (row >= 0) this.rows.show(row);
  }

  step(by) { this.jump(this.found.indexOf(this.current) + by); }

  // spy marks in the tree which file is being read.
  spy() {
    this.spying = null;
    if (performance.now() - this.jumped < 300) return;
    const top = $("diffs").getBoundingClientRect().top + 40;
    const now = [...$("diffs").querySelectorAll("article")].find((a) => a.getBoundingClientRect().bottom > top);
    if (!now || now.file === this.current) return;
    this.current = now.file;
    this.rows.redraw();
  }
}

export const status = (f) => el("span", { class: `status ${f.status}`, role: "img", "aria-label": words[f.status], title: words[f.status] }, f.status);
const tally = (added, removed) => el("span", { class: "tally" }, el("span", { class: "plus" }, `+${(added || 0).toLocaleString()}`), el("span", { class: "minus" }, `−${(removed || 0).toLocaleString()}`));

function counts(f) {
  const sum = (f.added || 0) + (f.removed || 0);
  if (!sum) return [];
  const green = Math.round(5 * (f.added || 0) / sum);
  return [tally(f.added, f.removed), el("span", { class: "bars", "aria-hidden": "true" }, ...[0, 1, 2, 3, 4].map((i) => el("i", { class: i < green ? "plus" : "minus" })))];
}

// pick asks for one end of a comparison.
async function pick(label, done) {
  const all = [["", "Now", "the present state"], ...store.forks.map((f) => [`.forks/${f.name}`, `${f.name}, now`, "a fork"]),
    ...store.snapshots.map((s) => [s.name, titleOf(s.name), s.name]), ["base", "The beginning", "base"]];
  const search = el("input", { type: "search", "aria-label": "Search states", placeholder: "Search", autocomplete: "off" });
  const list = el("div", { class: "choices", role: "group", "aria-label": "States" });
  const show = () => {
    const want = search.value.toLowerCase();
    list.replaceChildren(...all.filter((x) => x.join(" ").toLowerCase().includes(want)).slice(0, 60)
      .map(([name, title, note]) => el("button", { value: `=${name}` }, el("span", { class: "text" }, visible(title)), el("span", { class: "name" }, visible(note)))));
  };
  search.addEventListener("input", show);
  show();
  const answer = await ask(`Compare ${label}`, [search, list], []);
  if (answer) done(answer.slice(1));
}
