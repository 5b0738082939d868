// The timeline: the present state on top, then forks and snapshots, newest first, with the lines that join them.
import { call, currentWorkspace } from "./api.js";
import { $, bytes, chip, chips, count, dayOf, el, ends, icon, svg, text, time, visible } from "./dom.js";
import { Rows } from "./rows.js";
import { before, parentOf, store, summary, takenBefore, titleOf } from "./store.js";
// kindIcon shows the kind of a snapshot, in the words of index.html.
export const kindIcon = ({ kind }) => icon($(`i-${kind}`) ? kind : "manual", $(`i-${kind}`)?.dataset.kind || kind);
const lane = 14, most = 6; // pixels of a line of the graph, and how many there are
const heightOf = (item) => ({ heading: 34, fork: 40, more: 34 })[item.type] || (item.two ? 81 : 60);
const faint = ({ kind }) => /^(pre-restore|actor|call)$/.test(kind); // its title is not bold
const pens = [550, 400].map((weight) => { // measure titles: bold, and faint
  const pen = document.createElement("canvas").getContext("2d"), { fontSize, fontFamily } = getComputedStyle(document.body);
  pen.font = `${weight} ${fontSize} ${fontFamily}`;
  return pen;
});
function widthOf(s) {
  const title = titleOf(s.name);
  if (s.titled !== title) Object.assign(s, { titled: title, wide: title.length < 20 ? 0 : pens[Number(faint(s))].measureText(title.slice(0, 100)).width });
  return s.wide;
}
export class Timeline {
  // select takes the names that are chosen: one, or two to compare. enter takes a fork's. all shows all forks.
  constructor(select, enter, all) {
    Object.assign(this, { select, enter, all, chosen: [], open: new Set(), totals: new Map(), width: 1 });
    this.rows = new Rows($("snapshots"), { height: heightOf, draw: (item, row) => this.draw(item, row),
      choose: (item, e) => this.choose(item, e), open: (item, e) => (item.fold ? this.unfold(item) : this.choose(item, e)) });
    $("search").addEventListener("input", () => this.show());
    new ResizeObserver(([{ contentRect: { width } }]) => { if (width && this.rows.items.length) this.show(); }).observe($("snapshots"));
  }
  choose(item, e = {}) {
    if (e.target?.closest?.(".unfold")) { this.unfold(item); return; }
    if (item.type === "more") { if (/^(click|Enter| )$/.test(e.key || e.type)) this.all(); return; }
    if (item.type === "fork") { if (/^(click|Enter| )$/.test(e.key || e.type)) this.enter(item.fork.name); return; }
    const extend = (e.shiftKey || e.ctrlKey || e.metaKey) && this.chosen.length && this.chosen[0] !== item.key;
    const range = !extend && item.fold && [before(item.fold.at(-1).name), item.fold[0].name];
    this.chosen = extend ? [this.chosen[0], item.name] : [item.key];
    this.select(range || this.chosen, range && `${count(item.fold.length, "turn")} together`);
  }
  unfold(item) { if (!this.open.delete(item.key)) this.open.add(item.key); this.show(); }
  show() {
    const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean), items = [];
    if (!words.length) {
      items.push({ key: "", name: "", type: "now" });
      const shown = currentWorkspace() ? [] : store.forks.slice(0, store.forks.length === 5 ? 5 : 4);
      for (const fork of shown) items.push({ key: `fork ${fork.name}`, type: "fork", fork });
      if (shown.length && shown.length < store.forks.length) items.push({ key: "more forks", type: "more", more: store.forks.length - shown.length });
    }
    const matches = (s) => {
      const labels = Object.entries(s.labels || {}).map((label) => label.join("="));
      const all = [s.name, s.message, s.kind, s.command, ...(s.actors || []), ...labels].join(" ").toLowerCase();
      return words.every((w) => all.includes(w));
    };
    const parts = words.length ? store.snapshots.filter(matches).map((s) => [s]) : folded(store.snapshots);
    let day = null;
    for (const part of parts) {
      const today = dayOf(part[0].created), { name } = part[0], key = `fold ${name}`;
      if (today !== day) items.push({ key: `day ${today}`, type: "heading", heading: day = today });
      if (part.length > 1) items.push({ key, name, type: "fold", fold: part, open: this.open.has(key) });
      if (part.length === 1 || this.open.has(key)) items.push(...part.map((s) => ({ key: s.name, name: s.name, type: "one", snapshot: s })));
    }
    this.width = words.length ? 0 : graph(items);
    const room = $("snapshots").clientWidth - lane * this.width - 53;
    for (const i of items) i.two = i.snapshot && widthOf(i.snapshot) > room - (i.snapshot.pinned ? 22 : 0);
    this.rows.set(items, (a, b) => a.key === b.key || Boolean(a.snapshot && a.snapshot.seq === b.snapshot?.seq));
    $("no-match").hidden = items.length > 0;
    $("no-match").textContent = `No snapshot has “${visible($("search").value)}” in its name, message, actors or labels.`;
  }
  draw(item, row) {
    row.classList.add(item.type, item.two ? "two" : "short");
    row.setAttribute("role", item.heading ? "presentation" : "option");
    row.append(this.lines(item));
    if (item.heading) { row.append(item.heading); return; }
    row.setAttribute("aria-selected", String(this.chosen.includes(item.key)));
    const { fork, snapshot: s } = item;
    row.title = visible(fork ? fork.name : s ? [titleOf(s.name), s.name, ...(s.actors || [])].filter((x, i, all) => all.indexOf(x) === i).join("\n") : "");
    const [title, facts, when] = this[item.type](item);
    row.append(el("div.words", el("div.title", ...title), el("div.note", el("span.facts", ...facts), when)));
  }
  one({ name, snapshot: s }) {
    const badge = (on, words, kind = "") => on && el("span", { class: `badge ${kind}` }, words);
    const labels = Object.entries(s.labels || {}).filter(([k]) => k !== "run" && k !== "applied"), runs = s.labels?.run === "running";
    return [[kindIcon(s), text(titleOf(name), faint(s) ? "faint" : ""), s.pinned && icon("pin", "pinned")],
      [titleOf(name) !== name && text(name, "name"), ...chips(s.actors), badge(name === store.undo, "undo point"),
        badge(name === store.head && name !== store.snapshots[0]?.name, "restored", "here"),
        runs && text(s.message || "", "name command"), ...tally(summary(name, () => this.rows.redraw())),
        ...labels.slice(0, 1).map(([k, v]) => badge(true, visible(`${k}=${v}`)))], time(s.created)];
  }
  fold({ fold, open }) {
    const from = before(fold.at(-1).name), to = fold[0].name, key = `${from}\n${to}`;
    const who = [...new Set(fold.flatMap((s) => s.actors || []))];
    if (!this.totals.has(key)) {
      this.totals.set(key, null);
      call("changes", { a: from, b: to, limit: 1 }).then((found) => { this.totals.set(key, found.files); this.rows.redraw(); }, () => {});
    }
    const files = this.totals.get(key), by = who.length > 1 ? ` by ${who.length} actors` : who.length ? ` by ${who[0]}` : "";
    return [[el("span.unfold", { title: open ? "Fold (Enter)" : "Unfold (Enter)" }, icon(open ? "down" : "right")),
      text(`${count(fold.length, "turn")}${by}${files === null ? "" : `, ${count(files, "file")}`}`)],
    [...chips(who), text(titleOf(to), "faint")], time(fold[0].created)];
  }
  now() {
    const n = store.present, files = n === null ? "" : n ? count(n, "changed file") : "no changes";
    return [[text("Now"), el("span.badge.here", "you are here")], [text(`the present state${files && `, ${files}`}`)]];
  }
  more({ more }) { return [[text(`${count(more, "more fork")} …`, "faint")], []]; }
  fork({ fork: f }) {
    return [[icon("fork", "a fork"), ends(f.name), f.last && chip(f.last), el("span.count",
      `${count(f.changed, "file")}${f.more ? " +" : ""}`)], []];
  }
  // lines draws the part of the graph that is in a row.
  lines(item) {
    const { graph: g, type } = item, h = heightOf(item), mid = 20, x = (i) => lane * (Math.min(i, most - 1) + .5);
    const box = svg("svg", { class: "graph", width: lane * this.width + 4, height: h, "aria-hidden": "true" });
    if (!this.width) return box;
    const path = (i, d) => box.append(svg("path", { class: `l${i % most}`, d }));
    for (const i of g.pass) path(i, `M${x(i)} 0V${h}`);
    for (const i of g.up) path(i, `M${x(i)} 0C${x(i)} ${mid} ${x(g.at)} 0 ${x(g.at)} ${mid}`);
    for (const i of g.down) path(Math.max(i, g.at), `M${x(g.at)} ${mid}C${x(g.at)} ${h} ${x(i)} ${mid} ${x(i)} ${h}`);
    if (!item.heading && !item.more) box.append(svg("circle", { class: `l${g.at % most} ${type}`, cx: x(g.at), cy: mid, r: type === "now" ? 5 : 4 }));
    return box;
  }
}
// folded joins the turns between two snapshots of a person.
function folded(snapshots) {
  const parts = [];
  let run = [], person = false;
  const flush = (end) => { if (run.length > 2 && person && end) parts.push(run); else parts.push(...run.map((s) => [s])); run = []; };
  for (const s of snapshots) {
    const turn = ["turn", "call", "auto", "actor"].includes(s.kind) && !s.pinned;
    if (turn && (!run.length || parentOf(run.at(-1).name) === s.name)) { run.push(s); continue; }
    const hand = !turn && s.kind !== "pre-restore";
    flush(hand);
    if (turn) run.push(s); else parts.push([s]);
    person = hand;
  }
  flush(false);
  return parts;
}
function tally(t) {
  const part = (sign, n, kind, word) => Boolean(n) && el("span", { class: kind, title: `${n} ${word}` }, `${sign}${n.toLocaleString()}`);
  return t ? [el("span.tally", part("+", t.added, "plus", "added"), part("~", t.modified, "tilde", "modified"),
    part("−", t.deleted, "minus", "deleted")), Boolean(t.bytes) && el("span.count", bytes(t.bytes))] : [];
}
// graph gives each item the lines that come from above, pass, and go on below, as
// `git log --graph` does, and returns how many there are beside each other.
function graph(items) {
  const keyOf = new Map(), merges = new Map(); // from the state before a merge to where the fork began
  // A fork of a present state began after the newest snapshot that is older.
  const baseOf = (f) => f && (f.base || store.snapshots.find((s) => s.created <= f.created)?.name);
  for (const item of items) {
    for (const { name } of item.fold && !item.open ? item.fold : [item]) if (!keyOf.has(name)) keyOf.set(name, item.key);
  }
  for (const s of store.snapshots) {
    const [, what, fork] = takenBefore(s) || [];
    if (what === "merge") merges.set(s.name, baseOf(store.forks.find((f) => f.name === fork)));
  }
  const places = new Map(items.map((i, n) => [i.key, n]));
  const lanes = []; // the key that each waits for
  const free = () => { const i = lanes.indexOf(null); return i < 0 ? lanes.length : i; };
  let width = 1;
  items.forEach((item, n) => {
    const outside = item.heading || item.more, up = outside ? [] : lanes.flatMap((k, i) => (k === item.key ? [i] : []));
    item.graph = { up, pass: lanes.flatMap((k, i) => (k !== null && !up.includes(i) ? [i] : [])), down: [], at: up[0] ?? free() };
    if (outside) return;
    lanes[item.graph.at] = null;
    for (const i of up) lanes[i] = null;
    const oldest = item.fold && !item.open ? item.fold.at(-1).name : item.name, parent = item.fork ? baseOf(item.fork) : parentOf(oldest);
    const merged = !item.fork && store.places.get(parent) === (store.places.get(oldest) ?? -1) + 1; // else the merge was undone
    for (const p of [parent, merged && merges.get(parent)]) {
      const key = item.open ? item.name : keyOf.get(p);
      if (!p || key === undefined || places.get(key) <= n) continue;
      const i = p === parent ? item.graph.at : lanes.includes(key) ? lanes.indexOf(key) : free();
      lanes[i] = key;
      item.graph.down.push(i);
    }
    width = Math.max(width, lanes.length);
  });
  return Math.min(width, most);
}
