// What the buttons do. Each that changes files shows first what it will do.

import { call, currentWorkspace } from "./api.js";
import { ask, chip, count, el, failed, message, pathOf, visible } from "./dom.js";
import { blocksOf } from "./diff.js";
import { named, page, spelled, store, titleOf } from "./store.js";

const will = { deleted: ["D", "will be deleted"], modified: ["M", "will be overwritten"], created: ["A", "will be created"] };
const undo = (name) => name && { label: "Undo", run: () => restoreNow(name).catch(failed) };
const field = (label, attributes) => {
  const input = el("input", { autocomplete: "off", ...attributes });
  return [el("label", {}, label, input), input];
};

// plan lists what will change, deletions first.
function plan(found) {
  const order = Object.keys(will);
  const paths = [...found.paths || []].sort((a, b) => order.indexOf(a.action) - order.indexOf(b.action)).slice(0, 500);
  const n = (action) => (found.paths || []).filter((p) => p.action === action).length;
  const parts = found.more ? "" : order.filter(n).map((a) => `${n(a).toLocaleString()} ${will[a][1]}`).join(", ");
  return [
    el("p", {}, el("strong", {}, `${count(found.changed, "file")} will change${parts ? ": " : "."}`), parts && `${parts}.`),
    found.shared?.length && el("p", { class: "warn" }, `Others changed ${count(found.shared.length, "of these paths", "of these paths")} at the same time: their changes go too.`),
    found.kept?.length && el("p", { class: "kept" }, `Kept as it is: ${found.kept.map(visible).join(", ")}`),
    el("ul", { class: "plan", tabindex: 0, "aria-label": "What will change" },
      ...paths.map((p) => el("li", { class: `path ${p.action}` }, el("span", { class: `status ${will[p.action][0]}` }, will[p.action][0]), visible(p.path))),
      found.changed > paths.length && el("li", {}, `and ${(found.changed - paths.length).toLocaleString()} more`)),
    el("p", { class: "faint" }, "The present state is kept first: this can be undone."),
  ].filter(Boolean);
}

// perform previews an operation, runs it when the user agrees, and says what it did.
async function perform(title, verb, op, args, options, done) {
  const found = await call(op, { ...args, dry_run: true }, options);
  if (!found.changed) { message(found.kept ? `Kept as it is: ${found.kept.join(", ")}` : "No file would change."); return; }
  if (await ask(title, plan(found), [{ label: verb, value: "yes", class: "primary" }]) !== "yes") return;
  await finish(await call(op, args, options), done);
}

async function finish(result, done) {
  message(`${done}: ${count(result.changed, "file")} changed.`, { action: undo(result.undo) });
  if (result.later) message(`${result.actor} has changed more since; these changes stay.`);
  await page.changed();
}

const restoreNow = async (name) => finish(await call("restore", { name }), `Restored ${titleOf(name)}`);

export const restore = (name, file) => perform(`Restore ${visible(file ? file.path : titleOf(name))}?`, "Restore", "restore",
  { name, paths: file && [pathOf(file)] }, {}, file ? `Restored ${file.path} from ${name}` : `Restored ${name}`);

// A file of a comparison with the present is restored from the older end, else from the newer.
export const restoreFile = (file, { a, b }) => restore(b === "" ? a : b, file);

export async function restoreHunk({ file, a, b }, h) {
  const count_ = (op) => h.lines.filter((l) => l.op === op).length;
  const back = { ...h, old_start: h.new_start, new_start: h.old_start, lines: h.lines.map((l) => ({ ...l, op: { "+": "-", "-": "+" }[l.op] || l.op })) };
  const args = { name: a, b, path: pathOf(file), id: h.id };
  await call("restore-hunk", { ...args, dry_run: true });
  const answer = await ask(`Restore these lines of ${visible(file.path)}?`, [
    el("p", {}, el("strong", {}, `${count(count_("+"), "line")} will be replaced by ${count(count_("-"), "line")} of ${visible(spelled(a))}.`)),
    el("div", { class: "plan" }, blocksOf(back)), el("p", { class: "faint" }, "The present state is kept first: this can be undone.")],
  [{ label: "Restore hunk", value: "yes", class: "primary" }]);
  if (answer === "yes") await finish(await call("restore-hunk", args), `Restored lines of ${file.path}`);
}

export async function undoBy(actor, ways = {}) {
  try {
    await perform(`Undo what ${visible(actor)} changed?`, "Undo", "undo-by", { by: actor, ...ways }, {}, `Undid the changes by ${actor}`);
  } catch (e) {
    const found = e.result?.conflicts || [];
    if (!found.length) throw e;
    const answer = await ask(`Others changed ${count(found.length, "of these files", "of these files")} later`, [
      el("p", {}, "Nothing is changed yet. Decide what will happen to these files:"),
      el("ul", { class: "plan", tabindex: 0 }, ...found.map((p) => el("li", { class: "path" }, visible(p))))],
    [{ label: "Leave them as they are", value: "ours", class: "primary" }, { label: `Make them as before ${visible(actor)}`, value: "theirs" }]);
    if (answer) await undoBy(actor, { [answer]: true });
  }
}

export async function snapshotNow() {
  const [nameField, name] = field("Name (empty: a number)", { id: "new-name", maxlength: 128 });
  const [textField, text] = field("Message", { id: "new-message" });
  let made;
  await ask("Snapshot now", [textField, nameField], [{ label: "Take it", value: "yes", class: "primary" }],
    async () => { made = await call("snapshot", { name: name.value, message: text.value }); });
  if (!made) return;
  message(`Snapshot ${made.name} taken.`);
  await page.changed();
}

async function rename(from) {
  const [label, name] = field("New name", { id: "new-name", maxlength: 128, value: from });
  const answer = await ask(`Rename ${visible(from)}`, [label], [{ label: "Rename", value: "yes", class: "primary" }],
    async () => { if (name.value !== from) await call("rename", { from, to: name.value }); });
  if (answer !== "yes" || name.value === from) return;
  const back = () => call("rename", { from: name.value, to: from }).then(page.changed).catch(failed);
  message(`${from} is now called ${name.value}.`, { action: { label: "Undo", run: back } });
  await page.changed(name.value);
}

async function pin({ name, pinned }) {
  const set = async (on) => { await call("pin", { names: [name], pinned: on }); await page.changed(name); };
  await set(!pinned);
  message(pinned ? `${name} can be deleted again.` : `${name} is pinned.`, { action: { label: "Undo", run: () => set(pinned).catch(failed) } });
}

async function remove(name) {
  const s = named(name);
  const answer = await ask(`Delete ${visible(titleOf(name))}?`, [
    el("p", {}, `The snapshot ${visible(name)} will be deleted: ${count(s?.files || 0, "file")} as they were then cannot be restored from it. This cannot be undone.`)],
  [{ label: "Delete", value: "yes", class: "danger" }]);
  if (answer !== "yes") return;
  await call("remove", { names: [name] });
  message(`${name} is deleted.`);
  await page.changed("");
}

export async function fork(snapshot) {
  const [label, name] = field("Name", { id: "new-name", maxlength: 128 });
  const [ttlLabel, ttl] = field("Delete it after (empty: never)", { placeholder: "7d" });
  let made;
  await ask(`Fork ${snapshot ? visible(titleOf(snapshot)) : "the present state"}`, [label, ttlLabel], [{ label: "Fork", value: "yes", class: "primary" }],
    async () => { made = await call("fork", { name: name.value, snapshot, ttl: ttl.value }); });
  if (!made) return;
  message(`Fork ${made.name} created at ${made.path}.`);
  await page.changed();
}

// merge previews a merge, or opens its conflicts.
export async function merge(name) {
  try {
    await perform(`Merge ${visible(name)} into main?`, "Merge", "merge", { fork: name }, { workspace: "" }, `Merged ${name}`);
  } catch (e) {
    if (!e.result?.conflicts?.length) throw e;
    page.conflicts(name, e.result.conflicts);
    return;
  }
}
export const mergeWith = async (name, args) => finish(await call("merge", { fork: name, ...args }, { workspace: "" }), `Merged ${name}`);

export async function endFork(name, discard) {
  const f = store.forks.find((x) => x.name === name);
  const changed = f ? `It has ${count(f.changed, "changed file")}${f.more ? " or more" : ""}. ` : "";
  const answer = await ask(`${discard ? "Discard" : "End"} ${visible(name)}?`,
    [el("p", {}, changed, discard ? "They will be lost: no snapshot is kept. This cannot be undone." : "Its last state will be kept as a snapshot.")],
    [{ label: discard ? "Discard" : "End", value: "yes", class: discard ? "danger" : "primary" }]);
  if (answer !== "yes") return;
  page.leaving = name;
  await call("delete-fork", { name, discard }, { workspace: "" });
  message(discard ? `${name} is discarded.` : `${name} has ended.`);
  if (currentWorkspace() === name) await page.enter(""); else await page.changed();
}

// itemsFor are the lines of the menu of a snapshot.
export const itemsFor = (name) => {
  const s = named(name);
  return s && [["Fork from here …", () => fork(name)], [s.pinned ? "Unpin" : "Pin", () => pin(s)], ["Rename …", () => rename(name)], ["Delete …", () => remove(name), "danger"]];
};

export const actorItems = (actor, only) => [[el("span", {}, "Changes by ", chip(actor))], ["Show only these files", () => only(actor)],
  ["Show snapshots", () => page.only(actor)], store.writes && [`Undo everything by ${visible(actor)} …`, () => undoBy(actor), "danger"]];
