// The timeline: "now" on top, then the snapshots, newest first.

import { $, bytes, count, dayOf, el, timeOf, visible } from "./dom.js";
import { Rows } from "./rows.js";

const icons = {
  now: ["●", "the present state"], manual: ["◆", "manual"], turn: ["↻", "an agent's turn"], auto: ["◷", "automatic"],
  "pre-restore": ["↶", "before a restore"], fork: ["⑂", "fork"], import: ["⇣", "import"], pull: ["☁", "pulled"],
  actor: ["⇄", "before another actor's change"],
};

export class Timeline {
  constructor(select) {
    this.select = select;
    this.snapshots = [];
    this.chosen = [];
    this.present = { counts: null, last: "" };
    const height = 3.4 * parseFloat(getComputedStyle(document.documentElement).fontSize);
    this.rows = new Rows($("snapshots"), {
      height, draw: (item, row) => this.draw(item, row), choose: (item, e) => this.choose(item, e),
    });
    $("search").addEventListener("input", () => this.show());
    $("grouping").addEventListener("change", () => this.show());
  }

  set(snapshots) {
    this.snapshots = snapshots;
    this.show();
  }

  choose(item, e = {}) {
    if (item.group) return;
    const extend = e.shiftKey || e.ctrlKey || e.metaKey;
    this.chosen = extend && this.chosen.length ? [this.chosen[0], item.name].slice(0, 2) : [item.name];
    if (this.chosen[0] === this.chosen[1]) this.chosen.pop();
    this.select(this.chosen);
  }

  show() {
    const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = (s) => {
      const text = [s.name, s.message, s.kind, s.command, ...(s.actors || []), ...Object.entries(s.labels || {}).map(([k, v]) => `${k}=${v}`)].join(" ").toLowerCase();
      return words.every((w) => text.includes(w));
    };
    const groupOf = $("grouping").value === "day"
      ? (s) => dayOf(s.created)
      : (s) => (s.labels?.claim ? `claim ${s.labels.claim}` : s.labels?.fork ? `fork ${s.labels.fork}` : "others");
    let found = this.snapshots.filter(matches);
    if ($("grouping").value !== "day") {
      const groups = Map.groupBy ? Map.groupBy(found, groupOf) : found.reduce((m, s) => m.set(groupOf(s), [...(m.get(groupOf(s)) || []), s]), new Map());
      found = [...groups.values()].flat();
    }
    const items = words.length ? [] : [{ name: "", now: true }];
    let group = null;
    for (const s of found) {
      if (groupOf(s) !== group) items.push({ group: group = groupOf(s) });
      items.push(s);
    }
    this.rows.set(items, (a, b) => !a.group && a.name === b.name);
  }

  draw(item, row) {
    if (item.group) {
      row.classList.add("group");
      row.setAttribute("role", "presentation");
      row.append(visible(item.group));
      return;
    }
    row.setAttribute("role", "option");
    row.setAttribute("aria-selected", String(this.chosen.includes(item.name)));
    if (item.now) { this.drawNow(row); return; }
    const [icon, about] = icons[item.kind] || icons.manual;
    const c = item.counts || {};
    row.append(
      el("div", { class: "top" },
        el("span", { class: "icon", role: "img", "aria-label": about, title: about }, icon),
        el("span", { class: "name path" }, visible(item.name)),
        item.pinned && el("span", { role: "img", "aria-label": "pinned", title: "pinned" }, "📌"),
        ...Object.entries(item.labels || {}).map(([k, v]) => el("span", { class: "label" }, visible(`${k}=${v}`))),
        ...(item.actors || []).map((a) => el("span", { class: "label", title: "show only this actor's", onclick: (e) => this.only(e, a) }, visible(a))),
        el("time", { class: "time", datetime: item.created, title: dayOf(item.created) }, timeOf(item.created))),
      el("div", { class: "note" },
        el("span", { class: "plus" }, `+${c.created || 0} `), el("span", { class: "tilde" }, `~${c.modified || 0} `),
        el("span", { class: "minus" }, `-${c.deleted || 0} `), `${bytes(item.bytes)} `, visible(item.message || item.command || "")));
  }

  // only shows the snapshots with changes of an actor.
  only(e, actor) {
    e.stopPropagation();
    $("search").value = actor;
    this.show();
  }

  drawNow(row) {
    const [icon, about] = icons.now;
    const n = this.present.counts;
    row.append(
      el("div", { class: "top" }, el("span", { class: "icon", role: "img", "aria-label": about }, icon),
        el("span", { class: "name" }, "now"), el("span", { class: "time" }, n === null ? "" : count(n, "changed file"))),
      el("div", { class: "note path" }, visible(this.present.last)));
  }

  // before is the snapshot that the one of this name is compared with.
  before(name) {
    if (name === "") return this.snapshots[0]?.name || "base";
    const i = this.snapshots.findIndex((s) => s.name === name);
    return this.snapshots[i + 1]?.name || "base";
  }

  named(name) { return this.snapshots.find((s) => s.name === name); }
}
