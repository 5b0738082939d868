// A list that has in the page only the rows that can be seen, so that a hundred thousand are as quick as ten.
import { el } from "./dom.js";
export class Rows {
  // box is the scrolling element; draw(item, row) fills one row in; height(item) is that of a row in CSS pixels; open runs on Enter.
  constructor(box, { height, draw, choose, open = choose }) {
    Object.assign(this, { box, height, draw, choose, open, items: [], active: -1, shown: new Map() });
    this.tops = [0]; // of each item, and the end of the last
    this.tall = el("div.tall", { "aria-hidden": "true" });
    box.append(this.tall);
    box.addEventListener("scroll", () => this.paint(), { passive: true });
    box.addEventListener("keydown", (e) => this.key(e));
    new ResizeObserver(() => this.paint()).observe(box);
  }
  // set shows other items. Where same finds the one at the top again, it stays there.
  set(items, same) {
    const old = this.items[this.active], first = this.at(this.box.scrollTop);
    const top = this.box.scrollTop > 0 && this.items[first], offset = this.box.scrollTop - this.tops[first];
    Object.assign(this, { items, tops: [0] });
    for (const item of items) this.tops.push(this.tops[this.tops.length - 1] + this.height(item));
    this.active = old ? items.findIndex((i) => same(i, old)) : -1;
    this.redraw();
    const again = top ? items.findIndex((i) => same(i, top)) : -1;
    if (again >= 0) this.box.scrollTop = this.tops[again] + offset;
  }
  // at is the index of the item at a height.
  at(y) {
    let low = 0, high = this.items.length;
    while (low < high) { const mid = (low + high) >> 1; if (this.tops[mid + 1] <= y) low = mid + 1; else high = mid; }
    return low;
  }
  redraw() {
    for (const row of this.shown.values()) row.remove();
    this.shown.clear();
    this.tall.style.height = `${this.tops[this.items.length]}px`;
    this.paint();
  }
  paint() {
    const top = Math.max(0, this.at(this.box.scrollTop) - 4);
    const end = Math.min(this.items.length, this.at(this.box.scrollTop + this.box.clientHeight) + 5);
    for (const [i, row] of this.shown) if (i < top || i >= end) { row.remove(); this.shown.delete(i); }
    for (let i = top; i < end; i++) if (!this.shown.has(i)) this.add(i);
    const active = this.shown.get(this.active);
    if (active) this.box.setAttribute("aria-activedescendant", active.id); else this.box.removeAttribute("aria-activedescendant");
  }
  add(i) {
    const item = this.items[i], place = item.heading ? {} : { "aria-setsize": this.items.length, "aria-posinset": i + 1 };
    const row = el("div", { class: `row ${i === this.active ? "active" : ""}`, id: `${this.box.id}-${i}`, ...place });
    Object.assign(row.style, { top: `${this.tops[i]}px`, height: `${this.tops[i + 1] - this.tops[i]}px` });
    this.draw(item, row);
    if (!item.heading) row.addEventListener("click", (e) => { this.active = i; this.choose(item, e); this.redraw(); });
    this.shown.set(i, row);
    this.box.append(row);
  }
  move(to, e) {
    const step = to < this.active ? -1 : 1;
    to = Math.max(0, Math.min(this.items.length - 1, to));
    while (this.items[to]?.heading) to += step;
    if (!this.items[to]) return;
    this.active = to;
    this.show(to);
    this.choose(this.items[to], e);
    this.redraw();
  }
  // show scrolls as little as an item needs to be seen.
  show(i) {
    const { box, tops } = this;
    if (tops[i] < box.scrollTop) box.scrollTop = tops[i];
    else if (tops[i + 1] > box.scrollTop + box.clientHeight) box.scrollTop = tops[i + 1] - box.clientHeight;
  }
  key(e) {
    const { active, box } = this, page = Math.max(1, this.at(box.scrollTop + box.clientHeight) - this.at(box.scrollTop) - 1);
    const to = { ArrowDown: active + 1, j: active + 1, ArrowUp: active - 1, k: active - 1,
      PageDown: active + page, PageUp: active - page, Home: 0, End: this.items.length - 1 }[e.key];
    const enter = (e.key === "Enter" || e.key === " ") && this.items[active];
    if ((to === undefined && !enter) || e.ctrlKey || e.metaKey) return;
    e.preventDefault();
    e.stopPropagation();
    if (enter) this.open(enter, e); else this.move(to, e);
  }
}
