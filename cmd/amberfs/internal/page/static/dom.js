// Small helpers. Whatever comes from a workspace reaches the page as text, never as markup.
export const $ = (id) => document.getElementById(id);
function fill(e, attributes, children) {
  for (const [k, v] of Object.entries(attributes)) {
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else if (v !== undefined && v !== null && v !== false) e.setAttribute(k, v === true ? "" : v);
  }
  e.append(...children.filter((c) => c !== undefined && c !== null && c !== false));
  return e;
}
// el makes an element: its tag with .classes, attributes if there are any, and children.
export function el(name, ...rest) {
  const [tag, ...classes] = name.split("."), attributes = rest[0]?.constructor === Object ? rest.shift() : {};
  return fill(document.createElement(tag), classes.length ? { class: classes.join(" "), ...attributes } : attributes, rest);
}
export const svg = (tag, attributes, ...rest) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, rest);
// icon shows a symbol of index.html. Without a label it says nothing to a screen reader.
export const icon = (name, label) =>
  svg("svg", { class: "icon", ...(label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" }) },
    label && svg("title", {}, label), svg("use", { href: `#i-${name}` }));
export const text = (s, kind = "") => el("span", { class: `text ${kind}` }, visible(s));
// ends is a text of which the end is seen, too, if it is cut: long names often begin in the same way.
export function ends(s) {
  const shown = [...visible(s)], tail = shown.length > 16 ? 7 : 0;
  return el("span.ends", el("span.text", shown.slice(0, shown.length - tail).join("")), tail > 0 && el("span", shown.slice(-tail).join("")));
}
export const button = (label, run, attributes = {}) =>
  el("button", { type: "button", ...attributes, onclick: (e) => Promise.resolve(run(e)).catch(failed) }, ...[label].flat());
// visible shows what would hide: control and bidirectional characters.
const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;
export const visible = (s) => String(s).replace(hidden, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
// spelledOut shows the bytes of a name that are not UTF-8 as \xNN.
export const spelledOut = (raw) => atob(raw).replace(/[\x80-\xff]+/g, (part) => {
  const hex = (mark) => [...part].map((c) => mark + c.charCodeAt(0).toString(16)).join("");
  try { return decodeURIComponent(hex("%")); } catch { return hex("\\x"); }
});
export const sentence = (e) => visible(e.hint ? `${e.message}; ${e.hint}` : e.message);
export const count = (n, one, many = `${one}s`) => `${n.toLocaleString()} ${n === 1 ? one : many}`;
export const pathOf = (file) => (file.raw ? { bytes: file.raw } : file.path);
// frame waits until what changed is painted.
export const frame = () => new Promise((done) => { requestAnimationFrame(() => setTimeout(done)); });
export function bytes(n) {
  if (!(n >= 1024)) return `${n ?? 0} B`;
  const i = Math.min(4, Math.floor(Math.log2(n) / 10)), size = n / 1024 ** i;
  return `${size.toFixed(size < 10 ? 1 : 0)} ${["", "KiB", "MiB", "GiB", "TiB"][i]}`;
}
const weekday = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });
const date = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });
// dayOf is the heading of a day. Formatting is slow, and many snapshots are of one hour.
const days = new Map();
export function dayOf(t) {
  const midnight = new Date().setHours(0, 0, 0, 0), key = `${Math.floor(Date.parse(t) / 900000)} ${midnight}`;
  const back = Math.ceil((midnight - new Date(t)) / 86400000);
  if (!days.has(key)) days.set(key, ["Today", "Yesterday"][Math.max(back, 0)] || (back < 300 ? weekday : date).format(new Date(t)));
  return days.get(key);
}
// time shows how long ago something was, and exactly when on hover.
export const time = (t) => el("time", { datetime: t, title: new Date(t).toLocaleString() }, ago(t));
setInterval(() => document.querySelectorAll("time").forEach((e) => { e.textContent = ago(e.dateTime); }), 15000);
function ago(t) {
  const s = (Date.now() - new Date(t)) / 1000, say = (time) => (s < 0 ? `in ${time}` : `${time} ago`);
  if (s >= 0 && s < 45) return "just now";
  for (const [unit, size, end] of [["min", 60, 60], ["h", 3600, 24], ["d", 86400, 30]]) {
    if (Math.abs(s) < (end - .5) * size) return say(`${Math.max(1, Math.round(Math.abs(s) / size))} ${unit}`);
  }
  return date.format(new Date(t));
}
// The sessions of a program have one colour, which its name decides. With this factor common agents differ.
export function colourOf(actor) {
  let hash = 0;
  for (const c of actor.split("/")[0]) hash = (17968 * hash + c.codePointAt(0)) % 65521;
  return `c${hash % 8}`;
}
export const chip = (actor) => el("span", { class: `chip ${colourOf(actor)}` }, visible(actor));
// chips shows an actor, and how many there are besides.
export const chips = (actors = []) => [actors[0] && chip(actors[0]),
  actors.length > 1 && el("span.count", { title: visible(actors.join(", ")) }, `and ${actors.length - 1} more`)];
// message shows words for a while, or until the function that it returns is called.
export function message(words, { error = false, action, busy = false } = {}) {
  const end = () => { const back = focus(box); box.remove(); back(); };
  const box = el("div", { class: error ? "error" : busy && "busy" }, el("span", visible(words)),
    action && button(action.label, () => { end(); return action.run(); }, { class: "link" }),
    !busy && button(icon("close", "Dismiss"), end, { class: "quiet" }));
  $("messages").append(box);
  if (!busy) setTimeout(end, action ? 30000 : 10000);
  return end;
}
// during shows words while something runs that may take long.
export async function during(words, running) {
  const end = message(words, { busy: true });
  try { return await running; } finally { end(); }
}
export const failed = (e) => { if (e.name !== "AbortError") message(sentence(e), { error: true }); };
// focus notes where in a box the focus is, and returns a function that puts it there again: on the same element, one
// of the same name in its place, or else on what the box is in.
export function focus(box) {
  const was = document.activeElement, name = (e) => [e.closest("article")?.ariaLabel, e.id || e.ariaLabel || e.textContent].join();
  if (!box?.contains(was)) return () => {};
  const wanted = name(was), like = () => [...($(box.id) || box).querySelectorAll("button, input")].filter((e) => name(e) === wanted);
  const at = like().indexOf(was), around = box.closest("[tabindex]") || $(document.body.dataset.pane === "timeline" ? "snapshots" : "pane");
  return () => [was, like()[at], around].find((e) => e?.isConnected).focus({ preventScroll: true });
}
export function redraw(box, ...children) {
  const back = focus(box);
  box.replaceChildren(...children.filter(Boolean));
  back();
}
// along moves the focus in a list of tabs.
export function along(e) {
  const way = { ArrowRight: "nextElementSibling", ArrowLeft: "previousElementSibling" }[e.key];
  let to = way && e.currentTarget[way];
  while (to?.hidden) to = to[way];
  to?.focus();
}
// menu returns a button that opens a list of [label, run, class]. Without run, it is a heading.
export function menu(label, items, attributes = {}) {
  const opener = button(label, (e) => {
    e.stopPropagation();
    const back = focus(opener.closest("[id]"));
    const list = el("div.menu", { popover: "auto" }, ...items().filter(Boolean).map(([words, run, kind]) => (
      run ? button(words, () => { list.hidePopover(); back(); return run(); }, { class: kind }) : el("div.about", words))));
    list.addEventListener("toggle", (t) => {
      opener.setAttribute("aria-expanded", String(t.newState === "open"));
      if (t.newState === "closed") list.remove();
    });
    document.body.append(list); // where no redrawing closes it
    list.showPopover();
    const at = opener.getBoundingClientRect();
    list.style.left = `${Math.max(8, Math.min(at.left, innerWidth - list.offsetWidth - 8))}px`;
    list.style.top = `${Math.min(at.bottom + 4, innerHeight - list.offsetHeight - 8)}px`;
    list.querySelector("button")?.focus();
  }, { class: "quiet", ...attributes, "aria-expanded": "false" });
  return opener;
}
// ask shows a dialog and resolves to the pressed button's value, "" if none. With act,
// the dialog closes when act has succeeded; what it fails with is shown, and what was typed stays.
export function ask(title, body, buttons, act = async () => {}) {
  const d = $("dialog"), wrong = el("p.error", { role: "alert" }), back = focus(document.activeElement.closest("[id]"));
  const form = el("form", { method: "dialog" }, el("h2", { id: "dialog-title" }, title), ...body.filter(Boolean), wrong,
    el("div.actions", button(buttons.length ? "Cancel" : "Close", () => d.close("")),
      ...buttons.map(([label, value, kind]) => el("button", { value, class: kind }, label))));
  form.addEventListener("submit", async (e) => {
    e.preventDefault();
    const value = e.submitter?.value ?? buttons[0]?.[1] ?? "";
    try {
      await act(value);
      d.close(value);
    } catch (e) { wrong.textContent = sentence(e); }
  });
  d.replaceChildren(form);
  d.returnValue = "";
  d.showModal();
  return new Promise((done) => { d.addEventListener("close", () => { back(); done(d.returnValue); }, { once: true }); });
}
