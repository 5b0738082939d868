// A list that holds in the page only the rows that can be seen, so that a
// hundred thousand are as quick as ten.

import { el } from "./dom.js";

export class Rows {
  // box is the scrolling element; draw(item, row) fills one row in; height is
  // that of a row in CSS pixels.
  constructor(box, { height, draw, choose, open }) {
    Object.assign(this, { box, height, draw, choose, open });
    this.items = [];
    this.active = -1;
    this.shown = new Map();
    this.tall = el("div", { class: "tall", "aria-hidden": "true" });
    box.append(this.tall);
    box.addEventListener("scroll", () => this.paint(), { passive: true });
    box.addEventListener("keydown", (e) => this.key(e));
    new ResizeObserver(() => this.paint()).observe(box);
  }

  set(items, keep) {
    const old = this.items[this.active];
    this.items = items;
    this.active = keep && old ? items.findIndex((i) => keep(i, old)) : Math.min(this.active, items.length - 1);
    this.redraw();
  }

  redraw() {
    for (const row of this.shown.values()) row.remove();
    this.shown.clear();
    this.tall.style.height = `${this.items.length * this.height}px`;
    this.paint();
  }

  paint() {
    const top = Math.max(0, Math.floor(this.box.scrollTop / this.height) - 5);
    const end = Math.min(this.items.length, top + Math.ceil(this.box.clientHeight / this.height) + 10);
    for (const [i, row] of this.shown) {
      if (i < top || i >= end) { row.remove(); this.shown.delete(i); }
    }
    for (let i = top; i < end; i++) {
      if (!this.shown.has(i)) this.add(i);
    }
    const active = this.shown.get(this.active);
    if (active) this.box.setAttribute("aria-activedescendant", active.id);
    else this.box.removeAttribute("aria-activedescendant");
  }

  add(i) {
    const row = el("div", { class: "row", id: `${this.box.id}-${i}` });
    row.style.top = `${i * this.height}px`;
    row.style.height = `${this.height}px`;
    this.draw(this.items[i], row, i);
    row.classList.toggle("active", i === this.active);
    row.addEventListener("click", (e) => { this.active = i; this.choose(this.items[i], e); this.redraw(); });
    this.shown.set(i, row);
    this.box.append(row);
  }

  move(to, e = {}) {
    const step = to < this.active ? -1 : 1;
    to = Math.max(0, Math.min(this.items.length - 1, to));
    while (this.items[to]?.group) to += step;
    if (!this.items[to]) return;
    this.active = to;
    const y = to * this.height;
    if (y < this.box.scrollTop) this.box.scrollTop = y;
    if (y + this.height > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = y + this.height - this.box.clientHeight;
    this.choose(this.items[to], e);
    this.redraw();
  }

  key(e) {
    const page = Math.max(1, Math.floor(this.box.clientHeight / this.height) - 1);
    const to = {
      ArrowDown: this.active + 1, j: this.active + 1, ArrowUp: this.active - 1, k: this.active - 1,
      PageDown: this.active + page, PageUp: this.active - page, Home: 0, End: this.items.length - 1,
    }[e.key];
    if (to !== undefined && !e.ctrlKey && !e.metaKey) {
      e.preventDefault();
      e.stopPropagation();
      this.move(to, e);
    } else if ((e.key === "Enter" || e.key === " ") && this.items[this.active]) {
      e.preventDefault();
      (this.open || this.choose)(this.items[this.active], e);
    }
  }
}
