// The timeline: the present state on top, then forks and snapshots, newest first, with
// the lines that join them.

import { call } from "./api.js";
import { $, bytes, chip, count, dayOf, el, icon, svg, time, visible } from "./dom.js";
import { Rows } from "./rows.js";
import { before, named, parentOf, store, summary, takenBefore, titleOf } from "./store.js";

const kinds = {
  manual: "taken by hand", turn: "an agent's turn", auto: "taken by the policy", "pre-restore": "taken before a restore",
  fork: "the last state of a fork", import: "imported", pull: "pulled from a remote", actor: "taken before another actor's change",
};
export const kindIcon = (s) => icon(kinds[s.kind] ? s.kind : "manual", kinds[s.kind] || s.kind);

const scale = parseFloat(getComputedStyle(document.documentElement).fontSize) / 15;
const lane = 14 * scale, most = 6;  // pixels of a line of the graph, and how many there are
const heightOf = (item) => scale * ({ heading: 34, fork: 40 }[item.type] || 60);
const shownForks = 4;

export class Timeline {
  // select takes the names that are chosen: one, or two to compare. enter takes a fork's.
  constructor(select, enter) {
    Object.assign(this, { select, enter, chosen: [], open: new Set(), totals: new Map(), width: 1 });
    this.rows = new Rows($("snapshots"), {
      height: heightOf, draw: (item, row) => this.draw(item, row), choose: (item, e) => this.choose(item, e), open: (item, e) => this.unfold(item, e),
    });
    $("search").addEventListener("input", () => this.show());
  }

  choose(item, e = {}) {
    if (e.target?.closest?.(".unfold")) { this.unfold(item, e); return; }
    if (item.type === "fork") { this.enter(item.fork.name); return; }
    const extend = (e.shiftKey || e.ctrlKey || e.metaKey) && this.chosen.length && this.chosen[0] !== item.key;
    const range = item.fold && [before(item.fold[item.fold.length - 1].name), item.fold[0].name];
    this.chosen = extend ? [this.chosen[0], item.name] : [item.key];
    this.select(extend ? this.chosen : range || this.chosen, Boolean(range));
  }

  unfold(item, e) {
    if (!item.fold) { this.choose(item, e); return; }
    if (!this.open.delete(item.key)) this.open.add(item.key);
    this.show();
  }

  show() {
    const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const items = [];
    if (!words.length) {
      items.push({ key: "", name: "", type: "now" });
      for (const fork of store.forks.slice(0, shownForks)) items.push({ key: `fork ${fork.name}`, type: "fork", fork });
    }
    const found = words.length ? store.snapshots.filter((s) => {
      const labels = Object.entries(s.labels || {}).map(([k, v]) => `${k}=${v}`);
      const text = [s.name, s.message, s.kind, s.command, ...(s.actors || []), ...labels].join(" ").toLowerCase();
      return words.every((w) => text.includes(w));
    }) : store.snapshots;
    let day = null;
    for (const part of words.length ? found.map((s) => [s]) : this.folded(found)) {
      const today = dayOf(part[0].created);
      if (today !== day) items.push({ key: `day ${today}`, type: "heading", heading: day = today });
      const key = part[0].name;
      if (part.length > 1) items.push({ key: `fold ${key}`, name: key, type: "fold", fold: part });
      if (part.length === 1 || this.open.has(`fold ${key}`)) items.push(...part.map((s) => ({ key: s.name, name: s.name, snapshot: s })));
    }
    this.width = words.length ? 0 : graph(items);
    this.rows.set(items, (a, b) => a.key === b.key);
    $("snapshots").classList.toggle("none", !found.length);
    const empty = $("timeline").querySelector(".message");
    if (empty) empty.remove();
    if (words.length && !found.length) {
      $("timeline").append(el("p", { class: "message", role: "status" }, `No snapshot has “${visible($("search").value)}” in its name, message, actors or labels.`));
    }
  }

  // folded joins the turns between two snapshots of a person.
  folded(snapshots) {
    const parts = [];
    let run = [], person = false;
    const flush = (end) => {
      if (run.length > 2 && person && end) parts.push(run); else parts.push(...run.map((s) => [s]));
      run = [];
    };
    for (const s of snapshots) {
      const turn = ["turn", "auto", "actor"].includes(s.kind) && !s.pinned;
      if (turn && (!run.length || parentOf(run[run.length - 1].name) === s.name)) { run.push(s); continue; }
      flush(!turn && s.kind !== "pre-restore");
      if (turn) run.push(s); else parts.push([s]);
      person = !turn && s.kind !== "pre-restore";
    }
    flush(false);
    return parts;
  }

  draw(item, row) {
    row.classList.add(item.type || "snapshot");
    if (item.heading) {
      row.setAttribute("role", "presentation");
      row.append(this.lines(item), el("span", {}, item.heading));
      return;
    }
    row.setAttribute("role", "option");
    row.setAttribute("aria-selected", String(this.chosen.includes(item.key)));
    const [title, second] = this[item.type || "one"](item);
    row.append(this.lines(item), el("div", { class: "words" }, el("div", { class: "title" }, ...title), el("div", { class: "note" }, ...second)));
  }

  one({ name, snapshot: s }) {
    const changed = summary(name, () => this.rows.redraw());
    const earlier = takenBefore(s);
    return [
      [kindIcon(s), el("span", { class: `text${earlier ? " faint" : ""}` }, visible(titleOf(name))), s.pinned && icon("pin", "pinned")],
      [name === store.undo && el("span", { class: "badge" }, "undo point"),
        name === store.head && store.head !== store.snapshots[0]?.name && el("span", { class: "badge here" }, "you are here"),
        ...chips(s.actors),
        titleOf(name) !== name && el("span", { class: "name" }, visible(name)),
        ...Object.entries(s.labels || {}).slice(0, 2).map(([k, v]) => el("span", { class: "badge" }, visible(`${k}=${v}`))),
        ...tally(changed, s.counts), time(s.created)],
    ];
  }

  fold({ fold }) {
    const [from, to] = [before(fold[fold.length - 1].name), fold[0].name];
    const who = [...new Set(fold.flatMap((s) => s.actors || []))];
    const key = `${from}\n${to}`;
    if (!this.totals.has(key)) {
      this.totals.set(key, null);
      call("changes", { a: from, b: to, limit: 1 }).then((found) => { this.totals.set(key, found.files); this.rows.redraw(); }, () => {});
    }
    const files = this.totals.get(key);
    const open = this.open.has(`fold ${to}`);
    return [
      [el("span", { class: "unfold", title: open ? "Fold (Enter)" : "Unfold (Enter)" }, icon(open ? "down" : "right")),
        el("span", { class: "text" }, `${count(fold.length, "turn")}${who.length ? ` by ${visible(who.slice(0, 2).join(" and "))}` : ""}`,
          files === null ? "" : `, ${count(files, "file")}`)],
      [...chips(who), el("span", { class: "text faint" }, visible(titleOf(to))), time(fold[0].created)],
    ];
  }

  now() {
    const { files, last } = store.present;
    return [
      [el("span", { class: "text" }, "Now"), el("span", { class: "badge here" }, "you are here"),
        el("span", { class: "count" }, files === null ? "" : files ? count(files, "changed file") : "no changes")],
      [el("span", { class: "text" }, visible(last) || "the workspace as it is")],
    ];
  }

  fork({ fork: f }) {
    return [
      [icon("fork", "a fork"), el("span", { class: "text" }, visible(f.name)), f.last && chip(f.last),
        el("span", { class: "count" }, count(f.changed, f.more ? "file and more" : "file", f.more ? "files and more" : "files"))], []];
  }

  // lines draws the part of the graph that is in a row.
  lines(item) {
    const { graph: g, type } = item, h = heightOf(item), mid = 20 * scale;
    const x = (i) => lane * (Math.min(i, most - 1) + .5);
    const box = svg("svg", { class: "graph", width: lane * this.width + 4, height: h, "aria-hidden": "true" });
    if (!g) return box;
    const path = (i, d) => box.append(svg("path", { class: `l${i % most}`, d }));
    for (const i of g.pass) path(i, `M${x(i)} 0V${h}`);
    for (const i of g.up) path(i, i === g.at ? `M${x(i)} 0V${mid}` : `M${x(i)} 0C${x(i)} ${mid} ${x(g.at)} 0 ${x(g.at)} ${mid}`);
    for (const i of g.down) {
      path(Math.max(i, g.at), i === g.at ? `M${x(i)} ${mid}V${h}` : `M${x(g.at)} ${mid}C${x(g.at)} ${h} ${x(i)} ${mid} ${x(i)} ${h}`);
    }
    if (g.at !== undefined) {
      box.append(svg("circle", { class: `l${g.at % most}${type === "now" ? " now" : ""}`, cx: x(g.at), cy: mid, r: type === "now" ? 5 : 4 }));
    }
    return box;
  }

  only(actor) {
    $("search").value = actor;
    this.show();
  }
}

// chips shows an actor, and how many there are besides.
const chips = (actors = []) => [actors[0] && chip(actors[0]),
  actors.length > 1 && el("span", { class: "count", title: visible(actors.join(", ")) }, `+${actors.length - 1}`)];

function tally(changed, counts) {
  const { added, modified, deleted, bytes: size } = changed?.added === undefined ? { added: counts?.created, modified: counts?.modified, deleted: counts?.deleted } : changed;
  const part = (sign, n, kind, word) => Boolean(n) && el("span", { class: kind, title: `${n} ${word}` }, `${sign}${n.toLocaleString()}`);
  return [el("span", { class: "tally" }, part("+", added, "plus", "added"), part("~", modified, "tilde", "modified"), part("−", deleted, "minus", "deleted"),
    Boolean(size) && el("span", {}, bytes(size)))];
}

// graph gives each item the lines that come from above, pass, and go on below, as
// `git log --graph` does, and returns how many there are beside each other.
function graph(items) {
  const keyOf = new Map();
  items.forEach((item, n) => {
    const open = item.fold && items[n + 1]?.key === item.name; // then the turns have rows of their own
    for (const s of item.fold && !open ? item.fold : [item]) if (s.name !== undefined && !keyOf.has(s.name)) keyOf.set(s.name, item.key);
  });
  const places = new Map(items.map((i, n) => [i.key, n]));
  const merges = new Map(); // from the state after a merge to where the fork began
  for (const s of store.snapshots) {
    const [, what, fork] = takenBefore(s) || [];
    if (what === "merge") merges.set(s.name, store.forks.find((f) => f.name === fork)?.base);
  }
  const lanes = []; // the key that each waits for
  const free = () => { const i = lanes.indexOf(null); return i < 0 ? lanes.length : i; };
  let width = 1;
  items.forEach((item, n) => {
    const at = lanes.flatMap((k, i) => (k === item.key && !item.heading ? [i] : []));
    const pass = lanes.flatMap((k, i) => (k !== null && !at.includes(i) ? [i] : []));
    item.graph = { pass, up: at, down: [] };
    if (item.heading) return;
    item.graph.at = at[0] ?? free();
    lanes[item.graph.at] ??= null;
    for (const i of at) lanes[i] = null;
    const oldest = item.fold ? item.fold[item.fold.length - 1].name : item.name;
    const open = item.fold && items[n + 1]?.key === item.name;
    const parent = open ? item.name : item.fork ? item.fork.base || forkedAfter(item.fork) : parentOf(oldest);
    for (const p of [parent, merges.get(parent)]) {
      const key = open ? p : keyOf.get(p);
      if (!p || !key || places.get(key) <= n) continue;
      const i = p === parent ? item.graph.at : lanes.includes(key) ? lanes.indexOf(key) : free();
      lanes[i] = key;
      item.graph.down.push(i);
    }
    width = Math.max(width, lanes.length);
  });
  return Math.min(width, most);
}

// forkedAfter is the newest snapshot that is older than a fork of a present state.
const forkedAfter = (fork) => store.snapshots.find((s) => s.created <= fork.created)?.name;
