// What the buttons do. Each that changes files shows first what it will do.
import { apply, call, currentWorkspace } from "./api.js";
import { ask, bytes, chip, count, during, el, message, pathOf, spelledOut, visible } from "./dom.js";
import { tableOf } from "./diff.js";
import { named, page, spelled, store, titleOf } from "./store.js";
const will = { deleted: ["D", "will be deleted"], modified: ["M", "will be overwritten"], created: ["A", "will be created"] };
const main = { workspace: "" };
const p = (...parts) => el("p", ...parts);
const safe = () => el("p.faint", "The present state is kept first: this can be undone.");
const nameOf = (x) => visible(x.raw ? spelledOut(x.raw) : x.path);
// box is a tick that is set unless its value is in a set.
const box = (label, set, value) => el("input", { type: "checkbox", checked: !set.has(value), "aria-label": label,
  onchange: (e) => { if (e.target.checked) set.delete(value); else set.add(value); } });
// partsOf are the parts of a file, once they are opened: show draws them.
const partsOf = (x, parts, show) => {
  const into = el("div"), draw = () => show(x, into).catch((error) => into.replaceChildren(p(error.message)));
  return el("details", { ontoggle: (e) => e.target.open && !parts.has(x.path) && draw() }, el("summary", { "aria-label": `Parts of ${nameOf(x)}` }, "Parts"), into);
};
// mergeParts shows what a fork changed in a file, with a box for each part, and notes in parts those that are left.
const mergeParts = (args, options, parts) => async (x, into) => {
  const found = await call("conflict", { fork: args.fork, path: pathOf(x) }, options), off = new Set();
  const all = found.parts || [], theirs = all.some((part) => part.kind === "conflict") ? [] : all.filter((part) => part.kind === "theirs");
  parts.set(x.path, { found, off, theirs, x });
  const lines = (op, side) => side.map((text) => ({ op, text: text.replace(/\n$/, "") }));
  const hunk = (part) => ({ old_start: 1 + before(part, "ours"), new_start: 1 + before(part, "theirs"), lines: [...lines("-", part.ours), ...lines("+", part.theirs)] });
  const before = (part, side) => all.slice(0, all.indexOf(part)).reduce((n, x) => n + x[side].length, 0);
  into.replaceChildren(...theirs.map((part, i) => el("div", el("label.check", box(`Merge part ${i + 1} of ${nameOf(x)}`, off, part), `Part ${i + 1}`),
    tableOf(hunk(part)))), theirs.length ? "" : p("It has no parts to choose from."));
};
// chooseParts gives a merge the texts of the files of which some parts are left; a file of which all are left is kept.
function chooseParts(args, parts, keep) {
  for (const [path, { found, off, theirs, x }] of parts) {
    if (!off.size || keep.has(x) || args.contents?.[path]) continue;
    const text = found.parts.flatMap((part) => (part.kind === "theirs" && !off.has(part) ? part.theirs : part.ours)).join("");
    if (off.size === found.parts.filter((part) => part.kind !== "same").length) keep.add(x);
    else args.contents = { ...args.contents, [path]: { of: found.of, text } };
  }
}
// plan lists what will change, deletions first.
function plan(found, keep, more = () => false) {
  const order = Object.keys(will), all = found.paths || [], n = (action) => all.filter((x) => x.action === action).length;
  const shown = [...all].sort((x, y) => order.indexOf(x.action) - order.indexOf(y.action)).slice(0, 500);
  const parts = found.more ? "" : order.filter(n).map((a) => `${n(a).toLocaleString()} ${will[a][1]}`).join(", ");
  const others = found.shared?.length && `Others changed ${count(found.shared.length, "of these paths", "of these paths")} at the same time: their changes go too.`;
  return [p({ id: "about" }, el("strong", `${count(found.changed, "file")} will change${parts ? ": " : "."}`), parts && `${parts}.`),
    others && el("p.warn", others), found.kept?.length && el("p.kept", `Kept as it is: ${found.kept.map(visible).join(", ")}`),
    keep && p("Files that you untick are kept as they are."),
    el("ul.plan", { tabindex: 0, "aria-label": "What will change" }, ...shown.map((x) => el("li.path", keep && box(`Change ${nameOf(x)}`, keep, x), el("span", { class: `status ${will[x.action][0]}` }, will[x.action][0]), nameOf(x), more(x))),
      found.changed > shown.length && el("li", `and ${found.changed - shown.length} more`)), safe()];
}
// perform previews an operation, runs it when the user agrees, and says what it did. Then it returns true.
async function perform(title, verb, op, args, options, done) {
  const found = await during("Computing what will change …", call(op, { ...args, dry_run: true }, options));
  if (!found.changed) { message(found.kept ? `Kept as it is: ${found.kept.join(", ")}` : "No file would change."); return false; }
  const keep = /^(restore|undo-by|merge)$/.test(op) && !args.paths ? new Set() : undefined;
  const parts = new Map(), show = mergeParts(args, options, parts);
  const more = (x) => op === "merge" && x.action === "modified" && !x.raw && partsOf(x, parts, show);
  if (await ask(title, plan(found, keep, more).filter(Boolean), [[verb, "yes", "primary"]]) !== "yes") return false;
  if (keep) chooseParts(args, parts, keep);
  if (keep?.size) args.keep = [...(args.keep || []), ...[...keep].map(pathOf)];
  await finish(await during(`Changing ${count(found.changed, "file")} …`, call(op, args, options)), done, options);
  return true;
}
async function finish(result, done, options = {}) {
  const run = () => call("restore", { name: result.undo }, options).then((undone) => finish(undone, "Undone"));
  message(`${done}: ${count(result.changed, "file")} changed.`, { action: result.undo && { label: "Undo", run } });
  if (result.later) message(`${result.actor} has changed more since; these changes stay.`);
  return page.changed();
}
export const restore = (name, file) => perform(`Restore ${visible(file ? file.path : titleOf(name))}?`, "Restore", "restore",
  { name, paths: file && [pathOf(file)] }, {}, file ? `Restored ${file.path} from ${name}` : `Restored ${titleOf(name)}`);
// A file of a comparison with the present is restored from the older end, else from the newer.
export const restoreFile = (file, { a, b }) => restore(b === "" ? a : b, file);
export async function restoreHunk({ file, a, b }, h) {
  const lines = (op) => h.lines.filter((l) => l.op === op).length, args = { name: a, b, path: pathOf(file), id: h.id };
  const turned = h.lines.map((l) => ({ ...l, op: { "+": "-", "-": "+" }[l.op] || l.op }));
  await call("restore-hunk", { ...args, dry_run: true });
  const answer = await ask(`Restore lines of ${visible(file.path)}?`, [
    p({ id: "about" }, el("strong", `${count(lines("+"), "line")} will be replaced by ${count(lines("-"), "line")} of ${visible(spelled(a))}.`)),
    el("div.plan", { tabindex: 0, role: "region", "aria-label": "What will change" },
      tableOf({ ...h, old_start: h.new_start, new_start: h.old_start, lines: turned })), safe()], [["Restore hunk", "yes", "primary"]]);
  if (answer === "yes") await finish(await call("restore-hunk", args), `Restored lines of ${file.path}`);
}
// decided runs something. The conflicts that it fails with are decided in the way of how.
const decided = async (run, how) => {
  try { return await run(); } catch (e) { if (!e.result?.conflicts?.length) throw e; page.conflicts(e.result.conflicts, how); return false; }
};
export const undoBy = (actor, ways = {}) => decided(() => perform(`Undo what ${visible(actor)} changed?`, "Undo", "undo-by",
  { by: actor, ...ways }, {}, `Undid the changes by ${actor}`), {
  title: `Undo what ${visible(actor)} changed`, verb: "Undo", of: { by: actor, since: ways.since },
  names: { base: `As ${visible(actor)} left it`, ours: "Now", theirs: `Without ${visible(actor)}` },
  go: async (sides, contents, all) => {
    const keep = Object.keys(sides).filter((path) => sides[path] === "ours");
    if (await undoBy(actor, { ...ways, ...(all || { theirs: true, keep, contents }) })) page.show("changes", "changes", "conflicts");
  },
});
// form asks for some texts, and closes when act has taken them. It returns what done needs.
async function form(title, verb, fields, act, note) {
  const inputs = fields.map(([, attributes]) => el("input", { autocomplete: "off", ...attributes }));
  const body = fields.map(([label], i) => el("label", label, inputs[i]));
  let made;
  await ask(title, [note && p(note), ...body], [[verb, "yes", "primary"]], async () => { made = await act(...inputs.map((i) => i.value)); });
  if (made) await done(...made);
}
async function done(words, undo) {
  message(words, { action: undo && { label: "Undo", run: () => undo().then(page.changed) } });
  await page.changed();
}
const nameField = { id: "new-name", maxlength: 128 };
export const snapshotNow = () => form("Snapshot now", "Take snapshot", [["Message", { id: "new-message" }], ["Name (optional)", nameField]],
  async (text, name) => [`Snapshot ${(await call("snapshot", { name, message: text })).name} taken.`]);
export const fork = (snapshot) => form(`Fork ${visible(titleOf(snapshot))}`, "Fork",
  [["Name", nameField], ["Delete it after (empty: never)", { placeholder: "7d" }]],
  async (name, ttl) => [`Fork ${name} created at ${(await call("fork", { name, snapshot, ttl })).path}.`]);
const rename = (from) => form(`Rename ${visible(from)}`, "Rename", [["New name", { ...nameField, value: from }]], async (to) => {
  await call("rename", { from, to });
  return [`${from} is now called ${to}.`, () => call("rename", { from: to, to: from })];
}, "1 snapshot will have another name. Its files stay as they are.");
const sure = (verb, name, words, kind = "primary") => ask(`${verb} ${visible(name)}?`, [p({ id: "about" }, words)], [[verb, "yes", kind]]);
async function pin({ name, pinned }) {
  const set = (on) => call("pin", { names: [name], pinned: on });
  const will = `1 snapshot will ${pinned ? "be deleted when the policy says so" : "be kept: neither the policy nor a person will delete it"}.`;
  if (!await sure(pinned ? "Unpin" : "Pin", name, will)) return;
  await set(!pinned);
  await done(pinned ? `${name} can be deleted again.` : `${name} is pinned.`, () => set(pinned));
}
async function remove(name) {
  const will = `1 snapshot will be deleted, with ${count(named(name)?.files || 0, "file")}. This cannot be undone.`;
  if (!await sure("Delete", name, will, "danger")) return;
  await call("remove", { names: [name] });
  await done(`${name} is deleted.`);
}
export const merge = (name, ways = {}) => decided(() => perform(`Merge ${visible(name)} into main?`, "Merge", "merge",
  { fork: name, ...ways }, main, `Merged ${name}`), {
  title: `Merge ${visible(name)} into main`, verb: "Merge", of: { fork: name }, options: main, names: { base: "Base", ours: "main", theirs: visible(name) },
  go: async (resolve, contents, all) => { if (await merge(name, all || { resolve, contents })) page.show("changes", "changes", "conflicts"); },
});
// picked is the list of what an apply changes, with a box for each file and, once they are shown, for its parts.
function picked(found, options) {
  const left = new Set(), parts = new Map(), files = new Map(); // what is left, the hunks that are looked at, by path
  for (const x of found.paths) {
    const git = /^(?:.*\/)?\.git(?=\/|$)/.exec(x.path)?.[0];
    if (!files.has(git || x.path)) files.set(git || x.path, git ? { path: git, action: "modified", git } : x);
  }
  const show = async (x, into) => {
    const { hunks = [] } = await apply({ parts: pathOf(x), dry_run: true }, options), off = new Set();
    parts.set(x.path, { hunks, off });
    into.replaceChildren(...hunks.map((h, i) => el("div", el("label.check", box(`Apply part ${i + 1} of ${nameOf(x)}`, off, h.id), `Part ${i + 1}`),
      tableOf(h))), hunks.length ? "" : p("It has no parts."));
  };
  const row = (x) => el("li.path", box(`Apply ${nameOf(x)}`, left, x), el("span", { class: `status ${will[x.action][0]}` }, will[x.action][0]),
    x.git ? `${nameOf(x)}, with its commits` : nameOf(x), x.action === "modified" && !x.git && !x.raw && partsOf(x, parts, show));
  const all = [...files.values()], shown = all.slice(0, 500);
  const choice = () => {
    const hunks = {}, leave = [...left];
    for (const [path, { hunks: list, off }] of parts) {
      if (off.size === list.length && off.size) leave.push(files.get(path));
      else if (off.size) hunks[path] = list.map((h) => h.id).filter((id) => !off.has(id));
    }
    return { leave: leave.map(pathOf), hunks };
  };
  return [choice, el("ul.plan", { tabindex: 0, "aria-label": "What will change" }, ...shown.map(row),
    all.length > shown.length && el("li", `and ${all.length - shown.length} more`))];
}
// applyTo writes what a workspace changed to the directory that it was filled from: all, or what is ticked.
export async function applyTo(workspace, ways = {}) {
  const options = { workspace }, dir = visible(store.dir), title = `Apply ${visible(workspace || "main")} to ${dir}?`;
  const found = await during("Computing what will change …", apply({ ...ways, dry_run: true }, options)).catch(async (e) => {
    if (!e.result?.conflicts?.length || ways.ours || ways.theirs) throw e;
    const side = await ask(title, [p({ id: "about" }, `${count(e.result.conflicts.length, "path")} changed in ${dir}, too. Nothing changed yet.`),
      el("ul.plan", { tabindex: 0, "aria-label": "Conflicts" }, ...e.result.conflicts.map((x) => el("li.path", visible(x))))],
    [[`Keep those of ${dir}`, "ours"], ["Take those of the workspace", "theirs", "danger"]]);
    if (side) await applyTo(workspace, { [side]: true });
    return null;
  });
  if (!found) return;
  if (!found.changed && (!found.left_out || ways.no_ignore)) { message(`${store.dir} has all of it.`); return; }
  const [choice, list] = picked(found, options);
  const about = p({ id: "about" }, el("strong", `${count(found.changed, "file")} of ${dir} will change.`), " What you untick stays as it is there.");
  const left = found.left_out && p(`Left out (.amberignore, and what amberfs wrote for agents): ${found.left_out.map(visible).join(", ")}`);
  const hidden = found.hidden && p(`Hidden paths, which stay as they are: ${found.hidden.map(visible).join(", ")}`);
  const careful = (found.executes || []).map((x) => p({ class: "warn" }, `Careful, other programs execute this: ${nameOf({ path: x })}`));
  const buttons = [found.changed && ["Apply", "yes", "primary"], left && !ways.no_ignore && ["Also take what is left out", "all"]].filter(Boolean);
  const answer = await ask(title, [about, left, hidden, list, ...careful.slice(0, 20), careful.length > 20 && p(`and ${careful.length - 20} more.`), p("The workspace keeps everything.")], buttons);
  if (answer === "all") await applyTo(workspace, { ...ways, no_ignore: true });
  if (answer !== "yes") return;
  const done = await during("Applying …", apply({ ...ways, ...choice() }, options));
  message(`Applied to ${store.dir}: ${count(done.changed, "file")} changed.`);
  await page.changed();
}
// markRun removes a run, or has it back.
export async function markRun({ name, changed }, state) {
  const set = (to) => apply({ mark: to }, { workspace: name });
  if (state === "removed" && !await sure("Remove", name, `It has ${count(changed, "changed file")}. For a day it can be had back.`, "danger")) return;
  await set(state);
  await done(state === "removed" ? `${name} is removed.` : `${name} is kept.`, () => set(state === "removed" ? "kept" : "removed"));
}
export async function endFork(name, discard) {
  const f = store.forks.find((x) => x.name === name);
  const changed = f ? `It has ${count(f.changed, "changed file")}${f.more ? " or more" : ""}. ` : "";
  const lost = discard ? "No snapshot is kept. `amberfs undo` restores it for a day." : "Its last state will be kept as a snapshot.";
  if (!await sure(discard ? "Discard" : "End", name, changed + lost, discard ? "danger" : "primary")) return;
  page.leaving = name;
  const { snapshot } = await call("delete-fork", { name, discard }, main);
  const run = () => call("fork", { name, snapshot }, main).then(() => page.changed());
  message(discard ? `${name} is discarded.` : `${name} has ended.`, { action: snapshot && { label: "Undo", run } });
  if (currentWorkspace() === name) await page.enter(""); else await page.changed();
}
// forget shows where a file is, and removes it from all snapshots when the user agrees.
export async function forget(file) {
  const args = { paths: [pathOf(file)] }, title = `Forget ${nameOf(file)} in all snapshots?`;
  const found = await during("Searching all snapshots …", call("forget", { ...args, dry_run: true }, main));
  const list = (places = []) => el("ul.plan", ...places.map((x) => el("li.path", `${visible(x.path)} of ${visible(x.workspace)}`,
    x.snapshots?.length > 0 && el("span.faint", ` in ${count(x.snapshots.length, "snapshot")}`), x.now && el("span.faint", " now"))));
  const body = [p(el("strong", `${count(found.snapshots.length, "snapshot")} will be rewritten. This cannot be undone.`)), list(found.removed),
    found.kept && p("These files stay, with the same bytes:"), found.kept && list(found.kept), ...found.cannot.map((x) => p("Not removed: ", x))];
  if (await ask(title, body.filter(Boolean), [["Forget", "yes", "danger"]]) !== "yes") return;
  const done = await during("Erasing the bytes …", call("forget", args, main));
  message(`${nameOf(file)} is forgotten in ${count(done.snapshots.length, "snapshot")}, receipt ${done.number}.${done.erased ? "" : " A program still uses the bytes: gc erases them."}`);
  await page.changed();
}
// handOff shows what would travel to another machine and what stays here, sends it, and shows the line for there.
export async function handOff() {
  const found = await during("Looking at what would travel …", call("handoff", { dry_run: true }));
  const about = p({ id: "about" }, el("strong", `${count(found.files, "file")} of ${bytes(found.bytes)} would travel by ${visible(found.remote)}, ${bytes(found.sent)} to send.`));
  const left = found.left_out.slice(0, 500).map((x) => el("li.path", visible(x)));
  const body = [about, p(left.length ? "The policy leaves out:" : "The policy leaves nothing out."), el("ul.plan", ...left)];
  if (await ask("Hand off to another machine?", body, [["Hand off", "yes", "primary"]]) !== "yes") return;
  const done = await during("Sending …", call("handoff", { remote: found.remote }));
  const until = p({ id: "about" }, `Type this on the other machine. It works once, until ${new Date(done.expires).toLocaleString()}.`);
  await ask("Handed off", [until, el("pre", { id: "line" }, `${done.line} PATH`), p("Then `amberfs handoff --back` there, and Merge what came back here.")], []);
  await page.changed();
}
export const handBack = () => perform("Merge what came back?", "Merge", "handoff-back", {}, {}, "Merged what came back");
// itemsFor are the lines of the menu of a snapshot, actorItems those of an actor.
export const itemsFor = (s) => [["Fork from here …", () => fork(s.name)], [s.pinned ? "Unpin" : "Pin", () => pin(s)],
  ["Rename …", () => rename(s.name)], ["Delete …", () => remove(s.name), "danger"]];
export const actorItems = (actor, only, since) => [[el("span", "Changes by ", chip(actor))], ["Show only these files", () => only(actor)],
  store.writes && since && [`Undo what ${visible(actor)} did after this …`, () => undoBy(actor, { since }), "danger"],
  store.writes && [`Undo everything by ${visible(actor)} …`, () => undoBy(actor), "danger"]];
