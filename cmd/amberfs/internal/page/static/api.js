// The daemon's HTTP API as this page sees it: below /api, for one workspace.
let workspace = ""; // the forks that lead to it, with / between them; main is ""
export const useWorkspace = (name) => { workspace = name; };
export const currentWorkspace = () => workspace;
// encoded writes a value for a query. A path that is not UTF-8 is { bytes }, in base64.
const encoded = (v) => (v.bytes === undefined ? encodeURIComponent(v)
  : [...atob(v.bytes)].map((c) => `%${c.charCodeAt(0).toString(16).padStart(2, "0")}`).join(""));
export function address(path, query = {}, ws = workspace) {
  const all = Object.entries({ ...query, workspace: ws }).filter(([, v]) => v !== undefined && v !== "" && v !== false);
  return `${path}?${all.map(([k, v]) => `${k}=${encoded(v)}`).join("&")}`;
}
// The key of the session. A page of another port cannot read it.
const KEY = "amberfs-session";
const headers = (more = {}) => ({ "Amberfs-Session": localStorage.getItem(KEY) || "", ...more });
const json = { "Content-Type": "application/json" };
async function good(response) {
  const status = Number(response.headers.get("Amberfs-Status")) || response.status;
  if (status < 400) return response;
  const { error, kind, hint, result } = await response.json().catch(() => ({}));
  throw Object.assign(new Error(error || `the server answered ${status}`), { kind, hint, result, status });
}
// ask tries again when the connection breaks.
async function ask(where, options, tries = 4) {
  try { return await good(await fetch(where, options)); } catch (e) { if (!(e instanceof TypeError) || tries < 2) throw e; }
  await new Promise((next) => { setTimeout(next, 300); });
  return ask(where, options, tries - 1);
}
const looks = /^(list|summaries|conflict|changes|hunks|history|blame|forks|events)$/; // what changes something is asked for once
const send = (where, args, { signal, workspace: ws } = {}, again = args.dry_run) => ask(address(where, {}, ws),
  { method: "POST", headers: headers(json), body: JSON.stringify(args), signal }, again ? 4 : 1);
const post = (op, args, options) => send(`/api/v1/${op}`, args, options, looks.test(op) || args.dry_run);
const read = (path, query, { signal, workspace: ws }) => ask(address(path, query, ws), { headers: headers(), signal });
export const get = async (path, query, options) => (await read(path, query, options)).json();
export const call = async (op, args = {}, options = {}) => (await post(op, args, options)).json();
// apply writes what a workspace changed to the directory that it was filled from.
export const apply = async (args, options) => (await send("/apply", args, options)).json();
export const image = async (query, options) => URL.createObjectURL(await (await read("/image", query, options)).blob());
// session exchanges the token in the address for a key, once, and asks for the options and the newest snapshots of main.
export async function session() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    const { key } = await (await ask("/session", { method: "POST", headers: json, body: JSON.stringify({ token }) })).json();
    localStorage.setItem(KEY, key);
    history.replaceState(null, "", location.pathname);
  }
  return Promise.all([get("/session", {}, {}), call("list", { limit: 100 })]);
}
// began is asked for while the other parts of the page load.
export const began = session();
began.catch(() => {}); // app.js shows why
export async function eventsOf(path, options) {
  const lines = (await (await post("events", { path, limit: 500 }, options)).text()).split("\n\n").filter((e) => e.startsWith("data: "));
  return lines.map((e) => JSON.parse(e.slice(6))).reverse();
}
// follow calls fn for each event of a workspace that happens from now on, until the
// function that it returns is called; lost is called with each failure.
export function follow(fn, lost) {
  const stop = new AbortController(), { signal } = stop, ws = workspace;
  const listen = async (again) => {
    const response = await post("events", { follow: true, new: true, elsewhere: true }, { signal, workspace: ws });
    if (again) fn({ action: "captured" }); // or whatever happened meanwhile
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ""; ;) {
      const { value, done } = await reader.read();
      if (done) return;
      const events = (text + value).split("\n\n");
      text = events.pop();
      for (const e of events) if (e.startsWith("data: ")) fn(JSON.parse(e.slice(6)));
    }
  };
  (async () => {
    for (let again = false; !signal.aborted; again = true) {
      await listen(again).catch((e) => { if (!signal.aborted) lost(e); });
      await new Promise((again) => { setTimeout(again, 3000); });
    }
  })();
  return () => stop.abort();
}
