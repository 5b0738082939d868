// The daemon's HTTP API as this page sees it: below /api, for one workspace.

export class Failure extends Error {
  constructor(body, status) {
    super(body.error || `the server answered ${status}`);
    this.kind = body.kind;
    this.hint = body.hint;
    this.result = body.result;
    this.status = status;
  }
}

let workspace = ""; // the forks that lead to it, with / between them; main is ""
export const useWorkspace = (name) => { workspace = name; };
export const currentWorkspace = () => workspace;

// encoded writes a value for a query. A path that is not UTF-8 is { bytes }, in base64.
const encoded = (v) => (v.bytes === undefined ? encodeURIComponent(v) : [...atob(v.bytes)].map((c) => `%${c.charCodeAt(0).toString(16).padStart(2, "0")}`).join(""));

export function address(path, query = {}, ws = workspace) {
  const all = Object.entries({ ...query, workspace: ws }).filter(([, v]) => v !== undefined && v !== "" && v !== false);
  return `${path}?${all.map(([k, v]) => `${k}=${encoded(v)}`).join("&")}`;
}

async function answer(response) {
  if (response.ok) return response.json(); // or the error of a request given up while its answer came
  throw new Failure(await response.json().catch(() => ({})), response.status);
}

// The key of the session. A page of another port cannot read it.
const KEY = "amberfs-session";
const headers = (more = {}) => ({ "Amberfs-Session": localStorage.getItem(KEY) || "", ...more });
const json = { "Content-Type": "application/json" };

export async function get(path, query, options = {}) {
  return answer(await fetch(address(path, query, options.workspace), { headers: headers(), signal: options.signal }));
}

// call asks the daemon for one operation.
export async function call(op, args = {}, options = {}) {
  return answer(await fetch(address(`/api/v1/${op}`, {}, options.workspace), {
    method: "POST", headers: headers(json), body: JSON.stringify(args), signal: options.signal,
  }));
}

// image returns an address that an element can show.
export async function image({ snapshot, path: file }, signal, ws = workspace) {
  const path = file.raw ? { bytes: file.raw } : file.path;
  const response = await fetch(address("/image", { snapshot, path }, ws), { headers: headers(), signal });
  if (!response.ok) throw new Failure(await response.json().catch(() => ({})), response.status);
  return URL.createObjectURL(await response.blob());
}

// session exchanges the token in the address for the key of a session, once.
export async function session() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    history.replaceState(null, "", location.pathname);
    const { key } = await answer(await fetch("/session", { method: "POST", headers: json, body: JSON.stringify({ token }) }));
    localStorage.setItem(KEY, key);
  }
  return get("/session", {}, { workspace: "" });
}

// eventsOf returns the newest events of a path, the newest first.
export async function eventsOf(path, signal, ws = workspace) {
  const response = await fetch(address("/api/v1/events", {}, ws), {
    method: "POST", headers: headers(json), body: JSON.stringify({ path, limit: 500 }), signal,
  });
  if (!response.ok) throw new Failure(await response.json().catch(() => ({})), response.status);
  const lines = (await response.text()).split("\n\n").filter((e) => e.startsWith("data: "));
  return lines.map((e) => JSON.parse(e.slice(6))).reverse();
}

// follow calls fn for each event of a workspace that happens from now on, until the
// function that it returns is called; lost is called with each failure.
export function follow(fn, lost, ws) {
  const stop = new AbortController();
  const { signal } = stop;
  const read = async () => {
    const response = await fetch(address("/api/v1/events", {}, ws), {
      method: "POST", headers: headers(json), body: JSON.stringify({ follow: true, new: true }), signal,
    });
    if (!response.ok) throw new Failure(await response.json().catch(() => ({})), response.status);
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
    while (!signal.aborted) {
      try {
        await read();
        throw new Error("the stream of events ended");
      } catch (e) {
        if (!signal.aborted) lost(e);
      }
      await new Promise((again) => setTimeout(again, 3000));
    }
  })();
  return () => stop.abort();
}
