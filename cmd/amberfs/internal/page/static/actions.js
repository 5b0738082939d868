// What the buttons do. Each that changes files shows first what it will do.
import { call, currentWorkspace } from "./api.js";
import { ask, chip, count, el, message, pathOf, spelledOut, visible } from "./dom.js";
import { tableOf } from "./diff.js";
import { named, page, spelled, store, titleOf } from "./store.js";
const will = { deleted: ["D", "will be deleted"], modified: ["M", "will be overwritten"], created: ["A", "will be created"] };
export const main = { workspace: "" };
const p = (...parts) => el("p", ...parts);
const safe = () => el("p.faint", "The present state is kept first: this can be undone.");
const list = (items, label) => el("ul.plan", { tabindex: 0, "aria-label": label }, ...items);
const nameOf = (x) => visible(x.raw ? spelledOut(x.raw) : x.path);
// tick is the box of a file. While it is not ticked, the file is in keep, and will stay as it is.
const tick = (x, keep) => keep && el("input", { type: "checkbox", checked: !keep.has(x), "aria-label": `Change ${nameOf(x)}`,
  onchange: (e) => { if (e.target.checked) keep.delete(x); else keep.add(x); } });
// plan lists what will change, deletions first.
function plan(found, keep) {
  const order = Object.keys(will), all = found.paths || [], n = (action) => all.filter((x) => x.action === action).length;
  const shown = [...all].sort((x, y) => order.indexOf(x.action) - order.indexOf(y.action)).slice(0, 500);
  const parts = found.more ? "" : order.filter(n).map((a) => `${n(a).toLocaleString()} ${will[a][1]}`).join(", ");
  const others = found.shared?.length
    && `Others changed ${count(found.shared.length, "of these paths", "of these paths")} at the same time: their changes go too.`;
  return [p(el("strong", `${count(found.changed, "file")} will change${parts ? ": " : "."}`), parts && `${parts}.`),
    others && el("p.warn", others), found.kept?.length && el("p.kept", `Kept as it is: ${found.kept.map(visible).join(", ")}`),
    keep && p("Files that you untick are kept as they are."),
    list([...shown.map((x) => el("li.path", tick(x, keep), el("span", { class: `status ${will[x.action][0]}` }, will[x.action][0]), nameOf(x))),
      found.changed > shown.length && el("li", `and ${found.changed - shown.length} more`)], "What will change"), safe()];
}
// perform previews an operation, runs it when the user agrees, and says what it did.
async function perform(title, verb, op, args, options, done) {
  const found = await call(op, { ...args, dry_run: true }, options);
  if (!found.changed) { message(found.kept ? `Kept as it is: ${found.kept.join(", ")}` : "No file would change."); return; }
  const keep = /^(restore|undo-by)$/.test(op) && !args.paths ? new Set() : undefined;
  if (await ask(title, plan(found, keep).filter(Boolean), [[verb, "yes", "primary"]]) !== "yes") return;
  if (keep?.size) args.keep = [...(args.keep || []), ...[...keep].map(pathOf)];
  await finish(await call(op, args, options), done, options);
}
export async function finish(result, done, options = {}) {
  const undo = async () => finish(await call("restore", { name: result.undo }, options), "Undone");
  message(`${done}: ${count(result.changed, "file")} changed.`, { action: result.undo && { label: "Undo", run: undo } });
  if (result.later) message(`${result.actor} has changed more since; these changes stay.`);
  await page.changed();
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
    p(el("strong", `${count(lines("+"), "line")} will be replaced by ${count(lines("-"), "line")} of ${visible(spelled(a))}.`)),
    el("div.plan", { tabindex: 0, role: "region", "aria-label": "What will change" },
      tableOf({ ...h, old_start: h.new_start, new_start: h.old_start, lines: turned })), safe()], [["Restore hunk", "yes", "primary"]]);
  if (answer === "yes") await finish(await call("restore-hunk", args), `Restored lines of ${file.path}`);
}
export async function undoBy(actor, ways = {}) {
  try {
    await perform(`Undo what ${visible(actor)} changed?`, "Undo", "undo-by", { by: actor, ...ways }, {}, `Undid the changes by ${actor}`);
  } catch (e) {
    const found = e.result?.conflicts || [];
    if (!found.length) throw e;
    const files = found.map((path) => ({ path })), keep = new Set(files);
    const answer = await ask(`Others changed ${count(found.length, "of these files", "of these files")} later`, [
      p(`Nothing is changed yet. Tick the files that will become what they were before ${visible(actor)}. The others stay as they are.`),
      list(files.map((x) => el("li.path", tick(x, keep), nameOf(x))), "Files")], [["Continue", "yes", "primary"]]);
    if (answer) await undoBy(actor, { ...ways, theirs: true, keep: [...keep].map(pathOf) });
  }
}
// form asks for some texts, and closes when act has taken them.
async function form(title, verb, fields, act, note) {
  const inputs = fields.map(([, attributes]) => el("input", { autocomplete: "off", ...attributes }));
  const body = fields.map(([label], i) => el("label", label, inputs[i]));
  let made;
  await ask(title, [note && p(note), ...body], [[verb, "yes", "primary"]], async () => { made = await act(...inputs.map((i) => i.value)); });
  return made;
}
const nameField = { id: "new-name", maxlength: 128 };
export async function snapshotNow() {
  const made = await form("Snapshot now", "Take it", [["Message", { id: "new-message" }], ["Name (empty: a number)", nameField]],
    (text, name) => call("snapshot", { name, message: text }));
  if (made) await done(`Snapshot ${made.name} taken.`);
}
export async function fork(snapshot) {
  const made = await form(`Fork ${visible(titleOf(snapshot))}`, "Fork", [["Name", nameField], ["Delete it after (empty: never)", { placeholder: "7d" }]],
    (name, ttl) => call("fork", { name, snapshot, ttl }));
  if (made) await done(`Fork ${made.name} created at ${made.path}.`);
}
async function done(words, chosen, undo) {
  message(words, { action: undo && { label: "Undo", run: undo } });
  await page.changed(chosen);
}
async function rename(from) {
  const set = async (old, to) => { await call("rename", { from: old, to }); return to; };
  const to = await form(`Rename ${visible(from)}`, "Rename", [["New name", { ...nameField, value: from }]], (name) => set(from, name),
    "1 snapshot will have another name. Its files stay as they are.");
  if (to) await done(`${from} is now called ${to}.`, to, () => set(to, from).then(() => page.changed(from)));
}
async function pin({ name, pinned }) {
  const set = (on) => call("pin", { names: [name], pinned: on }), verb = pinned ? "Unpin" : "Pin";
  const will = `1 snapshot will ${pinned ? "be deleted when the policy says so" : "be kept: neither the policy nor a person will delete it"}.`;
  if (await ask(`${verb} ${visible(name)}?`, [p(will)], [[verb, "yes", "primary"]]) !== "yes") return;
  await set(!pinned);
  await done(pinned ? `${name} can be deleted again.` : `${name} is pinned.`, name, () => set(pinned).then(() => page.changed(name)));
}
async function remove(name) {
  const lost = `${count(named(name)?.files || 0, "file")} as they were then. This cannot be undone.`;
  const answer = await ask(`Delete ${visible(name)}?`, [p("1 snapshot will be deleted, with ", lost)], [["Delete", "yes", "danger"]]);
  if (answer !== "yes") return;
  await call("remove", { names: [name] });
  await done(`${name} is deleted.`, "");
}
// merge previews a merge, or opens its conflicts.
export async function merge(name) {
  try {
    await perform(`Merge ${visible(name)} into main?`, "Merge", "merge", { fork: name }, main, `Merged ${name}`);
  } catch (e) { if (!e.result?.conflicts?.length) throw e; page.conflicts(name, e.result.conflicts); }
}
export async function endFork(name, discard) {
  const f = store.forks.find((x) => x.name === name), verb = discard ? "Discard" : "End";
  const changed = f ? `It has ${count(f.changed, "changed file")}${f.more ? " or more" : ""}. ` : "";
  const lost = discard ? "All will be lost: no snapshot is kept. This cannot be undone." : "Its last state will be kept as a snapshot.";
  const answer = await ask(`${verb} ${visible(name)}?`, [p(changed, lost)], [[verb, "yes", discard ? "danger" : "primary"]]);
  if (answer !== "yes") return;
  page.leaving = name;
  const { snapshot } = await call("delete-fork", { name, discard }, main);
  const run = () => call("fork", { name, snapshot }, main).then(() => page.changed());
  message(discard ? `${name} is discarded.` : `${name} has ended.`, { action: snapshot && { label: "Undo", run } });
  if (currentWorkspace() === name) await page.enter(""); else await page.changed();
}
// itemsFor are the lines of the menu of a snapshot, actorItems those of an actor.
export const itemsFor = (s) => [["Fork from here …", () => fork(s.name)], [s.pinned ? "Unpin" : "Pin", () => pin(s)],
  ["Rename …", () => rename(s.name)], ["Delete …", () => remove(s.name), "danger"]];
export const actorItems = (actor, only, since) => [[el("span", "Changes by ", chip(actor))], ["Show only these files", () => only(actor)],
  store.writes && since && [`Undo what ${visible(actor)} did after this …`, () => undoBy(actor, { since }), "danger"],
  store.writes && [`Undo everything by ${visible(actor)} …`, () => undoBy(actor), "danger"]];
