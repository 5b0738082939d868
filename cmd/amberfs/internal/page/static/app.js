// The page: the timeline decides what is compared, and the pane shows it.

import { call, currentWorkspace, follow, session, useWorkspace } from "./api.js";
import * as actions from "./actions.js";
import { $, ask, button, count, el, failed, icon, menu, message, sentence, visible } from "./dom.js";
import { Changes } from "./changes.js";
import { FileView } from "./file.js";
import { drawConflicts, drawForks } from "./forks.js";
import { Timeline } from "./timeline.js";
import { before, loadForks, loadSnapshots, page, spelled, store, titleOf } from "./store.js";

let stopFollowing = () => {};
const changes = new Changes();
const file = new FileView();
const timeline = new Timeline((names, range) => select(names, range), (fork) => enter(fork));

async function start() {
  try {
    const s = await session();
    store.writes = s.write;
    $("where").textContent = visible(s.mountpoint);
    document.title = `${s.mountpoint.split("/").pop()} – amberfs`;
    $("snapshot-button").hidden = !s.write;
    await enter(s.workspace);
  } catch (e) { wrong(e); }
}

// wrong shows above everything what has to be put right before the page can go on.
function wrong(e) {
  const sorry = e.status === 401 ? ["This session has ended.", "Run `amberfs ui` in the workspace and open the address that it prints."]
    : e.status === 502 ? ["The workspace is not mounted.", "Mount it again with `amberfs mount STORE DIRECTORY`. The page continues then."]
      : e instanceof TypeError || !e.status ? ["`amberfs ui` is not running any more.", "Run it again in the workspace and open the address that it prints."]
        : [sentence(e), ""];
  $("banner").replaceChildren(el("strong", {}, sorry[0]), " ", sorry[1]);
  $("banner").hidden = false;
}

// sorry shows an error where something else was to be.
page.sorry = (e) => {
  if (e.status === 401 || e.status === 502 || !e.status) wrong(e);
  const damaged = /corrupt|damaged/.test(`${e.kind} ${e.message}`) && "`amberfs verify` finds all damaged files. Restore this one from another snapshot.";
  return el("div", { class: "message" }, el("p", { class: "error" }, sentence(e)), damaged && el("p", {}, damaged));
};

// enter turns to a workspace: main is "".
async function enter(workspace) {
  useWorkspace(workspace);
  Object.assign(store, { snapshots: [], names: new Map(), present: { files: null, last: "" } });
  stopFollowing();
  const streams = [follow(happened, lost)];
  if (workspace) streams.push(follow(happenedInMain, () => {}, "")); // forks end there
  stopFollowing = () => streams.forEach((stop) => stop());
  await Promise.all([forks(), loadSnapshots(() => timeline.show())]);
  timeline.chosen = [""];
  timeline.show();
  await select([""], false, false);
}
page.enter = (workspace) => enter(workspace).catch(failed);

function lost(e) {
  if (e.status === 404 && currentWorkspace()) leave(); else wrong(e);
}

// leave turns from a fork that has ended to main.
function leave() {
  if (page.leaving !== currentWorkspace()) message(`The fork ${currentWorkspace()} has ended. This is main.`);
  page.enter("");
}

async function forks() {
  await loadForks();
  const now = currentWorkspace();
  if (now && !now.includes("/") && !store.forks.some((f) => f.name === now)) { leave(); return; }
  const tab = (name, label) => el("button", {
    type: "button", role: "tab", "aria-selected": String(name === now), tabindex: name === now ? 0 : -1, "aria-controls": "pane",
    onclick: () => page.enter(name),
    onkeydown: (e) => e.currentTarget[{ ArrowRight: "nextElementSibling", ArrowLeft: "previousElementSibling" }[e.key]]?.focus(),
  }, name && icon("fork"), visible(label));
  $("workspaces").replaceChildren(tab("", "main"), ...store.forks.slice(0, 50).map((f) => tab(f.name, f.name)));
  $("forks-button").hidden = !store.forks.length;
  $("forks-button").replaceChildren("Forks ", el("span", { class: "count" }, String(store.forks.length)));
  if (view === "forks") drawForks();
}

// Which of the views fills the pane, and, where there is room for only one pane, which
// one is seen.
let view = "changes";
function show(name, pane = "changes") {
  view = name;
  for (const v of ["changes", "file", "forks", "conflicts"]) $(v).hidden = v !== name;
  page.pane(pane);
}
page.show = show;
page.pane = (name) => {
  if (document.body.dataset.pane === name) return;
  const away = document.body.dataset.pane === "timeline";
  document.body.dataset.pane = name;
  if (away) history.pushState({ pane: name }, ""); else history.replaceState({ pane: name }, "");
};
addEventListener("popstate", (e) => { document.body.dataset.pane = e.state?.pane || "timeline"; });

// select shows what a state changed, or how two differ.
async function select(names, range, pane = true) {
  show("changes", pane ? "changes" : document.body.dataset.pane);
  const [a, b] = names.length === 2 ? order(names) : [before(names[0]), names[0]];
  const title = range && `${count(timeline.rows.items[timeline.rows.active]?.fold?.length || 0, "turn")} together`;
  await changes.show({ a, b, one: names.length === 1 ? b : undefined, range: title });
}

// order puts the older of two first.
function order([a, b]) {
  const seq = (n) => (n === "" ? Infinity : store.names.get(n)?.seq ?? 0);
  return seq(a) <= seq(b) ? [a, b] : [b, a];
}

// compare shows how any two states differ. Those of forks are looked up in main.
page.compare = (a, b, by) => {
  const far = [a, b].some((x) => x.startsWith(".forks/"));
  timeline.chosen = far ? [] : b === "" || before(b) === a ? [b] : [a, b];
  timeline.show();
  show("changes");
  changes.show({ a, b, by, one: !far && a === before(b) ? b : undefined, workspace: far ? "" : undefined }).catch(failed);
};
page.only = (actor) => { $("search").value = actor; timeline.show(); page.pane("timeline"); };
page.file = (f, at, tab) => { show("file"); file.open(f, at, tab); };
page.conflicts = (fork, paths) => { show("conflicts"); drawConflicts(fork, paths); };
page.actorItems = (actor) => actions.actorItems(actor, (by) => page.compare(changes.at.a, changes.at.b, by));
Object.assign(page, { restoreFile: actions.restoreFile, restoreHunk: actions.restoreHunk });

// actions are the buttons beside the title of what is compared.
page.actions = ({ a, b, one, workspace }) => {
  const more = (items) => menu(icon("more", "More actions"), () => items);
  if (workspace !== undefined) return [];
  if (one === undefined) return [a, b].filter((n) => n !== "").map((n) => button(`Restore ${visible(n)}`, () => actions.restore(n)));
  if (one) return [button("Restore", () => actions.restore(one), { class: "primary" }), more(actions.itemsFor(one) || [])];
  const fork = currentWorkspace();
  return [store.undo && button("Undo the last restore", () => actions.restore(store.undo)),
    fork && button([icon("merge"), "Merge into main"], () => actions.merge(fork), { class: "primary" }),
    more([["Fork the present state …", () => actions.fork("")], ...fork ? [["End …", () => actions.endFork(fork, false)], ["Discard …", () => actions.endFork(fork, true), "danger"]] : []])].filter(Boolean);
};

// empty is what an empty workspace shows: how to begin.
page.empty = ({ one }) => one === "" && !store.snapshots.length && el("div", { class: "empty" }, el("h3", {}, "No snapshots yet"),
  el("p", {}, "Take the first one, change something, and it appears here. Three commands to begin with:"),
  el("dl", {}, ...[["mkdir .snapshots/first", "takes a snapshot"], ["amberfs restore first", "makes the workspace equal to it"],
    ["amberfs fork try", "makes a writable copy"]].flatMap(([k, what]) => [el("dt", {}, el("code", {}, k)), el("dd", {}, what)])));

page.counted = (a, files) => {
  if (a !== before("")) return;
  store.present.files = files;
  timeline.rows.redraw();
};

const structural = new Set(["captured", "removed", "renamed-snapshot", "expired", "restored", "merged", "forked", "renamed-fork", "fork-deleted", "pushed", "pulled"]);
let due = null;

// happened takes an event from the daemon. Many at once are one look.
function happened(event) {
  $("banner").hidden = true;
  const who = event.actor || event.command;
  store.present.last = `${event.action} ${event.path === "." ? event.from || "" : event.path || ""}${who ? ` by ${who}` : ""}`;
  due ??= { dirty: new Set() };
  due.structural ||= structural.has(event.action);
  due.dirty.add(event.path);
  due.timer ??= setTimeout(() => {
    const { structural: all, dirty } = due;
    due = null;
    look(all, dirty).catch(failed);
  }, 250);
}

function happenedInMain(event) {
  if (["forked", "renamed-fork", "fork-deleted"].includes(event.action)) forks().catch(failed);
}

// look looks again at everything that may have changed.
async function look(all, dirty) {
  if (all) await Promise.all([forks(), loadSnapshots(() => timeline.show())]);
  else if (view === "forks") await forks();
  const { at } = changes;
  const [one] = timeline.chosen;
  if (at.one !== undefined && timeline.chosen.length === 1 && at.one === one && at.a !== before(one)) { await select([one], false, false); return; }
  const live = at.b === "" || at.workspace !== undefined;
  if (live) await changes.refresh(dirty);
  if (!live || at.workspace !== undefined || at.a !== before("")) page.counted(before(""), (await call("changes", { a: before(""), limit: 1 })).files);
}

// changed is run after what the page itself has done.
page.changed = async (chosen) => {
  if (chosen !== undefined) timeline.chosen = [chosen];
  await Promise.all([forks(), loadSnapshots(() => timeline.show())]);
  if (chosen !== undefined) await select([chosen], false, false);
  await look(false, new Set());
};

const keys = [
  ["↑ ↓ j k", "move in a list"], ["Shift+↑ ↓", "compare two snapshots"], ["Enter", "open, or unfold turns"], ["n p", "next, previous file"],
  ["x", "fold the file"], ["s", "side by side"], ["/", "search snapshots"], ["f", "filter files"], ["t", "timeline"], ["c", "changed files"], ["v", "contents"],
  ["1 – 4", "File, Diff, History, Events of the file"], ["g", "forks"], ["[ ]", "workspace before, after"], ["S", "snapshot now"], ["r", "restore what is selected"],
  ["Esc", "back, or close"], ["?", "this list"],
];
const help = () => ask("Keyboard", [el("dl", { class: "keys" }, ...keys.flatMap(([k, what]) => [el("dt", {}, ...k.split(" ").map((x) => el("kbd", {}, x))), el("dd", {}, what)]))], []);
$("help-button").addEventListener("click", help);
$("snapshot-button").addEventListener("click", () => actions.snapshotNow().catch(failed));
$("forks-button").addEventListener("click", () => { show("forks"); drawForks(); });

document.addEventListener("keydown", (e) => {
  if (e.target.closest("input, select, textarea, dialog, [popover]") || e.ctrlKey || e.metaKey || e.altKey) return;
  const turn = (step) => {
    const tabs = [...$("workspaces").children];
    tabs[(tabs.findIndex((b) => b.ariaSelected === "true") + step + tabs.length) % tabs.length]?.click();
  };
  const focus = (id, pane) => { page.pane(pane); $(id).focus(); };
  const tab = (i) => (view === "file" ? file.show(i) : changes.current && page.file(changes.current, changes.at, ["File", "Diff", "History", "Events"][i]));
  const run = {
    "/": () => focus("search", "timeline"), f: () => focus("filter", "tree"), t: () => focus("snapshots", "timeline"), c: () => focus("files", "tree"),
    v: () => focus(view === "file" ? "view" : "diffs", "changes"), n: () => changes.step(1), p: () => changes.step(-1),
    x: () => document.querySelector(`article[data-path="${CSS.escape(changes.current?.path || "")}"] .fold`)?.click(),
    1: () => tab(0), 2: () => tab(1), 3: () => tab(2), 4: () => tab(3), g: () => $("forks-button").click(),
    s: () => changes.turn(), "[": () => turn(-1), "]": () => turn(1), "?": help,
    Escape: () => (view === "changes" ? page.pane("timeline") : show("changes")),
    S: () => store.writes && actions.snapshotNow().catch(failed),
    r: () => store.writes && changes.at?.one && actions.restore(changes.at.one).catch(failed),
  }[e.key];
  if (run) { e.preventDefault(); run(); }
});

start();
