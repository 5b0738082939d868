// The changed files of what is selected, as a tree.

import { $, count, el, visible } from "./dom.js";
import { Rows } from "./rows.js";

export class Files {
  constructor(open) {
    this.open = open;
    this.paths = [];
    this.closed = new Set();
    const height = 1.8 * parseFloat(getComputedStyle(document.documentElement).fontSize);
    this.rows = new Rows($("files"), {
      height, draw: (item, row) => this.draw(item, row), choose: (item) => this.choose(item),
    });
    $("filter").addEventListener("input", () => this.show());
  }

  set(paths, total = paths.length) {
    this.paths = [...paths].sort((a, b) => (a.path < b.path ? -1 : 1));
    this.total = total;
    this.closed.clear();
    this.rows.active = -1;
    this.show();
  }

  choose(item) {
    this.chosen = item.path;
    if (item.dir) {
      if (!this.closed.delete(item.path)) this.closed.add(item.path);
      this.show();
    }
    this.open(item);
  }

  show() {
    const want = $("filter").value.toLowerCase();
    const found = want ? this.paths.filter((p) => p.path.toLowerCase().includes(want)) : this.paths;
    const tally = { A: 0, M: 0, D: 0, R: 0, T: 0 };
    const items = [];
    let dirs = [];
    for (const p of found) {
      tally[p.status]++;
      const parts = p.path.split("/");
      const name = parts.pop();
      let same = 0;
      while (same < dirs.length && dirs[same] === parts[same]) same++;
      for (let i = same; i < parts.length; i++) {
        items.push({ dir: true, path: parts.slice(0, i + 1).join("/"), name: parts[i], depth: i });
      }
      dirs = parts;
      items.push({ ...p, name, depth: parts.length });
    }
    $("counts").textContent = `${count(found.length, "file")}${this.total === Infinity ? " and more" : this.total > this.paths.length ? ` of ${this.total.toLocaleString()}` : ""}  +${tally.A} ~${tally.M + tally.R + tally.T} -${tally.D}`;
    this.rows.set(this.closed.size ? items.filter((i) => !this.inClosed(i.path)) : items, (a, b) => a.path === b.path);
  }

  inClosed(path) {
    for (let i = path.lastIndexOf("/"); i > 0; i = path.lastIndexOf("/", i - 1)) {
      if (this.closed.has(path.slice(0, i))) return true;
    }
    return false;
  }

  draw(item, row) {
    row.classList.add("file");
    row.setAttribute("role", "treeitem");
    row.setAttribute("aria-level", item.depth + 1);
    row.setAttribute("aria-selected", String(item.path === this.chosen));
    if (item.dir) row.setAttribute("aria-expanded", String(!this.closed.has(item.path)));
    row.style.paddingLeft = `${.5 + item.depth * .9}rem`;
    const words = { A: "added", M: "modified", D: "deleted", R: "renamed", T: "type changed" };
    row.append(
      el("span", { class: `status ${item.status || ""}`, role: "img", "aria-label": item.dir ? "directory" : words[item.status], title: words[item.status] },
        item.dir ? (this.closed.has(item.path) ? "▸" : "▾") : item.status),
      el("span", { class: "path", title: visible(item.from ? `${item.from} → ${item.path}` : item.path) }, visible(item.name)));
  }
}
