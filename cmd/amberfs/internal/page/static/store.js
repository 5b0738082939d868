// What the page has learned of the workspace.
import { call, currentWorkspace } from "./api.js";
export const store = {
  writes: false, dir: "", runs: false, // the directory that the workspace was filled from, and whether forks are its runs
  snapshots: [], names: new Map(), places: new Map(), forks: [], head: "", undo: "", present: null, // how many files differ from the newest snapshot
};
// page has what the parts of the page ask of each other; app.js fills it in.
export const page = {};
// take puts a list of snapshots, newest first, in place of the one before.
export const take = ({ snapshots, head, undo }) => Object.assign(store, { snapshots, head: head || snapshots[0]?.name || "",
  undo: undo || "", names: new Map(snapshots.map((s) => [s.name, s])), places: new Map(snapshots.map((s, i) => [s.name, i])) });
// loadSnapshots fetches them in parts, and calls show when they fill a screen, and when all are here.
export async function loadSnapshots(show) {
  const workspace = currentWorkspace();
  for (let limit = 200, list, complete; !complete; limit = 2000) {
    const part = await call("list", { limit, before: list?.snapshots.at(-1).seq });
    if (workspace !== currentWorkspace()) return;
    list = { ...(list || part), snapshots: [...(list?.snapshots || []), ...part.snapshots] };
    complete = part.snapshots.length < limit;
    if (complete || !store.snapshots.length) { take(list); show(); }
  }
}
export const named = (name) => store.names.get(name);
// parentOf is the snapshot that a state continues: the one that was restored since, or the one before.
export function parentOf(name) {
  if (name === "") return store.names.has(store.head) ? store.head : store.snapshots[0]?.name || "";
  const parent = named(name)?.parent;
  return store.names.has(parent) ? parent : store.snapshots[(store.places.get(name) ?? -2) + 1]?.name || "";
}
// before is what a state is compared with.
export const before = (name) => (name === "" ? store.snapshots[0]?.name : parentOf(name)) || "base";
// takenBefore matches a snapshot that is the state before something: [, what, of].
export const takenBefore = (s) => (s?.kind === "pre-restore" && /^before (restore|merge|undo|refresh|import)(?: of (.+))?$/.exec(s.message)) || null;
// runTitles are for the snapshots that `amberfs run` takes. Their message is the command.
const runTitles = { running: "The run began", kept: "The run ended", applied: "The run was applied", removed: "The run was removed" };
// undoLabel is what the button for the last undo point does, "" if there is nothing to undo.
export function undoLabel() {
  const [, what, of = ""] = takenBefore(named(store.undo)) || [], [, undone] = takenBefore(named(of)) || [];
  if (!what) return "";
  if (what === "restore") return undone ? `Redo the last ${undone}` : "Undo the last restore";
  return `Undo the last ${what}${of ? `, of ${of}` : ""}`;
}
// titleOf is what a person reads of a state: the message, else the name.
export function titleOf(name) {
  const s = named(name), [, what, of] = takenBefore(s) || [], restored = named(of);
  if (what && !of) return `Before the ${what}`;
  if (what) return `Before the ${what} of ${(restored && !takenBefore(restored) && restored.message?.trim()) || of}`;
  if (runTitles[s?.labels?.run]) return runTitles[s.labels.run];
  return name === "" ? "Now" : (s?.message?.trim() || name).replace(/^before a change by/, "Before a change by");
}
// spelled is how a state is called in a header. Those of forks are as in the mount.
export const spelled = (name) => (name === "" ? "now"
  : name.replace(/^\.forks\/([^/]+)$/, "$1, now").replace(/^\.forks\//, "").replace("/.snapshots/", " › "));
// Summaries of what snapshots changed are asked for as their rows come into sight.
const summaries = new Map();
let wanted = new Set(), due = null;
export function summary(name, arrived) {
  const workspace = currentWorkspace(), key = (n) => [workspace, named(n)?.seq, named(before(n))?.seq].join();
  if (summaries.has(key(name))) return summaries.get(key(name));
  wanted.add(name);
  due ??= setTimeout(async () => {
    const names = [...wanted].slice(-100);
    [wanted, due] = [new Set(), null];
    const got = await call("summaries", { names }).catch(() => null); // else they are asked for when the rows are drawn again
    if (!got) return;
    for (const n of names) summaries.set(key(n), got.summaries[n]);
    if (workspace === currentWorkspace()) arrived();
  }, 60);
  return null;
}
