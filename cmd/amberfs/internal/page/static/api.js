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

let workspace = "";
export const useWorkspace = (name) => { workspace = name; };
export const currentWorkspace = () => workspace;

export function address(path, query = {}, ws = workspace) {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(query)) {
    for (const one of Array.isArray(v) ? v : [v]) {
      if (one !== undefined && one !== "" && one !== false) q.append(k, one);
    }
  }
  if (ws) q.set("workspace", ws);
  return `${path}?${q}`;
}

async function answer(response) {
  if (response.ok) return response.json(); // or the error of a request given up while its answer came
  throw new Failure(await response.json().catch(() => ({})), response.status);
}

export async function get(path, query, options = {}) {
  return answer(await fetch(address(path, query, options.workspace), { signal: options.signal }));
}

export async function send(method, path, body = {}, query = {}, options = {}) {
  return answer(await fetch(address(path, query, options.workspace), {
    method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  }));
}

// session exchanges the token in the address for a cookie, once.
export async function session() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    history.replaceState(null, "", location.pathname);
    await answer(await fetch("/session", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token }),
    }));
  }
  return get("/session", {}, { workspace: "" });
}

// follow calls fn for each event that happens from now on, until stopped.
export function follow(fn, lost) {
  const source = new EventSource(address("/api/v1/events", { follow: "true", new: "true" }));
  source.onmessage = (e) => fn(JSON.parse(e.data));
  source.onerror = () => lost?.();
  return () => source.close();
}
