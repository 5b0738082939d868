// One file: its lines with who changed them last, its versions, and what happened to it.

import { call, currentWorkspace, eventsOf, get, image } from "./api.js";
import { $, bytes, button, chip, count, el, failed, icon, pathOf, time, visible } from "./dom.js";
import { Diff, images, pieces } from "./diff.js";
import { page, store, titleOf } from "./store.js";
import { restore } from "./actions.js";

const tabs = ["File", "Diff", "History", "Events"];

export class FileView {
  // open shows a file of a comparison, as it is in the newer state.
  async open(f, at, tab = "File") {
    const fork = /^\.forks\/([^/]+)(?:\/\.snapshots\/(.+))?$/.exec(at.b);
    Object.assign(this, { file: f, tab, workspace: fork ? fork[1] : at.workspace ?? currentWorkspace(), versions: [] });
    const state = fork ? fork[2] || "" : at.b;
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
    const v = this.versions[this.at], last = this.versions.length - 1;
    const to = (i) => { this.at = Math.max(0, Math.min(last, i)); this.show(tabs.indexOf(this.tab)); };
    const slider = el("input", { type: "range", id: "versions", min: 0, max: Math.max(last, 0), value: last - (this.at || 0),
      "aria-label": "Version", "aria-valuetext": v && `${last - this.at + 1} of ${last + 1}`, oninput: (e) => to(last - e.target.value) });
    const focused = document.activeElement?.id;
    $("file-head").replaceChildren(
      el("div", { class: "line" }, button(icon("back", "Back to the changes"), () => page.show("changes"), { class: "quiet" }),
        el("h2", { class: "path mono" }, visible(this.file.path)),
        el("div", { class: "actions" }, store.writes && v?.snapshot && v.action !== "deleted" && this.workspace === currentWorkspace()
          ? button("Restore this version", () => restore(v.snapshot, this.file)) : "")),
      el("div", { class: "line compare" },
        el("div", { id: "tabs", role: "tablist", "aria-label": "Views of the file" }, ...tabs.map((t, i) => el("button", {
          type: "button", role: "tab", id: `tab-${t.toLowerCase()}`, "aria-controls": "view", "aria-selected": String(t === this.tab),
          tabindex: t === this.tab ? 0 : -1, onclick: () => this.show(i),
          onkeydown: (e) => {
            const step = { ArrowRight: 1, ArrowLeft: tabs.length - 1 }[e.key];
            if (step) this.show((i + step) % tabs.length).then(() => $("tabs").querySelector("[aria-selected=true]").focus());
          } }, t))),
        last > 0 && el("span", { class: "slider" }, slider, el("span", { class: "count" }, `${last - this.at + 1} of ${last + 1}`)),
        v && el("span", { class: "version" }, el("span", { class: "text" }, visible(titleOf(v.snapshot))), time(v.created))));
    if (focused) $(focused)?.focus();
  }

  content(...parts) {
    $("view").replaceChildren(...parts);
    $("view").scrollTop = 0;
  }

  async show(i) {
    this.tab = tabs[i];
    this.stop?.abort();
    const { signal } = this.stop = new AbortController();
    this.head();
    $("view").setAttribute("aria-busy", "true");
    $("view").setAttribute("aria-labelledby", `tab-${this.tab.toLowerCase()}`);
    try {
      const content = await this[`draw${this.tab}`](signal);
      if (!signal.aborted) this.content(...[content].flat());
    } catch (e) {
      if (!signal.aborted) this.content(page.sorry(e));
    } finally {
      if (!signal.aborted) $("view").removeAttribute("aria-busy");
    }
  }

  async drawFile(signal) {
    const v = this.versions[this.at], workspace = this.workspace;
    if (v.action === "deleted") return el("p", { class: "message" }, "The file was deleted here. Move the slider to see it before.");
    if (images.test(this.file.path)) {
      const src = await image({ snapshot: v.snapshot, path: this.file }, signal, workspace);
      return el("div", { class: "images" }, el("img", { src, alt: visible(this.file.path) }));
    }
    const where = { snapshot: v.snapshot, path: pathOf(this.file) };
    const first = await get("/file", where, { signal, workspace });
    if (first.kind !== "text") return el("p", { class: "message" }, `A ${first.kind} file of ${bytes(first.size)}.`);
    const lines = code(first, (from) => get("/file", { ...where, from }, { signal, workspace }));
    if (first.total < 20000) {
      call("blame", { path: where.path, snapshot: v.snapshot || undefined }, { signal, workspace })
        .then((b) => lines.blame(b.lines), () => {}); // a file of another fork's name has none
    }
    return lines.box;
  }

  async drawDiff(signal) {
    const v = this.versions[this.at], a = this.versions[this.at + 1]?.snapshot ?? "base";
    const f = { ...this.file, status: { created: "A", deleted: "D" }[v.action] || "M", from: undefined };
    return new Diff({ file: f, a, b: v.snapshot, workspace: this.workspace }, { signal }).load();
  }

  drawHistory() {
    return el("ol", { class: "history" }, ...this.versions.map((v, i) => el("li", {}, el("button", {
      type: "button", "aria-current": i === this.at && "true", onclick: () => { this.at = i; this.show(1); } },
    el("span", { class: `status ${{ created: "A", deleted: "D" }[v.action] || "M"}` }, { created: "A", deleted: "D" }[v.action] || "M"),
    el("span", { class: "text" }, visible(titleOf(v.snapshot))), ...(v.actors || []).slice(0, 2).map((a) => chip(a)),
    el("span", { class: "name" }, visible(v.snapshot || "now")), el("span", { class: "count" }, bytes(v.size)), time(v.created)))));
  }

  // drawEvents shows the events, those of one program one after the other as one.
  async drawEvents(signal) {
    const groups = [];
    for (const e of await eventsOf(pathOf(this.file), signal, this.workspace)) {
      const last = groups[groups.length - 1];
      if (last && last.action === e.action && last.command === e.command && last.path === e.path && last.actor === e.actor) last.times++;
      else groups.push({ ...e, times: 1 });
    }
    return el("ol", { class: "history" }, ...groups.map((e) => el("li", {}, el("span", { class: "text" }, visible(e.action), e.times > 1 && ` ${count(e.times, "time")}`,
      e.from && ` from ${visible(e.from)}`, e.path !== this.file.path && ` ${visible(e.path)}`), e.actor && chip(e.actor),
    el("span", { class: "name" }, visible(e.command || ""), e.pid ? ` (${e.pid})` : ""), time(e.time))));
  }
}

// code shows a long text: only the lines in sight are in the page, and parts are fetched
// as they are reached.
function code(first, fetchFrom) {
  const box = el("div", { class: "code" }), lines = [...first.lines], view = $("view");
  let fetching = false, by = null;
  const height = () => box.firstChild?.offsetHeight || 20;
  const gutter = (n) => {
    const b = by?.[n];
    if (!b) return "";
    const begins = n === 0 || by[n - 1].snapshot !== b.snapshot || by[n - 1].actors[0] !== b.actors[0];
    const title = `${visible(titleOf(b.snapshot))}\n${visible(b.actors.join(", "))}${b.command ? `, ${visible(b.command)}` : ""}, ${new Date(b.time).toLocaleString()}`;
    return el("span", { class: `blame ${chip(b.actors[0]).className.replace("chip", "")}${begins ? " begins" : ""}`, title },
      begins && el("span", { class: "text" }, visible(titleOf(b.snapshot))), begins && el("span", { class: "who" }, visible(b.actors[0].split("/")[0])));
  };
  const paint = async () => {
    if (!box.isConnected) { view.removeEventListener("scroll", paint); return; }
    const h = height();
    box.style.height = `${first.total * h}px`;
    const top = Math.max(0, Math.floor(view.scrollTop / h) - 20);
    const end = Math.min(first.total, top + Math.ceil(view.clientHeight / h) + 40);
    while (!fetching && lines.length < end) {
      fetching = true;
      try {
        const part = await fetchFrom(lines.length);
        if (!part.lines.length) break;
        lines.push(...part.lines);
      } catch (e) { failed(e); break; } finally { fetching = false; }
    }
    box.replaceChildren(...lines.slice(top, end).map((tokens, i) => {
      const row = el("div", { class: "row-line" }, gutter(top + i), el("span", { class: "no" }, String(top + i + 1)), el("span", {}, ...pieces({ tokens })));
      row.style.top = `${(top + i) * h}px`;
      return row;
    }));
  };
  view.addEventListener("scroll", paint, { passive: true });
  requestAnimationFrame(() => { box.append(el("div", { class: "row-line" }, " ")); paint(); });
  return { box, blame: (found) => { by = found; box.classList.add("blamed"); paint(); } };
}
