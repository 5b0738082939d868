// What the buttons do. Each that changes files shows first what it will do.
import { call, currentWorkspace } from "./api.js";
import { ask, chip, count, during, el, message, pathOf, spelledOut, visible } from "./dom.js";
import { tableOf } from "./diff.js";
import { named, page, spelled, store, titleOf } from "./store.js";
const will = { deleted: ["D", "will be deleted"], modified: ["M", "will be overwritten"], created: ["A", "will be created"] };
const main = { workspace: "" };
const p = (...parts) => el("p", ...parts);
const safe = () => el("p.faint", "The present state is kept first: this can be undone.");
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
  return [p({ id: "about" }, el("strong", `${count(found.changed, "file")} will change${parts ? ": " : "."}`), parts && `${parts}.`),
    others && el("p.warn", others), found.kept?.length && el("p.kept", `Kept as it is: ${found.kept.map(visible).join(", ")}`),
    keep && p("Files that you untick are kept as they are."),
    el("ul.plan", { tabindex: 0, "aria-label": "What will change" }, ...shown.map((x) => el("li.path", tick(x, keep), el("span", { class: `status ${will[x.action][0]}` }, will[x.action][0]), nameOf(x))),
      found.changed > shown.length && el("li", `and ${found.changed - shown.length} more`)), safe()];
}
// perform previews an operation, runs it when the user agrees, and says what it did. Then it returns true.
async function perform(title, verb, op, args, options, done) {
  const found = await during("Computing what will change …", call(op, { ...args, dry_run: true }, options));
  if (!found.changed) { message(found.kept ? `Kept as it is: ${found.kept.join(", ")}` : "No file would change."); return false; }
  const keep = /^(restore|undo-by)$/.test(op) && !args.paths ? new Set() : undefined;
  if (await ask(title, plan(found, keep).filter(Boolean), [[verb, "yes", "primary"]]) !== "yes") return false;
  if (keep?.size) args.keep = [...(args.keep || []), ...[...keep].map(pathOf)];
  await finish(await during(`Changing ${count(found.changed, "file")} …`, call(op, args, options)), done, options);
  return true;
}
async function finish(result, done, options = {}) {
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
    if (await undoBy(actor, { ...ways, ...(all || { theirs: true, keep, contents }) })) page.show("changes");
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
export const snapshotNow = () => form("Snapshot now", "Take it", [["Message", { id: "new-message" }], ["Name (empty: a number)", nameField]],
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
  title: `Merge ${visible(name)} into main`, verb: "Merge", of: { fork: name }, options: main,
  names: { base: "Base", ours: "main", theirs: visible(name) },
  go: async (resolve, contents, all) => { if (await merge(name, all || { resolve, contents })) page.show("changes"); },
});
export async function endFork(name, discard) {
  const f = store.forks.find((x) => x.name === name);
  const changed = f ? `It has ${count(f.changed, "changed file")}${f.more ? " or more" : ""}. ` : "";
  const lost = discard ? "All will be lost: no snapshot is kept. This cannot be undone." : "Its last state will be kept as a snapshot.";
  if (!await sure(discard ? "Discard" : "End", name, changed + lost, discard ? "danger" : "primary")) return;
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
