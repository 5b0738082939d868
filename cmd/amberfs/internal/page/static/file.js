// One file: its lines with who changed them last, its versions, and what happened to it.
import { call, currentWorkspace, eventsOf, get, image } from "./api.js";
import { $, along, bytes, button, chip, chips, colourOf, el, failed, icon, message, pathOf, redraw, text, time, visible } from "./dom.js";
import { Diff, images } from "./diff.js";
import { page, store } from "./store.js";
import { forget, restore } from "./actions.js";
export const tabs = ["File", "Diff", "History", "Events"];
const letter = (v) => ({ created: "A", deleted: "D" }[v.action] || "M");
export class FileView {
  // open shows a file of a comparison, as it is in the newer state.
  async open(f, at, tab) {
    const fork = /^\.forks\/([^/]+)(?:\/\.snapshots\/(.+))?$/.exec(at.b), state = fork ? fork[2] || "" : at.b;
    Object.assign(this, { file: f, tab, workspace: fork ? fork[1] : at.workspace ?? currentWorkspace(), versions: [], at: 0 });
    this.head();
    try {
      const { entries = [] } = await call("history", { path: pathOf(f) }, { workspace: this.workspace });
      if (this.file !== f) return;
      const seq = (name) => (name === "" ? Infinity : store.names.get(name)?.seq ?? 0);
      this.versions = entries.length ? entries : [{ snapshot: state, action: "modified", created: new Date().toISOString() }];
      this.at = Math.max(0, this.versions.findIndex((v) => seq(v.snapshot) <= seq(state)));
      await this.show(tabs.indexOf(tab));
    } catch (e) { this.content(page.sorry(e)); }
  }
  head() {
    const v = this.versions[this.at], last = this.versions.length - 1, at = `${last - this.at + 1} of ${last + 1}`;
    const move = (e) => { this.at = last - e.target.value; this.show(tabs.indexOf(this.tab)); };
    redraw($("file-head"),
      el("div.line", button(icon("back", "Back to the changes"), () => page.show("changes"), { class: "quiet" }),
        el("h2.path.mono", visible(this.file.path)), el("div.actions",
          store.writes && v?.snapshot && v.action !== "deleted" && this.workspace === currentWorkspace()
            && button("Restore this version", () => restore(v.snapshot, this.file)),
          store.writes && button("Forget …", () => forget(this.file), { class: "quiet" }))),
      el("div.line.compare",
        el("div", { id: "tabs", role: "tablist", "aria-label": "Views of the file" }, ...tabs.map((t, i) => button(t, () => this.show(i), {
          role: "tab", id: `tab-${t.toLowerCase()}`, "aria-controls": "view", "aria-selected": String(t === this.tab),
          tabindex: t === this.tab ? 0 : -1, onkeydown: along }))),
        last > 0 && el("span.slider", el("input", { type: "range", id: "versions", min: 0, max: last, value: last - this.at,
          "aria-label": "Version", "aria-valuetext": at, oninput: move }), el("span.count", at)),
        v && el("span.version", text(this.title(v.snapshot)), time(v.created))));
  }
  // title is what a person reads of a version; that of a fork is not in the timeline.
  title(name) { return this.versions.find((v) => v.snapshot === name)?.message?.trim() || name || "now"; }
  content(...parts) { redraw($("view"), ...parts); $("view").scrollTop = 0; }
  async show(i) {
    this.tab = tabs[i];
    this.stop?.abort();
    const { signal } = this.stop = new AbortController();
    this.head();
    $("view").setAttribute("aria-busy", "true");
    $("view").setAttribute("aria-labelledby", `tab-${this.tab.toLowerCase()}`);
    try {
      const content = await this[`draw${this.tab}`]({ signal, workspace: this.workspace });
      if (!signal.aborted) this.content(...[content].flat());
    } catch (e) { if (!signal.aborted) this.content(page.sorry(e)); }
    if (!signal.aborted) $("view").removeAttribute("aria-busy");
  }
  async drawFile(options) {
    const v = this.versions[this.at], where = { snapshot: v.snapshot, path: pathOf(this.file) }, alt = visible(this.file.path);
    if (v.action === "deleted") return el("p.message", "The file was deleted here. Move the slider to see it before.");
    if (images.test(this.file.path)) return el("div.images", el("img", { src: await image(where, options), alt }));
    const first = await get("/file", where, options);
    if (first.kind !== "text") return el("p.message", `A ${first.kind} file of ${bytes(first.size)}.`);
    const lines = code(first, (name) => this.title(name), (from) => get("/file", { ...where, from }, options));
    if (first.total < 20000) { // else, and where it fails, the gutter stays empty
      const snapshot = this.at > 0 ? v.snapshot : undefined;
      call("blame", { path: where.path, snapshot }, options).then((b) => lines.blame(b.lines), () => {});
    }
    return lines.box;
  }
  drawDiff({ signal, workspace }) {
    const v = this.versions[this.at], a = this.versions[this.at + 1]?.snapshot ?? "base";
    return new Diff({ file: { ...this.file, status: letter(v), from: undefined }, a, b: v.snapshot, workspace }, { signal }).load();
  }
  drawHistory() {
    return el("ol.history", ...this.versions.map((v, i) => el("li", button([el("span", { class: `status ${letter(v)}` }, letter(v)),
      text(this.title(v.snapshot)), ...chips(v.actors), this.title(v.snapshot) !== (v.snapshot || "now") && el("span.name", visible(v.snapshot)),
      el("span.count", bytes(v.size)), time(v.created)],
    () => { this.at = i; return this.show(1); }, { "aria-current": String(i === this.at) }))));
  }
  async drawEvents(options) {
    const events = await eventsOf(pathOf(this.file), options);
    return el("ol.history", ...events.map((e) => el("li", text(`${e.action}${e.from ? ` from ${e.from}` : ""}`),
      e.actor && chip(e.actor), el("span.name", visible(e.command || ""), e.pid ? ` (${e.pid})` : ""), time(e.time))));
  }
}
// code shows a long text: only the lines in sight are in the page, and parts are fetched as they are reached.
function code(first, titleOf, fetchFrom) {
  const box = el("div.code"), lines = [...first.lines], view = $("view");
  let fetching = false, by = null;
  const gutter = (n) => {
    const b = by?.[n], begins = b && (n === 0 || by[n - 1].snapshot !== b.snapshot || by[n - 1].actors[0] !== b.actors[0]);
    const title = b && visible(
      `${titleOf(b.snapshot)} · ${b.actors.join(", ")} · ${b.command || "?"} · ${new Date(b.time).toLocaleString()}`);
    return b && el("span", { class: `blame ${colourOf(b.actors[0])}${begins ? " begins" : ""}`, title, onclick: () => message(title) },
      begins && text(titleOf(b.snapshot)), begins && el("span.who", visible(b.actors[0].split("/")[0])));
  };
  const paint = async () => {
    if (!box.isConnected) { view.removeEventListener("scroll", paint); return; }
    const h = box.firstChild?.offsetHeight || 20, top = () => Math.max(0, Math.floor(view.scrollTop / h) - 20);
    const end = () => Math.min(first.total, top() + Math.ceil(view.clientHeight / h) + 60); // it may have moved meanwhile
    box.style.height = `${first.total * h}px`;
    while (!fetching && lines.length < end()) {
      fetching = true;
      try {
        const part = await fetchFrom(lines.length);
        if (!part.lines.length) break;
        lines.push(...part.lines);
      } catch (e) { failed(e); break; } finally { fetching = false; }
    }
    box.replaceChildren(...lines.slice(top(), end()).map((line, i) => {
      const row = el("div.row-line", gutter(top() + i), el("span.no", String(top() + i + 1)), el("span", visible(line)));
      row.style.top = `${(top() + i) * h}px`;
      return row;
    }));
  };
  view.addEventListener("scroll", paint, { passive: true });
  requestAnimationFrame(() => { box.append(el("div.row-line", " ")); paint(); });
  return { box, blame: (found) => { by = found; paint(); } };
}
