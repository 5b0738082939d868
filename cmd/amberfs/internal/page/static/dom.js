// Small helpers. Whatever comes from a workspace reaches the page as text,
// never as markup.

export const $ = (id) => document.getElementById(id);

export function el(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes)) {
    if (v === undefined || v === null || v === false) continue;
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else if (v === true) e.setAttribute(k, "");
    else e.setAttribute(k, v);
  }
  e.append(...children.filter((c) => c !== undefined && c !== null && c !== false));
  return e;
}

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

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long", year: "numeric" });
export const timeOf = (t) => clock.format(new Date(t));
export const dayOf = (t) => day.format(new Date(t));

export function message(text, { error = false, action } = {}) {
  const box = el("div", { class: error ? "error" : "" }, el("span", {}, visible(text)));
  if (action) box.append(el("button", { type: "button", onclick: () => { box.remove(); action.run(); } }, action.label));
  box.append(el("button", { type: "button", "aria-label": "Dismiss", onclick: () => box.remove() }, "×"));
  $("messages").append(box);
  setTimeout(() => box.remove(), action ? 30000 : 10000);
}

export const failed = (e) => {
  if (e.name !== "AbortError") message(e.hint ? `${e.message}; ${e.hint}` : e.message, { error: true });
};

// ask shows a dialog and resolves to the pressed button's value, "" if none. With act,
// the dialog closes when act has succeeded; what it fails with is shown, and what was
// typed stays.
export function ask(title, body, buttons, act = async () => {}) {
  const d = $("dialog");
  const wrong = el("p", { class: "error", role: "alert" });
  const form = el("form", { method: "dialog" }, el("h2", { id: "dialog-title" }, title), ...body, wrong,
    el("div", { class: "actions" }, el("button", { type: "button", onclick: () => d.close("") }, "Cancel"),
      ...buttons.map((b) => el("button", { value: b.value, class: b.class || "" }, b.label))));
  form.addEventListener("submit", async (e) => {
    e.preventDefault();
    const value = e.submitter?.value ?? buttons[0]?.value ?? "";
    try {
      await act(value);
      d.close(value);
    } catch (e) {
      wrong.textContent = visible(e.hint ? `${e.message}; ${e.hint}` : e.message);
    }
  });
  d.replaceChildren(form);
  d.returnValue = "";
  d.showModal();
  return new Promise((done) => d.addEventListener("close", () => done(d.returnValue), { once: true }));
}
