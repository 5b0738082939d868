// The page: the timeline decides what is compared, and the pane shows it.
import { began, call, currentWorkspace, follow, session, useWorkspace } from "./api.js";
import * as actions from "./actions.js";
import { $, along, button, el, ends, failed, frame, icon, menu, message, redraw, sentence, visible } from "./dom.js";
import { Changes } from "./changes.js";
import { FileView, tabs } from "./file.js";
import { drawConflicts, drawForks, openForks } from "./forks.js";
import { Timeline } from "./timeline.js";
import { before, loadSnapshots, named, page, store, take, undoLabel } from "./store.js";
const changes = new Changes(), file = new FileView(), timeline = new Timeline((...what) => select(...what), (fork) => page.enter(fork),
  () => openForks().catch(failed));
let stopFollowing = () => {}, view = "changes", due = null, drawn = "", stale = true, looked = 0;
// start begins again until it succeeds, or the session has ended.
async function start(first) {
  try {
    const [s, newest] = await first;
    Object.assign(store, { writes: s.write, dir: s.dir, runs: s.runs });
    const where = visible(s.runs ? s.dir : s.mountpoint);
    $("where").textContent = $("where").title = where;
    document.title = `${where.split("/").pop()} – amberfs`;
    await enter(s.workspace, s.workspace ? null : newest);
    $("banner").hidden = true;
    watch();
  } catch (e) { wrong(e); if (e.status !== 401) setTimeout(() => start(session()), 3000); }
}
// wrong shows above everything what has to be put right before the page can go on.
function wrong(e) {
  $("banner").replaceChildren($(`wrong-${e.status}`)?.content.cloneNode(true) || sentence(e));
  $("banner").hidden = false;
}
page.sorry = (e) => {
  if ($(`wrong-${e.status}`)) wrong(e);
  const damaged = /corrupt|damaged/.test(`${e.kind} ${e.message}`) && $("damaged").content.cloneNode(true);
  return el("div.message", el("p.error", sentence(e)), damaged);
};
async function enter(workspace, newest) {
  const was = changes.at;
  stopFollowing();
  useWorkspace(workspace);
  Object.assign(store, { snapshots: [], names: new Map(), present: null });
  timeline.chosen = [""];
  document.body.classList.toggle("at-runs", page.atRuns());
  $("snapshot-button").hidden = !store.writes || page.atRuns();
  page.show(page.atRuns() ? "forks" : "changes", document.body.dataset.pane);
  stopFollowing = follow(happened, (e) => { if (e.status === 404 && currentWorkspace()) leave(); else wrong(e); });
  if (newest) take(newest); else await Promise.all([forks(), snapshots()]);
  timeline.show();
  await frame();
  if (workspace !== currentWorkspace()) return;
  if (page.atRuns()) { await Promise.all([forks(), newest && snapshots()]); await openForks(); return; }
  if (changes.at === was) select([""], undefined, false); // else something was chosen meanwhile
  await Promise.all([forks(), newest && snapshots()]);
}
// atRuns: the page shows the runs of a directory. The workspace that they come from is a copy of it, which nobody works in.
page.atRuns = () => store.runs && !currentWorkspace();
page.enter = (workspace) => enter(workspace).catch(failed);
// oneByOne runs something never beside itself, so that an old answer never replaces a newer one.
function oneByOne(run) {
  let last = Promise.resolve(), next = null;
  return () => (next ??= last = last.catch(() => {}).then(() => { next = null; return run(); }));
}
const snapshots = oneByOne(() => {
  const old = store.names;
  return loadSnapshots(() => {
    // What was renamed stays selected.
    const now = (name) => (named(name) ? name : store.snapshots.find((s) => s.seq === old.get(name)?.seq)?.name ?? name);
    timeline.chosen = timeline.chosen.map(now);
    for (const end of ["a", "b", "one"]) if (changes.at?.[end]) changes.at[end] = now(changes.at[end]);
    timeline.show();
  });
});
function leave() {
  if (page.leaving !== currentWorkspace()) message(`The fork ${currentWorkspace()} has ended. This is main: if its last state was kept, it is a snapshot here.`);
  page.enter("");
}
const forks = oneByOne(async () => {
  const states = ["running", "kept", "applied", "removed"], rank = (f) => states.indexOf(f.run?.state), used = (f) => Date.parse(f.run?.used || f.created);
  store.forks = ((await call("forks", {}, { workspace: "" })).forks || []).sort((x, y) => rank(x) - rank(y) || used(y) - used(x));
  const now = currentWorkspace(), state = JSON.stringify([now, store.forks], (k, v) => (k === "ttl" ? undefined : v));
  if (state === drawn) return;
  if (now && !now.includes("/") && !store.forks.some((f) => f.name === now)) { leave(); return; }
  const names = store.forks.filter((f) => f.run?.state !== "removed" || f.name === now).slice(0, 50).map((f) => f.name);
  if (!store.runs) names.unshift("");
  const focused = names.includes(now) ? now : names[0];
  const tab = (name) => button([name ? icon("fork") : "", ends(name || "main")], () => page.enter(name), { role: "tab", title: visible(name || "main"),
    "aria-selected": String(name === now), tabindex: name === focused ? 0 : -1, "aria-controls": "pane", onkeydown: along });
  redraw($("workspaces"), ...names.map(tab));
  fit();
  $("forks-button").hidden = !store.forks.length && !store.runs;
  $("forks-button").replaceChildren(`${store.runs ? "Runs" : "Forks"} `, el("span.count", String(store.forks.filter((f) => f.run?.state !== "removed").length)));
  timeline.show();
  if (view === "forks") drawForks();
  drawn = state; // not before: what fails is drawn again
  if (changes.at?.workspace !== undefined) changes.refresh(new Set()).catch(unless);
});
// fit hides the tabs that have no room, and puts them into a menu. The one that is selected stays.
function fit() {
  const box = $("workspaces"), tabs = [...box.children], hidden = [];
  const more = menu([`${tabs.length} more`, icon("down")], () => hidden.map((name) => [name, () => page.enter(name === "main" ? "" : name)]));
  $("more-workspaces").replaceChildren();
  for (const t of tabs) t.hidden = false;
  if (box.scrollWidth <= box.clientWidth) return;
  const gap = 4, widths = new Map(tabs.map((t) => [t, t.offsetWidth + gap])), isChosen = (t) => t.getAttribute("aria-selected") === "true";
  $("more-workspaces").append(more);
  let room = box.clientWidth;
  for (const t of tabs.toSorted((x, y) => isChosen(y) - isChosen(x))) {
    room -= widths.get(t);
    if (room < 0 && !isChosen(t)) { t.hidden = true; hidden.push(t.title); }
  }
  more.firstChild.data = `${hidden.length} more`;
}
new ResizeObserver(() => fit()).observe($("workspaces").parentElement);
// watch looks at the forks while the page is seen, if something may have happened in them, and each ten minutes.
async function watch() {
  const began = performance.now();
  if (!document.hidden && store.forks.length && (stale || began - looked > 600000)) {
    [stale, looked] = [false, began];
    await forks().catch(() => { stale = true; });
  }
  setTimeout(watch, Math.min(10000, Math.max(700, 20 * (performance.now() - began))));
}
// show fills the pane with one of its views, if from is the one that is there still; where there is room for only one pane, that is the one that is seen.
page.show = (name, pane = "changes", from = view) => {
  if (from !== view) return;
  if (name !== from && $("pane").contains(document.activeElement)) $("pane").focus();
  view = name;
  for (const v of ["changes", "file", "forks", "conflicts"]) $(v).hidden = v !== name;
  page.pane(pane);
};
page.pane = (pane) => {
  const was = document.body.dataset.pane;
  document.body.dataset.pane = pane;
  if (pane !== was) history[was === "timeline" ? "pushState" : "replaceState"]({ pane }, "");
};
addEventListener("popstate", (e) => { document.body.dataset.pane = e.state?.pane || "timeline"; });
async function select(names, title, pane = true) {
  if (pane) page.show("changes");
  const seq = (n) => (n === "" ? Infinity : named(n)?.seq ?? 0); // the older first
  const [a, b] = names.length === 2 ? names.toSorted((x, y) => seq(x) - seq(y)) : [before(names[0]), names[0]];
  await changes.show({ a, b, one: names.length === 1 ? b : undefined, title });
}
// compare shows how any two states differ. Those of forks are looked up in main.
page.compare = (a, b, by) => {
  const far = [a, b].some((x) => x.startsWith(".forks/")), one = !far && a === before(b) ? b : undefined;
  timeline.chosen = far ? [] : one === undefined ? [a, b] : [b];
  timeline.show();
  page.show("changes");
  changes.show({ a, b, by, one, workspace: far ? "" : undefined });
};
page.file = (f, at, tab) => { page.show("file"); file.open(f, at, tab); };
page.conflicts = (paths, how) => { page.show("conflicts"); drawConflicts(paths, how).catch(failed); };
page.actorItems = (actor) => actions.actorItems(actor, (by) => page.compare(changes.at.a, changes.at.b, by), changes.at.one);
Object.assign(page, { restoreFile: actions.restoreFile, restoreHunk: actions.restoreHunk, changed: () => look(true, new Set()) });
// actions are the buttons beside the title of what is compared.
page.actions = ({ a, b, one, workspace }) => {
  const fork = currentWorkspace(), more = (...items) => menu(icon("more", "More actions"), () => items);
  const run = store.runs && store.forks.find((f) => f.name === fork)?.run;
  if (workspace !== undefined) return [];
  if (one === undefined) return [a, b].filter((n) => named(n)).map((n) => button(`Restore ${visible(n)}`, () => actions.restore(n)));
  const s = named(one);
  if (one) return [button("Restore", () => actions.restore(one), { class: "primary" }), s && more(...actions.itemsFor(s))];
  const apply = store.dir && (run || !store.runs) && [`Apply to ${visible(store.dir.split("/").pop())} …`, () => actions.applyTo(fork)];
  return [undoLabel() && button(visible(undoLabel()), () => actions.restore(store.undo)),
    run ? button(apply[0], apply[1], { class: "primary" })
      : fork && button([icon("merge"), "Merge into main"], () => actions.merge(fork), { class: "primary" }),
    more(!run && apply, ["Fork the present state …", () => actions.fork("")], !store.runs && !fork && ["Hand off …", actions.handOff], !store.runs && !fork && ["Merge what came back …", actions.handBack], fork && ["End …", () => actions.endFork(fork, false)],
      fork && ["Discard …", () => actions.endFork(fork, true), "danger"])];
};
page.empty = ({ one }) => one === "" && !store.snapshots.length && $("begin").content.cloneNode(true);
page.counted = (a, files) => { if (a === before("")) { store.present = files; timeline.rows.redraw(); } };
// happened takes an event from the daemon. Many at once are one look.
const structural = /^(captured|removed|renamed-snapshot|expired|restored|merged|forked|renamed-fork|fork-deleted|pushed|pulled)$/;
function happened(e) {
  $("banner").hidden = true;
  if (e.action === "elsewhere") { stale = true; return; }
  due ??= { dirty: new Set() };
  due.all ||= structural.test(e.action);
  due.dirty.add(e.path);
  due.timer ??= setTimeout(() => { const { all, dirty } = due; due = null; look(all, dirty).catch(unless); }, 250);
}
const unless = (e) => { if (e.status !== 404) failed(e); }; // what is gone has an event of its own
// look looks again at everything that may have changed.
async function look(all, dirty) {
  if (all) forks().catch(wrong);
  if (all) await snapshots();
  const { at } = changes, latest = before("");
  if (!at) return; // nothing is selected yet
  if (at.one && !named(at.one)) timeline.chosen = [""]; // it was deleted
  const [one] = timeline.chosen, stale = at.one !== undefined && (changes.failed || at.one !== one || at.a !== before(one)); // renamed during the comparison
  if (stale) { await select([one], undefined, false); return; }
  const live = at.b === "" || at.workspace !== undefined;
  if (live) changes.refresh(dirty).catch(unless); else changes.header();
  page.counted(latest, (await call("changes", { a: latest, limit: 1 })).files);
}
$("snapshot-button").addEventListener("click", () => actions.snapshotNow().catch(failed));
$("forks-button").addEventListener("click", () => openForks().catch(failed));
document.addEventListener("keydown", (e) => {
  if (e.target.closest?.("input, select, textarea, dialog, [popover]") || e.ctrlKey || e.metaKey || e.altKey) return;
  const workspace = () => { page.pane("timeline"); $("workspaces").querySelector("[tabindex='0']")?.focus(); };
  const focus = (id, pane) => { page.pane(pane); $(id).focus(); };
  const tab = (i) => (view === "file" ? file.show(i) : changes.current && page.file(changes.current, changes.at, tabs[i]));
  const fold = () => changes.current && document.querySelector(`article[data-path="${CSS.escape(changes.current.path)}"] .fold`)?.click();
  const run = {
    "/": () => focus("search", "timeline"), f: () => focus("filter", "tree"), t: () => focus("snapshots", "timeline"),
    c: () => focus("files", "tree"), v: () => focus(view === "file" ? "view" : "diffs", "changes"), n: () => changes.step(1),
    p: () => changes.step(-1), x: fold, g: () => $("forks-button").click(), 1: () => tab(0), 2: () => tab(1), 3: () => tab(2),
    4: () => tab(3), s: () => changes.turn(), w: workspace, "?": () => $("help").showPopover(),
    S: () => !$("snapshot-button").hidden && $("snapshot-button").click(), u: () => [...document.querySelectorAll("#messages .link")].at(-1)?.click(),
    Escape: () => (page.atRuns() ? openForks() : view === "changes" ? page.pane("timeline") : page.show("changes")),
    r: () => view === "changes" && [...$("actions").children].find((b) => b.textContent.startsWith("Restore"))?.click(),
  }[e.key];
  if (run) { e.preventDefault(); run(); }
});
start(began);
