// One file: how it differs, what it is, what happened to it.

import { call, eventsOf, get, image } from "./api.js";
import { $, bytes, el, timeOf, dayOf, visible, failed } from "./dom.js";

const tabs = ["Diff", "File", "History", "Events"];
const images = /\.(png|jpe?g|gif|webp|avif|bmp|ico)$/i;

export class Detail {
  constructor() {
    this.tab = "Diff";
    this.sides = false;
    for (const t of tabs) {
      $("tabs").append(el("button", {
        type: "button", role: "tab", id: `tab-${t.toLowerCase()}`, "aria-controls": "view",
        onclick: () => this.show(t),
        onkeydown: (e) => {
          const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
          if (!step) return;
          const to = tabs[(tabs.indexOf(this.tab) + step + tabs.length) % tabs.length];
          this.show(to);
          $(`tab-${to.toLowerCase()}`).focus();
        },
      }, t));
    }
    $("sides").addEventListener("click", () => {
      this.sides = !this.sides;
      $("sides").setAttribute("aria-pressed", String(this.sides));
      this.show();
    });
  }

  // open shows a file as it is in b ("" is now), against a.
  open(file, a, b) {
    Object.assign(this, { file, a, b });
    this.show();
  }

  clear(text) {
    this.file = null;
    this.stop?.abort();
    $("subject").textContent = "";
    $("view").replaceChildren(el("p", { class: "message" }, text));
    this.mark();
  }

  mark() {
    for (const t of tabs) {
      const b = $(`tab-${t.toLowerCase()}`);
      b.setAttribute("aria-selected", String(t === this.tab));
      b.tabIndex = t === this.tab ? 0 : -1;
    }
    $("view").setAttribute("aria-labelledby", `tab-${this.tab.toLowerCase()}`);
    $("sides").hidden = this.tab !== "Diff";
  }

  async show(tab = this.tab) {
    this.tab = tab;
    this.mark();
    if (!this.file) return;
    this.stop?.abort();
    this.stop = new AbortController();
    const signal = this.stop.signal;
    $("subject").textContent = visible(this.file.from ? `${this.file.from} → ${this.file.path}` : this.file.path);
    const view = $("view");
    view.setAttribute("aria-busy", "true");
    try {
      const content = await this[`draw${tab}`](signal);
      if (signal.aborted) return;
      view.replaceChildren(...[content].flat());
      view.scrollTop = 0;
    } catch (e) {
      if (signal.aborted) return;
      view.replaceChildren(el("p", { class: "message error" }, e.message));
      failed(e);
    } finally {
      if (!signal.aborted) view.removeAttribute("aria-busy");
    }
  }

  async drawDiff(signal) {
    if (images.test(this.file.path)) return this.imagePair(signal);
    const found = await call("hunks", { a: this.a, b: this.b, path: this.file.path, from: this.file.from }, { signal });
    if (found.binary) {
      return el("p", { class: "message" }, `A binary file: ${bytes(found.old_size)} before, ${bytes(found.new_size)} after.`);
    }
    if (found.too_large) return el("p", { class: "message" }, `Too large to compare by lines: ${bytes(found.old_size)} before, ${bytes(found.new_size)} after.`);
    if (!found.hunks?.length) return el("p", { class: "message" }, this.file.dir ? "A directory." : "No line differs: the mode, or other attributes, changed.");
    return this.pages(found, signal);
  }

  // pages shows a diff a part at a time, and the next when its end comes near.
  pages(found, signal) {
    const table = el("table", { class: `diff${this.sides ? " sides" : ""}` });
    const add = (hunks) => table.append(...hunks.flatMap((h) => (this.sides ? sides(h) : inline(h))));
    add(found.hunks);
    let next = found.next;
    const more = el("p", { class: "message" }, next ? "More follows …" : "");
    new IntersectionObserver(async (entries, observer) => {
      if (!next) { observer.disconnect(); return; }
      if (!entries.some((e) => e.isIntersecting)) return;
      const at = next;
      next = null;
      try {
        const part = await call("hunks", { a: this.a, b: this.b, path: this.file.path, from: this.file.from, cursor: at }, { signal });
        add(part.hunks || []);
        next = part.next;
        observer.unobserve(more);
        if (next) observer.observe(more); else more.textContent = "";
      } catch (e) { failed(e); }
    }, { root: null, rootMargin: "600px" }).observe(more);
    return [table, more];
  }

  async imagePair(signal) {
    const one = async (snapshot, path, title) => el("figure", {}, el("figcaption", {}, title),
      el("img", { src: await image({ snapshot, path }, signal), alt: `${visible(path)}, ${title}` }));
    const both = [];
    if (this.file.status !== "A") both.push(one(this.a, this.file.from || this.file.path, "before"));
    if (this.file.status !== "D") both.push(one(this.b, this.file.path, "after"));
    return el("div", { class: "images" }, ...await Promise.all(both));
  }

  async drawFile(signal) {
    const gone = this.file.status === "D";
    const where = { snapshot: gone ? this.a : this.b, path: this.file.path };
    if (images.test(this.file.path)) {
      return el("div", { class: "images" }, el("img", { src: await image(where, signal), alt: visible(this.file.path) }));
    }
    const first = await get("/file", where, { signal });
    if (first.kind !== "text") return el("p", { class: "message" }, first.kind === "directory" ? "A directory." : `A ${first.kind} file of ${bytes(first.size)}.`);
    return code(first, (from) => get("/file", { ...where, from }, { signal }));
  }

  async drawHistory(signal) {
    const { entries = [] } = await call("history", { path: this.file.path }, { signal });
    return el("table", { class: "events" },
      el("thead", {}, el("tr", {}, ...["Snapshot", "When", "What", "Size", "Message"].map((h) => el("th", { scope: "col" }, h)))),
      el("tbody", {}, ...entries.map((h) => el("tr", {},
        el("td", { class: "path" }, visible(h.snapshot || "now")), el("td", {}, `${dayOf(h.created)} ${timeOf(h.created)}`),
        el("td", {}, h.action), el("td", {}, bytes(h.size)), el("td", { class: "path" }, visible(h.message || ""))))));
  }

  async drawEvents(signal) {
    const events = await eventsOf(this.file.path, signal);
    return el("table", { class: "events" },
      el("thead", {}, el("tr", {}, ...["When", "What", "Path", "Program", "Process"].map((h) => el("th", { scope: "col" }, h)))),
      el("tbody", {}, ...events.map((e) => el("tr", {},
        el("td", {}, `${dayOf(e.time)} ${timeOf(e.time)}`), el("td", {}, e.action), el("td", { class: "path" }, visible(e.path || "")),
        el("td", { class: "path" }, visible(e.command || "")), el("td", {}, String(e.pid || ""))))));
  }
}

const header = (h, columns) => el("tr", { class: "hunk" }, el("td", { colspan: columns }, visible(`@@ -${h.old_start},${h.old_lines} +${h.new_start},${h.new_lines} @@ ${h.section || ""}`)));
const cell = (text, kind = "") => el("td", { class: `text ${kind}` }, visible(text));
const number = (n) => el("td", { class: "no" }, n ? String(n) : "");

function inline(h) {
  let a = h.old_start, b = h.new_start;
  return [header(h, 4), ...h.lines.map(({ op, text }) => {
    const row = el("tr", { class: { "+": "add", "-": "del" }[op] || "" });
    row.append(number(op === "+" ? 0 : a), number(op === "-" ? 0 : b), el("td", { class: "no" }, op), cell(text));
    if (op !== "+") a++;
    if (op !== "-") b++;
    return row;
  })];
}

function sides(h) {
  let a = h.old_start, b = h.new_start, removed = [], added = [];
  const rows = [header(h, 4)];
  const flush = () => {
    for (let i = 0; i < Math.max(removed.length, added.length); i++) {
      const l = removed[i], r = added[i];
      rows.push(el("tr", {}, number(l === undefined ? 0 : a++), cell(l ?? "", l === undefined ? "" : "del"), number(r === undefined ? 0 : b++), cell(r ?? "", r === undefined ? "" : "add")));
    }
    removed = []; added = [];
  };
  for (const { op, text } of h.lines) {
    if (op === "-") removed.push(text);
    else if (op === "+") added.push(text);
    else { flush(); rows.push(el("tr", {}, number(a++), cell(text), number(b++), cell(text))); }
  }
  flush();
  return rows;
}

// code shows a long text: only the lines in sight are in the page, and parts
// are fetched as they are reached.
function code(first, fetchFrom) {
  const box = el("div", { class: "code" });
  const lines = [...first.lines];
  let fetching = false;
  const lineHeight = () => box.firstChild?.offsetHeight || 20;
  const view = $("view");
  const paint = async () => {
    if (!box.isConnected) { view.removeEventListener("scroll", paint); return; }
    const height = lineHeight();
    box.style.height = `${first.total * height}px`;
    const top = Math.max(0, Math.floor(view.scrollTop / height) - 20);
    const end = Math.min(first.total, top + Math.ceil(view.clientHeight / height) + 40);
    while (!fetching && lines.length < end) {
      fetching = true;
      try {
        const part = await fetchFrom(lines.length);
        if (!part.lines.length) break;
        lines.push(...part.lines);
      } catch (e) { failed(e); break; } finally { fetching = false; }
    }
    box.replaceChildren(...lines.slice(top, end).map((tokens, i) => {
      const row = el("div", { class: "line" }, el("span", { class: "no" }, String(top + i + 1)),
        ...tokens.map(([kind, text]) => (kind ? el("span", { class: `tok-${kind}` }, visible(text)) : visible(text))));
      row.style.top = `${(top + i) * height}px`;
      return row;
    }));
  };
  view.addEventListener("scroll", paint, { passive: true });
  requestAnimationFrame(() => { box.append(el("div", { class: "line" }, " ")); paint(); });
  return box;
}
