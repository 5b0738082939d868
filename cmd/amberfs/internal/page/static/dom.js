// Small helpers. Whatever comes from a workspace reaches the page as text,
// never as markup.

export const $ = (id) => document.getElementById(id);

function fill(e, attributes, children) {
  for (const [k, v] of Object.entries(attributes)) {
    if (v === undefined || v === null || v === false) continue;
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else e.setAttribute(k, v === true ? "" : v);
  }
  e.append(...children.filter((c) => c !== undefined && c !== null && c !== false));
  return e;
}

export const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// icon shows a symbol of index.html. Without a label it says nothing to a screen reader.
export const icon = (name, label) => svg("svg", { class: "icon", ...(label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" }) },
  label && svg("title", {}, label), svg("use", { href: `#i-${name}` }));

// visible shows what would hide: control and bidirectional characters.
const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;
export const visible = (s) => String(s).replace(hidden, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

export function bytes(n) {
  if (!(n >= 1024)) return `${n ?? 0} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let i = -1;
  do { n /= 1024; i++; } while (n >= 1024 && i < units.length - 1);
  return `${n.toFixed(n < 10 ? 1 : 0)} ${units[i]}`;
}

export const count = (n, one, many = `${one}s`) => `${n.toLocaleString()} ${n === 1 ? one : many}`;
export const pathOf = (file) => (file.raw ? { bytes: file.raw } : file.path);
export const sentence = (e) => visible(e.hint ? `${e.message}; ${e.hint}` : e.message);

export const frame = () => new Promise((done) => { requestAnimationFrame(done); });

const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" });
const weekday = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });
const date = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });

// dayOf is the heading of a day. Many snapshots are of one hour, and formatting is slow.
const days = new Map();
export function dayOf(t) {
  const hour = Math.floor(Date.parse(t) / 900000), midnight = new Date().setHours(0, 0, 0, 0);
  const key = `${hour} ${midnight}`;
  if (!days.has(key)) {
    const back = Math.ceil((midnight - new Date(t)) / 86400000);
    days.set(key, back <= 0 ? "Today" : back === 1 ? "Yesterday" : back < 300 ? weekday.format(new Date(t)) : date.format(new Date(t)));
  }
  return days.get(key);
}

function ago(t) {
  const s = (Date.now() - new Date(t)) / 1000;
  for (const [unit, size, end] of [["min", 60, 60], ["h", 3600, 24], ["d", 86400, 30]]) {
    if (s < 45) return "just now";
    if (Math.round(s / size) < end) return `${Math.max(1, Math.round(s / size))} ${unit} ago`;
  }
  return date.format(new Date(t));
}

// time shows how long ago something was, and exactly when on hover.
export const time = (t) => el("time", { datetime: t, title: clock.format(new Date(t)) }, ago(t));
setInterval(() => document.querySelectorAll("time").forEach((e) => { e.textContent = ago(e.dateTime); }), 15000);

// Actors have colours: the sessions of one program the same, and two programs different
// ones while there are enough.
const colours = new Map();
function colourOf(actor) {
  const top = actor.split("/")[0];
  if (!colours.has(top)) {
    let c = [...top].reduce((sum, x) => (sum * 31 + x.codePointAt(0)) % 8, 7);
    for (let i = 0; i < 8 && [...colours.values()].includes(c); i++) c = (c + 1) % 8;
    colours.set(top, c);
  }
  return colours.get(top);
}
export const chip = (actor, attributes = {}) => el(attributes.onclick ? "button" : "span",
  { ...attributes, class: `chip c${colourOf(actor)}`, type: attributes.onclick && "button" }, visible(actor));

export function message(text, { error = false, action } = {}) {
  const box = el("div", { class: error ? "error" : "" }, el("span", {}, visible(text)));
  if (action) box.append(el("button", { type: "button", class: "link", onclick: () => { box.remove(); action.run(); } }, action.label));
  box.append(el("button", { type: "button", class: "quiet", "aria-label": "Dismiss", onclick: () => box.remove() }, icon("close")));
  $("messages").append(box);
  if ($("messages").childElementCount > 3) $("messages").firstChild.remove();
  setTimeout(() => box.remove(), action ? 30000 : 10000);
}

export const failed = (e) => {
  if (e.name !== "AbortError") message(sentence(e), { error: true });
};

export const button = (label, run, attributes = {}) => el("button",
  { type: "button", ...attributes, onclick: (e) => Promise.resolve(run(e)).catch(failed) }, ...[label].flat());

// menu returns a button that opens a list of [label, run, class]. Items without run are
// headings.
export function menu(label, items, attributes = {}) {
  const list = el("div", { class: "menu", role: "menu", popover: "auto" });
  const opener = el("button", { type: "button", class: "quiet", ...attributes, "aria-haspopup": "menu", "aria-expanded": "false" }, ...[label].flat());
  opener.addEventListener("click", (e) => {
    e.stopPropagation();
    list.replaceChildren(...items().filter(Boolean).map(([text, run, kind]) => (run
      ? button(text, () => { list.hidePopover(); return run(); }, { role: "menuitem", class: kind }) : el("div", { class: "about" }, text))));
    document.body.append(list);
    list.showPopover();
    const at = opener.getBoundingClientRect();
    list.style.left = `${Math.max(8, Math.min(at.left, innerWidth - list.offsetWidth - 8))}px`;
    list.style.top = `${Math.min(at.bottom + 4, innerHeight - list.offsetHeight - 8)}px`;
    opener.setAttribute("aria-expanded", "true");
    list.querySelector("button")?.focus();
  });
  list.addEventListener("toggle", (e) => {
    if (e.newState === "open") return;
    opener.setAttribute("aria-expanded", "false");
    list.remove();
    if (document.activeElement === document.body) opener.focus();
  });
  list.addEventListener("keydown", (e) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (!step) return;
    e.preventDefault();
    const all = [...list.querySelectorAll("button")];
    all[(all.indexOf(document.activeElement) + step + all.length) % all.length].focus();
  });
  return opener;
}

// ask shows a dialog and resolves to the pressed button's value, "" if none. With act,
// the dialog closes when act has succeeded; what it fails with is shown, and what was
// typed stays.
export function ask(title, body, buttons, act = async () => {}) {
  const d = $("dialog");
  const wrong = el("p", { class: "error", role: "alert" });
  const form = el("form", { method: "dialog" }, el("h2", { id: "dialog-title" }, title), ...body, wrong,
    el("div", { class: "actions" }, el("button", { type: "button", onclick: () => d.close("") }, buttons.length ? "Cancel" : "Close"),
      ...buttons.map((b) => el("button", { value: b.value, class: b.class || "" }, b.label))));
  form.addEventListener("submit", async (e) => {
    e.preventDefault();
    const value = e.submitter?.value ?? buttons[0]?.value ?? "";
    try {
      await act(value);
      d.close(value);
    } catch (e) {
      wrong.textContent = sentence(e);
    }
  });
  d.replaceChildren(form);
  d.returnValue = "";
  d.showModal();
  return new Promise((done) => d.addEventListener("close", () => done(d.returnValue), { once: true }));
}
