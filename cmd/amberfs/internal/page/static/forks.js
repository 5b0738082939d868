// Forks as cards, and the conflicts of a merge.

import { call } from "./api.js";
import { endFork, merge, mergeWith } from "./actions.js";
import { $, button, chip, count, el, failed, icon, menu, time, visible } from "./dom.js";
import { page, spelled, store } from "./store.js";

export function drawForks() {
  const box = $("forks"), other = (f) => store.forks.filter((x) => x !== f);
  const card = (f) => el("article", { class: "card", "aria-label": visible(f.name) },
    el("header", {}, icon("fork"), el("h3", { class: "text" }, visible(f.name)),
      store.writes && menu(icon("more", `More for ${visible(f.name)}`), () => [["End, and keep a snapshot …", () => endFork(f.name, false)], ["Discard …", () => endFork(f.name, true), "danger"]])),
    el("p", {}, el("strong", {}, count(f.changed, f.more ? "changed file and more" : "changed file", f.more ? "changed files and more" : "changed files")),
      f.snapshots > 0 && `, ${count(f.snapshots, "snapshot")}`),
    el("p", { class: "meta" }, ...(f.actors || (f.last ? [f.last] : [])).slice(0, 3).map((a) => chip(a)), "created ", time(f.created),
      f.base && el("span", {}, `from ${visible(f.base)}`), f.ttl && el("span", { class: "badge" }, `ends in ${f.ttl.replace(/(\d[hm])\d.*$/, "$1")}`),
      f.check && el("span", { class: `badge ${f.check.passed ? "good" : "bad"}` }, `check ${f.check.passed ? "passed" : "failed"}${f.check.score === undefined ? "" : `, score ${f.check.score}`}`)),
    el("div", { class: "actions" }, button("Open", () => page.enter(f.name)),
      button("Changes", () => page.compare(`.forks/${f.name}/.snapshots/base`, `.forks/${f.name}`)),
      menu(["Compare", icon("down")], () => [["main, now", () => page.compare("", `.forks/${f.name}`)],
        ...other(f).slice(0, 12).map((x) => [visible(x.name), () => page.compare(`.forks/${x.name}`, `.forks/${f.name}`)])], { class: "" }),
      store.writes && button([icon("merge"), "Merge"], () => merge(f.name))));
  box.replaceChildren(el("div", { class: "line" }, button(icon("back", "Back"), () => page.show("changes", "timeline"), { class: "quiet" }), el("h2", {}, count(store.forks.length, "fork"))),
    store.forks.length ? el("div", { class: "cards" }, ...store.forks.map(card)) : el("div", { class: "empty" }, el("p", {}, "No forks. ", el("code", {}, "amberfs fork try"), " makes one.")));
}

const sides = { base: "Base", ours: "Main", theirs: "Fork" };
const text = (lines) => lines.map((l) => `${l}\n`).join("");

// drawConflicts shows what both sides changed, and asks for a decision on each part.
export async function drawConflicts(fork, paths) {
  const box = $("conflicts"), decided = new Map(); // path to { of, choices by part, all }
  let unified = false;
  const files = await Promise.all(paths.map(async (path) => {
    const found = await call("conflict", { fork, path }, { workspace: "" }).catch((e) => { failed(e); return { binary: true, parts: [] }; });
    return { path, ...found, parts: found.parts || [] };
  }));
  for (const f of files) decided.set(f.path, f.parts.map((p) => (p.kind === "conflict" ? "" : p.kind === "same" ? "base" : p.kind === "both" ? "ours" : p.kind)));
  const whole = new Map(); // path to a side, of what has no parts
  const open = () => files.filter((f) => (f.binary ? !whole.get(f.path) : decided.get(f.path).includes(""))).length;
  const linesOf = (part, side) => (side === "both" ? [...part.ours, ...part.theirs] : part[side === "base" && part.kind === "same" ? "base" : side] || []);
  const result = (f) => f.parts.flatMap((p, i) => linesOf(p, decided.get(f.path)[i] || "base"));
  const go = async () => {
    const args = { resolve: {} };
    for (const f of files) if (whole.get(f.path)) args.resolve[f.path] = whole.get(f.path); else (args.contents ??= {})[f.path] = { of: f.of, text: text(result(f)) };
    await mergeWith(fork, args);
    page.show("changes");
  };

  const choose = (f, i, label) => el("div", { class: "choice", role: "group", "aria-label": label }, ...[["ours", "Main"], ["theirs", visible(fork)], ...(i < 0 ? [] : [["both", "Both"], ["base", "Neither"]])].map(([side, name]) => el("button", {
    type: "button", "aria-pressed": String((i < 0 ? whole.get(f.path) : decided.get(f.path)[i]) === side),
    onclick: () => {
      if (i >= 0) { decided.get(f.path)[i] = side; whole.delete(f.path); } else {
        whole.set(f.path, side);
        f.parts.forEach((p, n) => { if (p.kind === "conflict") decided.get(f.path)[n] = side; });
      }
      draw();
    } }, name)));

  const column = (part, side) => el("div", { class: `side ${side}` }, el("div", { class: "about" }, side === "theirs" ? visible(fork) : sides[side]),
    el("pre", { tabindex: 0 }, visible(text(part[side] || [])) || el("span", { class: "faint" }, "nothing")));

  const section = (f) => el("article", { class: "file conflict", "aria-label": visible(f.path) },
    el("header", {}, el("h3", { class: "path" }, visible(f.path)), el("span", { class: "count" }, f.binary ? "no lines to merge" : count(f.parts.filter((p) => p.kind === "conflict").length, "conflict")),
      choose(f, -1, `Take all of ${visible(f.path)} from`)),
    ...f.parts.map((p, i) => p.kind === "conflict" && el("div", { class: "part" },
      el("div", { class: `columns${unified ? " unified" : ""}` }, ...["base", "ours", "theirs"].map((s) => column(p, s))), choose(f, i, "Take"))),
    !f.binary && el("details", { open: f.shown, ontoggle: (e) => { f.shown = e.target.open; } }, el("summary", {}, "Preview of the result"),
      el("pre", { class: "result", tabindex: 0 }, ...f.parts.flatMap((p, i) => {
        const side = decided.get(f.path)[i], mine = side ? linesOf(p, side) : ["(not decided)"];
        return p.kind === "same" && mine.length > 6 ? [visible(text(mine.slice(0, 3))), el("span", { class: "faint" }, `… ${count(mine.length - 6, "line")}\n`), visible(text(mine.slice(-3)))]
          : [p.kind === "same" ? visible(text(mine)) : el("mark", { class: side || "open" }, visible(text(mine)))];
      }))));

  const draw = () => {
    const left = open(), focused = [...box.querySelectorAll("button")].indexOf(document.activeElement), top = box.lastChild?.scrollTop;
    const all = (side) => { for (const f of files) { whole.set(f.path, side); f.parts.forEach((p, n) => { if (p.kind === "conflict") decided.get(f.path)[n] = side; }); } draw(); };
    box.replaceChildren(el("div", { class: "subject" },
      el("div", { class: "line" }, button(icon("back", "Back"), () => page.show("changes"), { class: "quiet" }), el("h2", {}, `Merge ${visible(spelled(fork))} into main`),
        el("div", { class: "actions" }, button("Merge", go, { class: "primary", disabled: left > 0 }))),
      el("div", { class: "line compare" }, el("span", { role: "status" }, left ? `Both sides changed ${count(files.length, "file")} in different ways; ${left} to decide. Nothing is changed yet.` : "All decided. Merge writes the result, and can be undone."),
        el("span", { class: "actions" }, button("All from main", () => all("ours")), button(`All from ${visible(fork)}`, () => all("theirs")),
          button(unified ? "Three columns" : "Unified", () => { unified = !unified; draw(); })))),
    el("div", { class: "scroller", role: "region", "aria-label": "Conflicts", tabindex: 0 }, ...files.map(section)));
    if (focused >= 0) box.querySelectorAll("button")[focused]?.focus();
    box.lastChild.scrollTop = top || 0;
  };
  draw();
}
