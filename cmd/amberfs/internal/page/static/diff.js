// How the lines of one file differ, and two images.

import { call, get, image } from "./api.js";
import { bytes, el, failed, frame, pathOf, visible } from "./dom.js";

export const images = /\.(png|jpe?g|gif|webp|avif|bmp|ico)$/i;

// where is the query for one file of a comparison.
const hunksOf = async (at, cursor, signal) => {
  const query = { a: at.a, b: at.b, path: pathOf(at.file), from: at.file.from && (at.file.raw_from ? { bytes: at.file.raw_from } : at.file.from), cursor };
  try {
    return await get("/diff", query, { signal, workspace: at.workspace });
  } catch (e) {
    if (e.status !== 404 || e.kind) throw e;
    return call("hunks", query, { signal, workspace: at.workspace });
  }
};

// A Diff is what differs in one file of a comparison: at has file, a, b and workspace.
// restore, if it is given, takes a hunk.
export class Diff {
  constructor(at, { sides = false, restore, signal } = {}) {
    Object.assign(this, { at, sides, restore, signal });
    this.box = el("div", { class: "diff-box" });
  }

  async load() {
    if (images.test(this.at.file.path)) { this.box.replaceChildren(...await this.pictures()); return this.box; }
    const found = await hunksOf(this.at, undefined, this.signal);
    this.found = found;
    const sizes = `${bytes(found.old_size)} before, ${bytes(found.new_size)} after`;
    const sorry = found.binary ? `A binary file: ${sizes}.` : found.too_large ? `Too large to compare by lines: ${sizes}.`
      : !found.hunks?.length && "No line differs: the mode, or other attributes, changed.";
    if (sorry) this.box.replaceChildren(el("p", { class: "message" }, sorry));
    else await this.pages(found);
    return this.box;
  }

  // pages shows a diff a part at a time, and the next when its end comes near.
  async pages(found) {
    const more = el("p", { class: "message" });
    this.box.replaceChildren(more);
    const add = async (hunks) => {
      const columns = (this.sides ? ["no", "", "no", ""] : ["no", "no", ""]).map((c) => el("col", { class: c }));
      const table = el("table", { class: `diff${this.sides ? " sides" : ""}` }, el("colgroup", {}, ...columns));
      more.before(table);
      const rows = hunks.flatMap((h) => [this.header(h), ...(this.sides ? beside(h) : inline(h))]);
      for (let i = 0; i < rows.length; i += 100) { // a long part in several frames
        if (i) await frame();
        table.append(...rows.slice(i, i + 100).map((row) => row()));
      }
    };
    await add(found.hunks);
    let next = found.next;
    if (!next) { more.remove(); return; }
    more.textContent = "More follows …";
    new IntersectionObserver(async (entries, observer) => {
      if (!next || !entries.some((e) => e.isIntersecting)) return;
      const cursor = next;
      next = null;
      try {
        const part = await hunksOf(this.at, cursor, this.signal);
        await add(part.hunks || []);
        next = part.next;
        observer.unobserve(more);
        if (next) observer.observe(more); else more.remove();
      } catch (e) { failed(e); }
    }, { rootMargin: "800px" }).observe(more);
  }

  header(h) {
    return () => el("tr", { class: "hunk" }, el("td", { class: "no", colspan: this.sides ? 1 : 2 }), el("td", { colspan: this.sides ? 3 : 1 },
      el("div", {}, el("span", {}, visible(`Lines ${h.new_start}–${h.new_start + Math.max(h.new_lines, 1) - 1}`)), el("code", {}, visible(h.section || "")),
        this.restore && el("button", { type: "button", class: "quiet", onclick: () => this.restore(h) }, "Restore hunk"))));
  }

  async pictures() {
    const { file, a, b, workspace } = this.at;
    const one = async (snapshot, path, title) => el("figure", {}, el("figcaption", {}, title),
      el("img", { src: await image({ snapshot, path }, this.signal, workspace), alt: `${visible(file.path)}, ${title}` }));
    const both = [];
    if (file.status !== "A") both.push(one(a, file.raw_from || file.from ? { ...file, path: file.from, raw: file.raw_from } : file, "before"));
    if (file.status !== "D") both.push(one(b, file, "after"));
    const shown = await Promise.all(both);
    const pair = el("div", { class: "images" }, ...shown);
    if (shown.length < 2) return [pair];
    const over = el("div", { class: "swipe" }, ...shown.map((f) => f.lastChild.cloneNode()));
    const slide = el("input", { type: "range", min: 0, max: 100, value: 50, "aria-label": "Swipe between before and after" });
    const swipe = () => { over.lastChild.style.clipPath = `inset(0 0 0 ${slide.value}%)`; };
    slide.addEventListener("input", swipe);
    swipe();
    return [pair, el("div", { class: "swiper" }, over, slide)];
  }
}

const number = (n) => el("td", { class: "no" }, n ? String(n) : "");
const cell = (l, kind = "") => el("td", { class: `text ${kind}` }, ...(l ? pieces(l) : []));

// pieces shows a line: its syntax, and within it the words that changed.
export function pieces({ text, tokens, words = [] }) {
  const out = [];
  let at = 0, w = 0;
  for (const [kind, part] of tokens || [["", text ?? ""]]) {
    for (let i = 0; i < part.length;) {
      while (words[w] && words[w][1] <= at) w++;
      const inside = words[w] && words[w][0] <= at;
      const end = Math.min(part.length, i + (inside ? words[w][1] : words[w] ? words[w][0] : Infinity) - at);
      const piece = visible(part.slice(i, end));
      if (kind || inside) out.push(el(inside ? "mark" : "span", { class: kind && `tok-${kind}` }, piece)); else out.push(piece);
      at += end - i;
      i = end;
    }
  }
  return out;
}

const textOf = (l) => l.text ?? (l.tokens || []).map(([, text]) => text).join("");

// changedWords finds in two lines what is not in their longest common subsequence of words.
function changedWords(a, b) {
  const [x, y] = [a, b].map((t) => t.match(/[\p{L}\p{N}_]+|\s+|[^]/gu) || []);
  if (x.length * y.length > 40000 || !x.length || !y.length) return [[], []];
  const width = y.length + 1, common = new Uint16Array((x.length + 1) * width);
  for (let i = x.length - 1; i >= 0; i--) {
    for (let j = y.length - 1; j >= 0; j--) {
      const k = i * width + j;
      common[k] = x[i] === y[j] ? common[k + width + 1] + 4 * x[i].trim().length + 1 : Math.max(common[k + width], common[k + 1]);
    }
  }
  if (common[0] < Math.max(a.trim().length, b.trim().length)) return [[], []]; // another line altogether
  const out = [[], []], at = [0, 0];
  const skip = (side, word, changed) => {
    const last = out[side][out[side].length - 1];
    if (changed && last?.[1] === at[side]) last[1] += word.length;
    else if (changed) out[side].push([at[side], at[side] + word.length]);
    at[side] += word.length;
  };
  for (let i = 0, j = 0; i < x.length || j < y.length;) {
    const k = i * width + j;
    if (i < x.length && j < y.length && x[i] === y[j]) { skip(0, x[i++]); skip(1, y[j++]); }
    else if (j >= y.length || (i < x.length && common[k + width] >= common[k + 1])) skip(0, x[i++], true);
    else skip(1, y[j++], true);
  }
  return out;
}

// blocks calls same for each line that both sides have, and differ with the lines between
// two of them. The words of lines that take each other's place are compared.
function blocks(h, same, differ) {
  let removed = [], added = [];
  const flush = () => {
    if (!removed.length && !added.length) return;
    for (let i = 0; i < Math.min(removed.length, added.length, 100); i++) {
      [removed[i].words, added[i].words] = changedWords(textOf(removed[i]), textOf(added[i]));
    }
    differ(removed, added);
    [removed, added] = [[], []];
  };
  for (const line of h.lines) {
    if (line.op === "-") removed.push(line);
    else if (line.op === "+") added.push(line);
    else { flush(); same(line); }
  }
  flush();
}

// inline and beside return functions that make the rows.
function inline(h) {
  const rows = [];
  let a = h.old_start, b = h.new_start;
  const row = (x, y, kind, line) => rows.push(() => el("tr", { class: kind }, number(x), number(y), cell(line)));
  blocks(h, (line) => row(a++, b++, "", line), (removed, added) => {
    for (const l of removed) row(a++, 0, "del", l);
    for (const l of added) row(0, b++, "add", l);
  });
  return rows;
}

function beside(h) {
  const rows = [];
  let a = h.old_start, b = h.new_start;
  const row = (x, l, y, r, kinds) => rows.push(() => el("tr", {}, number(x), cell(l, kinds && (l ? "del" : "no-line")), number(y), cell(r, kinds && (r ? "add" : "no-line"))));
  blocks(h, (line) => row(a++, line, b++, line), (removed, added) => {
    for (let i = 0; i < Math.max(removed.length, added.length); i++) row(removed[i] ? a++ : 0, removed[i], added[i] ? b++ : 0, added[i], true);
  });
  return rows;
}

// blocksOf shows one hunk.
export const blocksOf = (h) => el("table", { class: "diff" }, ...inline(h).map((row) => row()));
