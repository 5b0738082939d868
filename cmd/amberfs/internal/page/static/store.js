// What the page has learned of the workspace.

import { call, currentWorkspace } from "./api.js";

export const store = {
  writes: false, snapshots: [], names: new Map(), places: new Map(), forks: [], head: "", undo: "",
  present: { files: null, last: "" }, // files that differ from the newest snapshot, and the last event
};

// loadSnapshots fetches them in parts, and calls each after every part.
export async function loadSnapshots(each = () => {}) {
  const workspace = currentWorkspace();
  const all = [];
  for (let limit = 200, before; ; limit = 2000) {
    const part = await call("list", { limit, before });
    if (workspace !== currentWorkspace()) return;
    const got = part.snapshots || [];
    all.push(...got);
    if (!before) Object.assign(store, { head: part.head || got[0]?.name || "", undo: part.undo || "" });
    before = got[got.length - 1]?.seq;
    const complete = got.length < limit || !before;
    if (complete || !store.snapshots.length || all.length > store.snapshots.length) {
      store.snapshots = [...all];
      store.names = new Map(all.map((s) => [s.name, s]));
      store.places = new Map(all.map((s, i) => [s.name, i]));
      each();
    }
    if (complete) return;
  }
}

export async function loadForks() {
  store.forks = (await call("forks", {}, { workspace: "" })).forks || [];
}

export const named = (name) => store.names.get(name);

// parentOf is the snapshot that a state continues: the one that was restored since, or
// the one before.
export function parentOf(name) {
  if (name === "") return store.names.has(store.head) ? store.head : store.snapshots[0]?.name || "";
  const s = named(name);
  if (store.names.has(s?.parent)) return s.parent;
  return store.snapshots[(store.places.get(name) ?? -2) + 1]?.name || "";
}

// before is what a state is compared with.
export const before = (name) => (name === "" ? store.snapshots[0]?.name : parentOf(name)) || "base";

const earlier = /^before (restore|merge|undo) of (.+)$/;
export const takenBefore = (s) => (s.kind === "pre-restore" && earlier.exec(s.message)) || null;

// titleOf is what a person reads of a state: the message, else the name.
export function titleOf(name) {
  if (name === "") return "Now";
  const s = named(name);
  const [, what, of] = (s && takenBefore(s)) || [];
  return what ? `Before the ${what} of ${of}` : s?.message?.trim() || name;
}

// spelled is how a state is called in a header.
export const spelled = (name) => (name === "" ? "now" : name.replace(/^\.forks\/([^/]+)$/, "$1, now").replace(/^\.forks\//, "").replace("/.snapshots/", " › "));

// Summaries of what snapshots changed are asked for as their rows come into sight.
const summaries = new Map();
let wanted = new Set(), due = null;

export function summary(name, arrived) {
  const known = summaries.get(`${currentWorkspace()}\n${name}\n${before(name)}`);
  if (known) return known;
  wanted.add(name);
  due ??= setTimeout(async () => {
    const names = [...wanted].slice(-100), workspace = currentWorkspace();
    [wanted, due] = [new Set(), null];
    try {
      const got = (await call("summaries", { names })).summaries || {};
      if (workspace !== currentWorkspace()) return;
      for (const n of names) summaries.set(`${workspace}\n${n}\n${before(n)}`, got[n] || {});
      arrived();
    } catch { /* the rows stay without */ }
  }, 60);
  return null;
}

// page has what the parts of the page ask of each other; app.js fills it in.
export const page = {};
