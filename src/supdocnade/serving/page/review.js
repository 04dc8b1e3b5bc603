// Review of many photographs: a selection, and what is done with it by buttons and keys.

import { post } from "./api.js";
import { announce, h, plural } from "./dom.js";

const MAX_ACTIVE = 4;
let nReviews = 0;

const tagNames = (photo) => photo.tags.map((each) => each.tag);
const isSame = (one, other) => one.toLowerCase() === other.toLowerCase();

// Says that a photograph has a tag or does not have it. If all of its tags are given, they change; otherwise the others stay suggestions.
function judge(photo, tag, has) {
  const others = tagNames(photo).filter((each) => !isSame(each, tag));
  if (photo.tags_given) return { tags: has ? [...others, tag] : others };
  return { judged: { ...Object.fromEntries(Object.entries(photo.judged).filter(([name]) => !isSame(name, tag))), [tag]: has } };
}

// What people have given a photograph so far, and changes of it.
const given = (photo) => ({ label: photo.label_given ? photo.label : null, tags: photo.tags_given ? tagNames(photo) : null, judged: photo.judged });
const CHANGES = {
  accept: (photo) => ({ label: photo.label, tags: tagNames(photo), judged: {} }),
  reject: (photo, tag) => (tag ? judge(photo, tag, false) : { tags: [], judged: {} }),
  withdraw: () => ({ label: null, tags: null, judged: {} }),
  setClass: (photo, label) => ({ label }),
  addTag: (photo, tag) => judge(photo, tag, true),
};
const changedOnce = (photo, change, value) => ({ ...given(photo), ...CHANGES[change](photo, value) });

// Returns the correction of a photograph after a change, for example by each of several tags.
export function changed(photo, change, values = null) {
  let shown = photo;
  let correction = null;
  for (const value of Array.isArray(values) ? values : [values]) {
    correction = changedOnce(shown, change, value);
    const { label, tags, judged } = correction;
    shown = { ...photo, label: label ?? photo.label, label_given: label !== null, judged, tags_given: tags !== null,
      tags: tags === null ? photo.tags : tags.map((tag) => ({ tag })) };
  }
  return correction;
}
export const KEYS = { a: "accept", x: "reject", u: "withdraw" };

// The photographs of a list, whose items have a box to select them.
export class Review {
  // `tag` is the only tag that is searched for, which alone is then rejected; `onDone` is called after changes.
  constructor(model, list, { tag = null, onDone = () => {} } = {}) {
    this.model = model;
    this.list = list;
    this.onDone = onDone;
    this.items = new Map();
    this.touched = new Set(); // Elements that were changed.
    this.current = null; // The element whose box is reached by Tab; the others are reached from it by arrow keys.
    this.isBusy = false;
    this.bar = this.makeBar();
    this.tag = tag;
    for (const each of [list, this.bar]) each.addEventListener("keydown", (event) => this.handleKey(event));
  }

  set tag(tag) {
    this.rejected = tag;
    this.rejectButton.firstChild.textContent = tag ? `Not ${tag}` : "Reject tags";
  }

  // Adds an item of the list. `target` names its photograph in a correction, `photo` returns its class and tags,
  // and `show` shows them after a change.
  add(element, name, target, photo, show) {
    const box = h("input", { type: "checkbox", class: "pick", "aria-label": `Select ${name}`, onclick: (event) => {
      if (event.shiftKey && this.last) this.selectRange(element, box.checked);
      this.last = element;
      this.update();
    } });
    box.addEventListener("focus", () => this.setCurrent(element));
    this.items.set(element, { box, target, photo, show });
    element.prepend(box);
    this.setTabStop(element, !this.current);
    this.current ??= element;
  }

  remove(element) {
    this.items.delete(element);
    this.update(); // Another one becomes the current one.
  }

  setTabStop(element, isStop) {
    this.items.get(element).box.tabIndex = isStop ? 0 : -1;
    const link = element.querySelector(":scope > a");
    if (link) link.tabIndex = isStop ? 0 : -1;
  }

  setCurrent(element) {
    if (this.items.has(this.current)) this.setTabStop(this.current, false);
    this.current = element;
    this.setTabStop(element, true);
  }

  get shown() {
    return [...this.list.children].filter((each) => !each.hidden && this.items.has(each));
  }

  get chosen() {
    return [...this.items.values()].filter((item) => item.box.checked);
  }

  selectRange(element, isChosen) {
    const { shown } = this;
    const ends = [shown.indexOf(this.last), shown.indexOf(element)].sort((a, b) => a - b);
    for (const each of shown.slice(Math.max(ends[0], 0), ends[1] + 1)) this.items.get(each).box.checked = isChosen;
  }

  select(isChosen) {
    this.items.forEach((item, element) => {
      item.box.checked = isChosen && !element.hidden;
    });
    this.update();
    this.focus();
  }

  // Moves the focus to the current photograph, or to the one after it that is shown.
  focus() {
    const all = [...this.list.children];
    const { shown } = this;
    const next = shown.find((each) => all.indexOf(each) >= all.indexOf(this.current)) ?? shown.at(-1);
    if (next) this.items.get(next).box.focus();
  }

  update(text = "") {
    this.items.forEach((item, element) => {
      if (element.hidden) item.box.checked = false; // What cannot be seen is not changed.
    });
    if (!this.items.has(this.current) || this.current.hidden) {
      const [first] = this.shown;
      if (first) this.setCurrent(first);
    }
    const { length } = this.chosen;
    this.bar.hidden = !length && !text;
    document.body.classList.toggle("reviewing", !this.bar.hidden);
    this.count.textContent = text || `${length.toLocaleString("en")} selected`;
  }

  makeBar() {
    nReviews += 1;
    const button = (name, key, action) => h("button", { type: "button", "aria-keyshortcuts": key, title: `Key ${key}`, onclick: action }, name, h("kbd", {}, key));
    const field = (name, names, actions) => {
      const input = h("input", { type: "text", list: `review-${nReviews}-${name}`, maxlength: 200, autocomplete: "off", placeholder: name, "aria-label": `${name} of the selected photographs` });
      const run = (change) => {
        const value = input.value.trim();
        if (!value) return input.focus();
        input.value = "";
        const values = (change === "setClass" ? [value] : value.split(/[,;|]/)).map((each) => each.trim()).filter(Boolean);
        if (!values.length) return input.focus();
        return this.apply(change, values.map((each) => names.find((known) => isSame(known, each)) ?? each));
      };
      return h("form", { onsubmit: (event) => {
        event.preventDefault();
        run(actions[0][1]);
      } }, input, h("datalist", { id: `review-${nReviews}-${name}` }, names.map((each) => h("option", { value: each }))),
        actions.map(([text, change], i) => h("button", { type: i ? "button" : "submit", onclick: i ? () => run(change) : null }, text)));
    };
    this.count = h("b", { role: "status" });
    this.problem = h("p", { class: "problem", role: "alert", hidden: true });
    this.rejectButton = button("", "X", () => this.apply("reject", this.rejected));
    return h("div", { class: "review-bar", role: "region", "aria-label": "Selected photographs", hidden: true }, this.count,
      button("Accept", "A", () => this.apply("accept")), this.rejectButton, button("Withdraw", "U", () => this.apply("withdraw")),
      this.model.classes.length ? field("Class", this.model.classes, [["Set", "setClass"]]) : null,
      field("Tag", this.model.tags, [["Add", "addTag"], ["Remove", "reject"]]),
      h("button", { type: "button", class: "quiet", onclick: () => this.select(false) }, "Clear"), this.problem);
  }

  // Changes the photographs that are selected, or the current one, and saves them as corrections.
  async apply(change, value = null) {
    const items = this.chosen.length ? this.chosen : [this.items.get(this.current)].filter(Boolean);
    if (this.isBusy || !items.length) return;
    this.isBusy = true;
    this.problem.hidden = true;
    const elements = new Map([...this.items].map(([element, item]) => [item, element]));
    const waiting = [...items];
    let nDone = 0;
    const work = async () => {
      for (let item = waiting.shift(); item; item = waiting.shift()) {
        const correction = changed(item.photo(), change, value);
        await post("/v1/corrections", { ...item.target, ...correction });
        await item.show(correction);
        item.box.checked = false;
        this.touched.add(elements.get(item));
        nDone += 1;
        if (items.length > 20) this.update(`${nDone} of ${items.length}`);
      }
    };
    try {
      await Promise.all(Array.from({ length: MAX_ACTIVE }, work));
      announce(`${plural(nDone, "photograph")} saved.`);
    } catch (error) {
      waiting.length = 0;
      this.problem.textContent = error.message;
      this.problem.hidden = false;
    }
    this.isBusy = false;
    this.update(this.problem.hidden ? "" : `${nDone} of ${items.length} saved`);
    await this.onDone();
    const { activeElement } = document;
    if (activeElement === document.body || activeElement.closest("[hidden]")) this.focus();
  }

  handleKey(event) {
    const isText = event.target.matches("select, textarea, input:not(.pick)");
    if (event.altKey || event.metaKey) return;
    const element = event.target.closest("li");
    const change = KEYS[event.key.toLowerCase()];
    if (event.key === "Escape") this.select(false);
    else if (isText || !this.items.has(element)) return;
    else if (event.ctrlKey && event.key === "a") this.select(true);
    else if (event.ctrlKey) return;
    else if (event.key === "Enter" && event.target.matches(".pick")) element.querySelector(":scope > a, .open")?.click();
    else if (change) this.apply(change, change === "reject" ? this.rejected : null);
    else if (!this.moveFocus(event, element)) return;
    event.preventDefault();
  }

  // Moves the focus from one photograph to another by an arrow key, with Shift selecting it; returns whether it was one.
  moveFocus(event, element) {
    const { shown } = this;
    const top = element.getBoundingClientRect().top;
    const perRow = shown.filter((each) => Math.abs(each.getBoundingClientRect().top - top) < 2).length;
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -perRow, ArrowDown: perRow }[event.key];
    if (!step) return false;
    const next = shown[shown.indexOf(element) + step];
    if (next) this.items.get(next).box.focus();
    if (next && event.shiftKey) {
      this.last = element;
      this.selectRange(next, true);
      this.update();
    }
    return true;
  }
}
