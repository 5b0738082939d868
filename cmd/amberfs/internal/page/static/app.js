// The page: what is selected on the left decides what the middle lists, and
// what is selected there decides what the right shows.

import { call, session, follow, useWorkspace, currentWorkspace } from "./api.js";
import { $, ask, count, el, failed, message, visible } from "./dom.js";
import { Timeline } from "./timeline.js";
import { Files } from "./files.js";
import { Detail } from "./detail.js";

let writes = false;
let stopFollowing = () => {};
let pair = ["base", ""]; // what the middle compares
let loading = null;

const detail = new Detail();
const files = new Files((file) => { detail.open(file, ...pair); fileActions(file); });
const timeline = new Timeline((chosen) => select(chosen));

async function start() {
  try {
    const s = await session();
    writes = s.write;
    $("where").textContent = visible(s.mountpoint);
    document.title = `amberfs ${s.mountpoint}`;
    await show(s.workspace);
  } catch (e) {
    detail.clear(e.status === 401 ? "This page needs the address that `amberfs ui` printed." : e.message);
    failed(e);
  }
}

// show turns to a workspace: main is "".
async function show(workspace) {
  useWorkspace(workspace);
  timeline.present = { counts: null, last: "" };
  stopFollowing();
  const streams = [follow(happened, lost)];
  if (workspace) streams.push(follow(happenedInMain, () => {}, "")); // forks end there
  stopFollowing = () => streams.forEach((stop) => stop());
  await Promise.all([loadForks(), loadSnapshots()]);
  timeline.choose({ name: "", now: true });
  timeline.show();
}

function lost(e) {
  if (e.status === 404 && currentWorkspace()) { leave(); return; }
  timeline.present.last = "not connected; trying again";
  timeline.show();
}

// leave turns from a fork that has ended to main.
function leave() {
  message(`${currentWorkspace()} has ended.`);
  show("").catch(failed);
}

async function loadSnapshots() {
  timeline.set((await call("list")).snapshots || []);
}

async function loadForks() {
  const { forks } = await call("forks", {}, { workspace: "" });
  const now = currentWorkspace();
  if (now && !now.includes("/") && !(forks || []).some((f) => f.name === now)) { leave(); return; }
  const tab = (name, label) => el("button", {
    type: "button", role: "tab", "aria-selected": String(name === now), tabindex: name === now ? 0 : -1,
    onclick: () => show(name).catch(failed),
    onkeydown: (e) => {
      const next = { ArrowRight: "nextElementSibling", ArrowLeft: "previousElementSibling" }[e.key];
      if (next) e.currentTarget[next]?.focus();
    },
  }, visible(label));
  $("workspaces").replaceChildren(tab("", "main"), ...(forks || []).map((f) => tab(f.name, `⑂ ${f.name}`)));
  workspaceActions();
}

// select lists what one snapshot changed, or how two differ.
async function select(chosen) {
  pair = chosen.length === 2 ? order(chosen) : [timeline.before(chosen[0]), chosen[0]];
  workspaceActions();
  $("file-actions").replaceChildren();
  loading?.abort();
  loading = new AbortController();
  const { signal } = loading;
  detail.clear("Choose a file.");
  try {
    const query = { a: pair[0], b: pair[1] };
    let found = await call("changes", { ...query, limit: 300, quick: true }, { signal });
    files.set(found.paths || [], found.more ? Infinity : found.files);
    if (found.more) {
      found = await call("changes", { ...query, limit: 20000 }, { signal });
      files.set(found.paths || [], found.files);
    }
    if (pair[1] === "") { timeline.present.counts = found.files; timeline.rows.redraw(); }
    if (!found.files) detail.clear("No differences.");
  } catch (e) {
    if (signal.aborted) return;
    files.set([]);
    failed(e);
  }
}

// order puts the older of two first.
function order([a, b]) {
  const seq = (n) => (n === "" ? Infinity : timeline.named(n)?.seq ?? 0);
  return seq(a) <= seq(b) ? [a, b] : [b, a];
}

const history = new Set(["captured", "removed", "renamed-snapshot", "expired", "restored", "merged", "forked", "renamed-fork", "fork-deleted", "pushed", "pulled"]);
let due = null;

// happened takes an event from the daemon. Many at once are one look.
function happened(event) {
  const who = event.command ? ` by ${event.command}${event.pid ? ` (${event.pid})` : ""}` : "";
  timeline.present.last = `${event.action} ${event.path === "." ? "" : event.path || ""}${who}`;
  due ??= { history: false };
  due.history ||= history.has(event.action);
  if (due.timer) return;
  due.timer = setTimeout(async () => {
    const all = due.history;
    due = null;
    try {
      if (all) await Promise.all([loadForks(), loadSnapshots()]);
      if (timeline.chosen.length === 1 && timeline.chosen[0] === "") await refreshNow();
      else await countNow();
    } catch (e) { failed(e); }
  }, 300);
}

function happenedInMain(event) {
  if (["forked", "renamed-fork", "fork-deleted"].includes(event.action)) loadForks().catch(failed);
}

// countNow counts what changed since the newest snapshot, while something else is shown.
async function countNow() {
  const found = await call("changes", { a: timeline.before(""), limit: 1 });
  timeline.present.counts = found.files;
  timeline.rows.redraw();
}

// refreshNow looks again at what changed, and leaves what is being read alone.
async function refreshNow() {
  loading?.abort();
  loading = new AbortController();
  const { signal } = loading;
  pair = [timeline.before(""), ""];
  const found = await call("changes", { a: pair[0], limit: 20000 }, { signal });
  timeline.present.counts = found.files;
  files.set(found.paths || [], found.files);
  timeline.rows.redraw();
}

const button = (label, run, kind = "") => el("button", { type: "button", class: kind, onclick: () => Promise.resolve(run()).catch(failed) }, label);

function workspaceActions() {
  const row = $("actions");
  row.replaceChildren();
  if (!writes) return;
  row.append(button("Snapshot now", snapshotNow, "primary"));
  const chosen = timeline.chosen.length === 1 && timeline.named(timeline.chosen[0]);
  if (chosen) {
    row.append(
      button("Restore all", () => restore(chosen.name)),
      button(chosen.pinned ? "Unpin" : "Pin", async () => {
        await call("pin", { names: [chosen.name], pinned: !chosen.pinned });
        await loadSnapshots();
        workspaceActions();
      }),
      button("Rename", () => rename(chosen.name)),
      button("Delete", () => remove(chosen.name), "danger"));
  }
  if (currentWorkspace() !== "") {
    row.append(button("Merge", () => promote(currentWorkspace())),
      button("End", () => endFork(currentWorkspace(), false)),
      button("Discard", () => endFork(currentWorkspace(), true), "danger"));
  }
}

function fileActions(file) {
  const row = $("file-actions");
  row.replaceChildren();
  if (!writes) return;
  const from = pair[1] === "" ? pair[0] : pair[1];
  row.append(button(`Restore this ${file.dir ? "directory" : "file"} from ${visible(from)}`, () => restore(from, file.path)));
}

const undo = (name) => ({ label: "Undo", run: () => restoreNow(name).catch(failed) });

async function restoreNow(name, paths) {
  const done = await call("restore", { name, paths });
  message(done.changed ? `Restored ${name}: ${count(done.changed, "path")} changed.` : "No file changed.",
    { action: done.undo ? undo(done.undo) : undefined });
  await loadSnapshots();
  await Promise.all([select(timeline.chosen), countNow()]);
}

// restore shows what it would change before it does.
async function restore(name, path) {
  const paths = path ? [path] : undefined;
  const plan = await call("restore", { name, paths, dry_run: true });
  const kept = plan.kept ? `Kept as it is: ${plan.kept.map(visible).join(", ")}` : "";
  if (!plan.changed) { message(kept || "No differences."); return; }
  const shown = plan.paths.slice(0, 200);
  const answer = await ask(`Restore ${visible(path || "everything")} from ${visible(name)}?`, [
    el("p", {}, `${count(plan.changed, "path")} will change. The present state is kept first.`),
    kept && el("p", {}, kept),
    el("ul", { tabindex: 0 }, ...shown.map((p) => el("li", { class: "path" }, `${p.action} ${visible(p.path)}`)),
      plan.changed > shown.length && el("li", {}, `… and ${(plan.changed - shown.length).toLocaleString()} more`)),
  ], [{ label: "Restore", value: "yes", class: "primary" }]);
  if (answer === "yes") await restoreNow(name, paths);
}

async function snapshotNow() {
  const name = el("input", { id: "new-name", maxlength: 128, autocomplete: "off" });
  const text = el("input", { id: "new-message" });
  let made;
  await ask("Snapshot now", [el("label", {}, "Name (none: a number) ", name), el("label", {}, "Message ", text)],
    [{ label: "Take it", value: "yes", class: "primary" }],
    async () => { made = await call("snapshot", { name: name.value, message: text.value }); });
  if (!made) return;
  message(`Snapshot ${made.name} taken.`);
  await loadSnapshots();
  await countNow();
}

async function rename(from) {
  const name = el("input", { id: "new-name", maxlength: 128, value: from, autocomplete: "off" });
  const answer = await ask(`Rename ${visible(from)}`, [el("label", {}, "New name ", name)], [{ label: "Rename", value: "yes", class: "primary" }],
    async () => { if (name.value !== from) await call("rename", { from, to: name.value }); });
  if (answer !== "yes" || name.value === from) return;
  const back = () => call("rename", { from: name.value, to: from }).then(loadSnapshots).catch(failed);
  message(`${from} is ${name.value}.`, { action: { label: "Undo", run: back } });
  timeline.chosen = [name.value];
  await loadSnapshots();
  workspaceActions();
}

async function remove(name) {
  const s = timeline.named(name);
  const answer = await ask(`Delete ${visible(name)}?`, [el("p", {}, `${count(s?.files || 0, "file")} as they were then cannot be restored from it. This cannot be undone.`)],
    [{ label: "Delete", value: "yes", class: "danger" }]);
  if (answer !== "yes") return;
  await call("remove", { names: [name] });
  message(`${name} is deleted.`);
  await loadSnapshots();
  timeline.choose({ name: "", now: true });
}

// promote merges a fork; where both sides changed a path, who asks decides.
async function promote(fork) {
  const at = { workspace: "" };
  let done;
  try {
    done = await call("merge", { fork }, at);
  } catch (e) {
    const conflicts = e.result?.conflicts || [];
    if (!conflicts.length) throw e;
    const answer = await ask(`Both sides changed ${count(conflicts.length, "path")}`, conflicts.map((p, i) => el("fieldset", {},
      el("legend", { class: "path" }, visible(p)),
      el("label", {}, el("input", { type: "radio", name: `c${i}`, value: "ours", checked: true }), " keep the workspace's"),
      el("label", {}, el("input", { type: "radio", name: `c${i}`, value: "theirs" }), ` take ${visible(fork)}'s`))),
    [{ label: "Merge", value: "yes", class: "primary" }]);
    if (answer !== "yes") return;
    const resolve = {};
    conflicts.forEach((p, i) => { resolve[p] = $("dialog").querySelector(`[name=c${i}]:checked`).value; });
    done = await call("merge", { fork, resolve }, at);
  }
  await show("");
  message(`Merged ${fork}: ${count(done.changed, "path")} changed.`, { action: done.undo ? undo(done.undo) : undefined });
}

async function endFork(fork, discard) {
  const answer = await ask(`${discard ? "Discard" : "End"} ${visible(fork)}?`,
    [el("p", {}, discard ? "Nothing is kept." : "Its last state is kept as a snapshot.")],
    [{ label: discard ? "Discard" : "End", value: "yes", class: discard ? "danger" : "primary" }]);
  if (answer !== "yes") return;
  stopFollowing();
  await call("delete-fork", { name: fork, discard }, { workspace: "" });
  await show("");
  message(discard ? `${fork} is discarded.` : `${fork} has ended.`);
}

const keys = [
  ["/", "search snapshots"], ["f", "filter files"], ["t", "the timeline"], ["c", "the changed files"], ["v", "the contents"],
  ["↑ ↓ j k", "move"], ["Shift+click", "compare two snapshots"], ["1 – 4", "Diff, File, History, Events"], ["s", "side by side"],
  ["[ ]", "the workspace or fork before, after"], ["n", "snapshot now"], ["r", "restore what is selected"], ["?", "this list"], ["Esc", "close"],
];

const help = () => ask("Keyboard", [el("dl", {}, ...keys.flatMap(([k, what]) => [el("dt", {}, k), el("dd", {}, what)]))], []);
$("help-button").addEventListener("click", help);

document.addEventListener("keydown", (e) => {
  if (e.target.closest("input, select, textarea, dialog") || e.ctrlKey || e.metaKey || e.altKey) return;
  const turn = (step) => {
    const tabs = [...$("workspaces").children];
    tabs[(tabs.findIndex((b) => b.ariaSelected === "true") + step + tabs.length) % tabs.length]?.click();
  };
  const run = {
    "/": () => $("search").focus(), f: () => $("filter").focus(), t: () => $("snapshots").focus(), c: () => $("files").focus(), v: () => $("view").focus(),
    1: () => detail.show("Diff"), 2: () => detail.show("File"), 3: () => detail.show("History"), 4: () => detail.show("Events"),
    s: () => $("sides").click(), "[": () => turn(-1), "]": () => turn(1), "?": help,
    n: () => writes && snapshotNow().catch(failed),
    r: () => writes && timeline.chosen[0] && restore(timeline.chosen[0]).catch(failed),
  }[e.key];
  if (run) { e.preventDefault(); run(); }
});

start();
