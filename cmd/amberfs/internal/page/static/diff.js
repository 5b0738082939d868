// How the lines of one file differ, and two images.
import { call, get, image } from "./api.js";
import { button, bytes, el, failed, frame, icon, pathOf, visible } from "./dom.js";
export const images = /\.(png|jpe?g|gif|webp|avif|bmp|ico)$/i;
// A Diff is what differs in one file of a comparison: at has file, a, b and workspace. restore, if it is given, takes a hunk.
export class Diff {
  constructor(at, { sides = false, restore, signal } = {}) {
    // next is the new line after what is shown, and shift how far the old one is from it.
    Object.assign(this, { at, sides, restore, options: { signal, workspace: at.workspace }, box: el("div"), next: 1, shift: 0 });
  }
  async load() {
    if (images.test(this.at.file.path)) { this.box.replaceChildren(...await this.pictures()); return this.box; }
    const found = await this.part(), sizes = `${bytes(found.old_size)} before, ${bytes(found.new_size)} after`;
    const same = this.at.file.from ? "No line differs: the file was renamed." : "No line differs: other attributes changed.";
    const sorry = found.binary ? `A binary file: ${sizes}.` : found.too_large ? `Too large to compare by lines: ${sizes}.`
      : !found.hunks?.length && (found.old_size || found.new_size ? same : "The file is empty.");
    if (sorry) this.box.replaceChildren(el("p.message", sorry)); else await this.pages(found);
    return this.box;
  }
  part(cursor) {
    const { file, a, b } = this.at, from = file.from && pathOf({ path: file.from, raw: file.raw_from });
    return call("hunks", { a, b, path: pathOf(file), from: from || undefined, cursor }, this.options);
  }
  // pages shows a diff a part at a time, and the next when its end comes near.
  async pages(found) {
    const more = el("p.message", "More follows …");
    this.box.replaceChildren(more);
    const add = async (part) => {
      const hunks = part.hunks || [], ends = !part.next && hunks.at(-1)?.lines.slice(-3).every((l) => l.op === " ");
      const table = el("table", { class: `diff${this.sides ? " sides" : ""}` }, el("colgroup",
        ...(this.sides ? ["no", "", "no", ""] : ["no", "no", ""]).map((c) => el("col", { class: c }))));
      more.before(table);
      const rows = hunks.flatMap((h) => [() => this.header(h), ...(this.sides ? beside : inline)(h)]);
      if (ends) rows.push(() => this.header()); // more of the file may follow
      for (let i = 0; i < rows.length; i += 100) { // a long part in several frames
        if (i) await frame();
        table.append(...rows.slice(i, i + 100).map((row) => row()));
      }
      if (!part.next) { more.remove(); return; }
      new IntersectionObserver((entries, observer) => {
        if (!entries.some((e) => e.isIntersecting)) return;
        observer.disconnect();
        this.part(part.next).then(add).catch(failed);
      }, { rootMargin: "800px" }).observe(more);
    };
    await add(found);
  }
  // header is the row above a hunk, and the one below the last. A file that is on one side only has one hunk, the whole file.
  header(h) {
    if (/[AD]/.test(this.at.file.status)) return "";
    const row = el("tr.hunk"), words = h && [el("span", `Line ${h.new_start || h.old_start}`), el("code.text", visible(h.section || "")),
      this.restore && button("Restore hunk", () => this.restore(h), { class: "quiet" })];
    row.append(el("td.no", { colspan: this.sides ? 1 : 2 }, ...this.expand(row, h?.new_start)),
      el("td", { colspan: this.sides ? 3 : 1 }, el("div", ...(words || []).filter(Boolean))));
    if (h) Object.assign(this, { next: h.new_start + h.new_lines, shift: h.old_start + h.old_lines - h.new_start - h.new_lines });
    return row;
  }
  // expand makes the button that shows more of the lines which both sides have before a row, up to a line.
  expand(row, to = Infinity) {
    let { next: from } = this;
    const { shift, at: { file, b } } = this, label = `Show the lines ${to < Infinity ? "between" : "below"}`;
    const more = button(icon(to < Infinity ? "up" : "down", label), async () => {
      const query = { snapshot: b, path: pathOf(file), from: from - 1, lines: Math.min(500, to - from) };
      const { lines, total } = await get("/file", query, this.options);
      row.before(...lines.map((line, i) => (this.sides ? both : one)({ text: line }, from + i + shift, from + i)()));
      from += lines.length;
      if (from >= Math.min(to, total + 1)) more.remove();
    }, { class: "quiet expand" });
    return to > from && (to < Infinity || from > 1) ? [more] : [];
  }
  async pictures() {
    const { file, a, b } = this.at, old = file.from ? { path: file.from, raw: file.raw_from } : file;
    const one = async (snapshot, f, title) => el("figure", el("figcaption", title),
      el("img", { src: await image({ snapshot, path: pathOf(f) }, this.options), alt: `${visible(file.path)}, ${title}` }));
    const both = [file.status !== "A" && one(a, old, "before"), file.status !== "D" && one(b, file, "after")];
    const shown = await Promise.all(both.filter(Boolean)), pair = el("div.images", ...shown);
    if (shown.length < 2) return [pair];
    const over = el("div.swipe", ...shown.map((f) => f.lastChild.cloneNode()));
    const swipe = () => { over.lastChild.style.clipPath = `inset(0 0 0 ${slide.value}%)`; };
    const slide = el("input", { type: "range", min: 0, max: 100, value: 50, "aria-label": "Swipe between both", oninput: swipe });
    swipe();
    return [pair, el("div.swiper", over, slide)];
  }
}
const number = (n) => el("td.no", n ? String(n) : "");
const cell = (l, kind = "") => el("td", { class: l ? `text-cell ${kind}` : "no-line" }, ...(l ? pieces(l) : []));
// textOf is a line, cut where it is too long to read.
const textOf = ({ text = "" }) => (text.length > 4096 ? `${text.slice(0, 4096)} …` : text);
// pieces shows a line, and within it the words that changed.
function pieces(l) {
  const out = [], line = textOf(l);
  let at = 0;
  for (const [from, to] of l.words || []) {
    out.push(visible(line.slice(at, from)), el("mark", visible(line.slice(from, to))));
    at = to;
  }
  return [...out, visible(line.slice(at))];
}
// changedWords finds in two lines what is not in their longest common subsequence of words.
function changedWords(a, b) {
  const [x, y] = [a, b].map((t) => t.match(/[\p{L}\p{N}_]+|\s+|[^]/gu) || []);
  if (x.length * y.length > 40000) return [[], []];
  const width = y.length + 1, common = new Uint16Array((x.length + 1) * width);
  for (let i = x.length - 1; i >= 0; i--) {
    for (let j = y.length - 1, k = i * width + j; j >= 0; j--, k--) {
      common[k] = x[i] === y[j] ? common[k + width + 1] + 4 * x[i].trim().length + 1 : Math.max(common[k + width], common[k + 1]);
    }
  }
  if (common[0] < Math.max(a.trim().length, b.trim().length)) return [[], []]; // another line altogether
  const same = [new Set(), new Set()]; // the words that both have
  for (let i = 0, j = 0; i < x.length && j < y.length;) {
    const k = i * width + j;
    if (x[i] === y[j]) { same[0].add(i++); same[1].add(j++); } else if (common[k + width] >= common[k + 1]) i++; else j++;
  }
  const spans = (words, kept, at = 0) => words.map((w, i) => [at, at += w.length, kept.has(i)]).filter(([, , both]) => !both);
  return [spans(x, same[0]), spans(y, same[1])];
}
// rowsOf returns functions that make the rows of a hunk: same for a line that both sides
// have, and differ for the lines between two of these. Words of lines that take each other's place are compared.
function rowsOf(h, same, differ) {
  const rows = [];
  let a = h.old_start, b = h.new_start, removed = [], added = [];
  const flush = () => {
    for (let i = 0; i < Math.min(removed.length, added.length, 100); i++) {
      [removed[i].words, added[i].words] = changedWords(textOf(removed[i]), textOf(added[i]));
    }
    rows.push(...differ(removed, added, a, b));
    a += removed.length;
    b += added.length;
    [removed, added] = [[], []];
  };
  for (const line of h.lines) {
    if (line.op === "-") removed.push(line);
    else if (line.op === "+") added.push(line);
    else { flush(); rows.push(same(line, a++, b++)); }
  }
  flush();
  return rows;
}
const tr = (kind, ...cells) => el("tr", { class: kind }, ...cells);
const one = (l, a, b) => () => tr("", number(a), number(b), cell(l));
const inline = (h) => rowsOf(h, one, (removed, added, a, b) => [
  ...removed.map((l, i) => () => tr("del", number(a + i), number(0), cell(l))),
  ...added.map((l, i) => () => tr("add", number(0), number(b + i), cell(l)))]);
const both = (l, a, b) => () => tr("", number(a), cell(l), number(b), cell(l));
const beside = (h) => rowsOf(h, both, (removed, added, a, b) =>
  Array.from({ length: Math.max(removed.length, added.length) }, (_, i) => () => tr("",
    number(removed[i] && a + i), cell(removed[i], "del"), number(added[i] && b + i), cell(added[i], "add"))));
// tableOf shows one hunk.
export const tableOf = (h) => el("table.diff", ...inline(h).map((row) => row()));
