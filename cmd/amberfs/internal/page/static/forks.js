// Forks as cards, and the conflicts of a merge.
import { call, get, image } from "./api.js";
import { applyTo, endFork, markRun, merge } from "./actions.js";
import { images } from "./diff.js";
import { $, button, bytes, chip, count, el, ends, failed, icon, menu, redraw, text, time, visible } from "./dom.js";
import { page, store } from "./store.js";
function card(f) {
  const state = (name) => `.forks/${name}`, compare = (name, to) => [name, () => page.compare(to, state(f.name))];
  const others = store.forks.filter((x) => x !== f).slice(0, 12).map((x) => compare(visible(x.name), state(x.name)));
  return el("article.card", { "aria-label": visible(f.name) }, el("header", icon("fork"), el("h3", { title: visible(f.name) }, ends(f.name)),
    store.writes && menu(icon("more", `More for ${visible(f.name)}`), () => (f.run ? [f.run.state === "removed"
      ? ["Restore the run", () => markRun(f, "kept")] : ["Remove the run …", () => markRun(f, "removed"), "danger"]]
      : [["End, and keep a snapshot …", () => endFork(f.name, false)], ["Discard …", () => endFork(f.name, true), "danger"]]))),
  el("p", el("strong", `${count(f.changed, "changed file")}${f.more ? " and more" : ""}`), `, ${count(f.snapshots, "snapshot")}`),
  f.paths && text(`${f.paths.join(", ")}${f.changed > f.paths.length ? ", …" : ""}`, "name"),
  f.run && text(f.run.command, "name command"),
  el("p.meta", f.last && chip(f.last), f.run && Date.parse(f.run.used) - Date.parse(f.created) > 60000 && el("span", "used ", time(f.run.used)), "created ", time(f.created), f.base && el("span", `from ${visible(f.base)}`),
    f.expires && el("span.badge", "ends ", time(f.expires)),
    f.run && el("span.badge", { title: visible(f.run.command) }, visible(`run, ${f.run.state}`)),
    f.check && el("span", { class: `badge ${f.check === "passed" ? "good" : "bad"}` }, visible(`check ${f.check}`))),
  el("div.actions", button("Open", () => page.enter(f.name)), button("Changes", compare("", `${state(f.name)}/.snapshots/base`)[1]),
    menu(["Compare", icon("down")], () => [compare("main, now", ""), ...others], { class: "" }),
    store.writes && (f.run && store.dir ? button("Apply …", () => applyTo(f.name), { class: "primary", disabled: /^(applied|removed)$/.test(f.run.state) })
      : button([icon("merge"), "Merge"], () => merge(f.name)))));
}
let elsewhere = [], showsRemoved = false; // runs of other directories
const isRemoved = (f) => f.run?.state === "removed", present = () => store.forks.filter((f) => !isRemoved(f)), removed = () => store.forks.filter(isRemoved);
const other = (r) => el("li", el("strong", visible(r.name)), " ", el("span.path", visible(r.dir)), r.dir_gone && el("span.badge", "gone"),
  ` ${r.state}, ${count(r.changed, "file")}, ${bytes(r.bytes)}, `, time(r.used));
export const drawForks = () => redraw($("forks"), el("div.line",
  !page.atRuns() && button(icon("back", "Back"), () => page.show("changes", "timeline"), { class: "quiet" }),
el("h2", count(present().length, store.runs ? "run" : "fork"), store.runs && ` of ${visible(store.dir)}`)),
el("div.cards", ...present().map(card)),
removed().length > 0 && el("details", { open: showsRemoved, ontoggle: (e) => { showsRemoved = e.target.open; } },
  el("summary", count(removed().length, "removed run")), el("div.cards", ...removed().map(card))),
elsewhere.length > 0 && el("section", { "aria-label": "Runs of other directories" }, el("h3", "Runs of other directories"),
  el("p.faint", "To open them, run `amberfs ui` there."), el("ul.plan", ...elsewhere.map(other))));
// openForks shows the forks, and the user's runs of other directories, which it looks for once.
export async function openForks() {
  page.show("forks");
  drawForks();
  elsewhere = (await get("/runs", {}, {})).filter((r) => r.dir !== store.dir && r.state !== "removed");
  drawForks();
}
const joined = (lines) => lines.join(""); // each has its newline
// drawConflicts shows what both sides changed, and asks for a decision on each part. Then go takes for each path a side, or a text, or for all one side.
export async function drawConflicts(paths, { title, verb, names, of, options, go }) {
  const box = $("conflicts"), states = { base: `.forks/${of.fork}/.snapshots/base`, ours: "", theirs: `.forks/${of.fork}` };
  // whole is what one side has, where there are no lines to merge.
  const whole = async (path, side, size) => {
    const src = size > 0 && of.fork && images.test(path) && await image({ snapshot: states[side], path }, options).catch(() => "");
    return [el("p.message", size < 0 ? "There is no file." : bytes(size)), src && el("img", { src, alt: visible(path) })];
  };
  redraw(box, el("p.message", "Comparing …"));
  const files = await Promise.all(paths.map(async (path) => {
    const found = await call("conflict", { ...of, path }, options).catch((e) => { failed(e); return { binary: true }; });
    found.binary ||= Boolean(found.hidden);
    const known = found.binary && (found.base_size || found.ours_size || found.theirs_size);
    if (known) for (const side of Object.keys(states)) found[side] = await whole(path, side, found[`${side}_size`]);
    const taken = { conflict: "", same: "base", both: "ours" };
    const parts = (found.parts || []).map((part) => ({ ...part, take: taken[part.kind] ?? part.kind }));
    return { path, ...found, parts, shown: true, open: parts.filter((part) => part.kind === "conflict") };
  }));
  const decided = (f) => f.whole || (!f.binary && f.open.every((part) => part.take));
  const linesOf = (part) => (part.take === "each" ? [...part.ours, ...part.theirs] : part[part.take] || ["(not decided)\n"]);
  const take = (f, side) => { f.whole = side; for (const part of f.open) part.take = side; };
  const byPath = (some, value) => Object.fromEntries(files.filter(some).map((f) => [f.path, value(f)]));
  const decide = () => go(byPath((f) => f.whole, (f) => f.whole),
    byPath((f) => !f.whole, (f) => ({ of: f.of, text: joined(f.parts.flatMap(linesOf)) })),
    files.every((f) => f.whole && f.whole === files[0].whole) && { [files[0].whole]: true }); // of names that are not UTF-8, too
  const choice = (label, now, sides, set) => el("div.choice", { role: "group", "aria-label": label }, ...Object.keys(sides).map((side) =>
    button(sides[side], () => { set(side); draw(); }, { "aria-pressed": String(now === side) })));
  const lines = (part) => el("pre", { tabindex: 0 }, visible(joined(part || [])) || el("span.faint", "nothing"));
  const columns = (content) => el("div.columns", ...Object.keys(states).map((side) => el("div", { class: `side ${side}` },
    el("div.about", names[side]), ...content(side))));
  const preview = (part) => {
    const lines = linesOf(part), same = part.kind === "same", rest = lines.length - 6;
    const cut = same && rest > 1 ? [...lines.slice(0, 3), `… ${count(rest, "line")}\n`, ...lines.slice(-3)] : lines;
    return el(same ? "span" : "mark", { class: part.take || "open" }, visible(joined(cut)));
  };
  const section = (f) => el("article.file.conflict", { "aria-label": visible(f.path) }, el("header", el("h3.path", visible(f.path)),
    el("span.count", f.hidden ? `${f.hidden}: lines ${f.clean ? "merge" : "conflict, so take one side"}` : f.binary ? "no lines to merge" : count(f.open.length, "conflict")),
    choice(`Take all of ${visible(f.path)} from`, f.whole, { ours: names.ours, theirs: names.theirs }, (side) => take(f, side))),
  f.ours && el("div.part", columns((side) => f[side])),
  ...f.open.map((part) => el("div.part", columns((side) => [lines(part[side])]),
    choice("Take", part.take, { ours: names.ours, theirs: names.theirs, each: "Both", base: names.base },
      (side) => { part.take = side; f.whole = undefined; }))),
  !f.binary && el("details", { open: f.shown, ontoggle: (e) => { f.shown = e.target.open; } }, el("summary", "Preview of the result"),
    el("pre.result", { tabindex: 0 }, ...f.parts.map(preview))));
  const draw = () => {
    const left = files.filter((f) => !decided(f)).length, top = box.lastChild?.scrollTop || 0;
    const all = (side) => button(`All: ${names[side]}`, () => { for (const f of files) take(f, side); draw(); });
    const state = left ? `Both sides changed ${count(files.length, "file")}; ${left} to decide. Nothing changed yet.` : "All is decided.";
    redraw(box, el("div.subject",
      el("div.line", button(icon("back", "Back"), () => page.show("changes"), { class: "quiet" }), el("h2", title),
        el("div.actions", button(verb, decide, { class: "primary", disabled: left > 0 }))),
      el("div.line.compare", el("span", { role: "status" }, state), el("span.actions", all("ours"), all("theirs")))),
    el("div.scroller", { role: "region", "aria-label": "Conflicts", tabindex: 0 }, ...files.map(section)));
    box.lastChild.scrollTop = top;
  };
  draw();
}
