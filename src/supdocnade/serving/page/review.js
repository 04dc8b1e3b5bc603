// Review of many photographs: a selection, and what is done with it by buttons and keys.

import { post } from "./api.js";
import { announce, h, plural } from "./dom.js";

const MAX_ACTIVE = 4;
let nReviews = 0;

const tagNames = (photo) => photo.tags.map((each) => each.tag);

// Changes of a photograph: class and tags that are given, null if they are not.
const CHANGES = {
  accept: (photo) => ({ label: photo.label, tags: tagNames(photo) }),
  reject: (photo, tag) => ({ tags: tag ? tagNames(photo).filter((each) => each !== tag) : [] }),
  withdraw: () => ({ label: null, tags: null }),
  setClass: (photo, label) => ({ label }),
  addTag: (photo, tag) => ({ tags: [...new Set([...tagNames(photo), tag])] }),
};
const KEYS = { a: "accept", x: "reject", u: "withdraw" };

// The photographs of a list, whose items have a box to select them.
export class Review {
  // `tag` is the only tag that is shown, which alone is rejected; `onDone` is called after changes.
  constructor(model, list, { tag = null, onDone = () => {} } = {}) {
    this.list = list;
    this.tag = tag;
    this.onDone = onDone;
    this.items = new Map();
    this.isBusy = false;
    this.bar = this.makeBar(model);
    list.addEventListener("keydown", (event) => this.handleKey(event));
  }

  // Adds an item of the list. `target` names its photograph in a correction, `photo` returns its class and tags,
  // and `show` shows them after a change.
  add(element, name, target, photo, show) {
    const box = h("input", { type: "checkbox", class: "pick", "aria-label": `Select ${name}`, onchange: () => this.update() });
    box.tabIndex = this.items.size ? -1 : 0; // One box is reached by Tab, the others from it by arrow keys.
    box.addEventListener("focus", () => {
      for (const item of this.items.values()) item.box.tabIndex = item.box === box ? 0 : -1;
    });
    this.items.set(element, { box, target, photo, show });
    element.prepend(box);
  }

  remove(element) {
    this.items.delete(element);
    this.update();
  }

  get chosen() {
    return [...this.items.values()].filter((item) => item.box.checked);
  }

  select(isChosen) {
    this.items.forEach((item, element) => {
      item.box.checked = isChosen && !element.hidden;
    });
    this.update();
  }

  update(text = "") {
    const { length } = this.chosen;
    this.bar.hidden = !length && !text;
    this.count.textContent = text || `${length.toLocaleString("en")} selected`;
  }

  makeBar(model) {
    nReviews += 1;
    const button = (name, key, action) => h("button", { type: "button", "aria-keyshortcuts": key, title: `Key ${key}`, onclick: action }, name, h("kbd", {}, key));
    const field = (name, names, actions) => {
      const input = h("input", { type: "text", list: `review-${nReviews}-${name}`, maxlength: 200, autocomplete: "off", placeholder: name, "aria-label": `${name} of the selected photographs` });
      const run = (change) => {
        const value = input.value.trim();
        if (!value) return input.focus();
        input.value = "";
        return this.apply(change, value);
      };
      return h("form", { onsubmit: (event) => {
        event.preventDefault();
        run(actions[0][1]);
      } }, input, h("datalist", { id: `review-${nReviews}-${name}` }, names.map((each) => h("option", { value: each }))),
        actions.map(([text, change], i) => h("button", { type: i ? "button" : "submit", onclick: i ? () => run(change) : null }, text)));
    };
    this.count = h("b", { role: "status" });
    this.problem = h("p", { class: "problem", role: "alert", hidden: true });
    return h("div", { class: "review-bar", role: "region", "aria-label": "Selected photographs", hidden: true }, this.count,
      button("Accept", "A", () => this.apply("accept")),
      button(this.tag ? `Not ${this.tag}` : "Reject tags", "X", () => this.apply("reject", this.tag)),
      button("Withdraw", "U", () => this.apply("withdraw")),
      model.classes.length ? field("Class", model.classes, [["Set", "setClass"]]) : null,
      field("Tag", model.tags, [["Add", "addTag"], ["Remove", "reject"]]),
      h("button", { type: "button", class: "quiet", onclick: () => this.select(false) }, "Clear selection"), this.problem);
  }

  // Changes the photographs that are selected, or the one with the focus, and saves them as corrections.
  async apply(change, value = null) {
    const focused = this.items.get(document.activeElement.closest("li"));
    const items = this.chosen.length ? this.chosen : [focused].filter(Boolean);
    if (this.isBusy || !items.length) return;
    this.isBusy = true;
    this.problem.hidden = true;
    const waiting = [...items];
    let nDone = 0;
    const work = async () => {
      for (let item = waiting.shift(); item; item = waiting.shift()) {
        const photo = item.photo();
        const kept = { label: photo.label_given ? photo.label : null, tags: photo.tags_given ? tagNames(photo) : null };
        const given = { ...kept, ...CHANGES[change](photo, value) };
        await post("/v1/corrections", { ...item.target, ...given });
        await item.show(given);
        nDone += 1;
        if (items.length > 20) this.update(`${nDone} of ${items.length}`);
      }
    };
    try {
      await Promise.all(Array.from({ length: MAX_ACTIVE }, work));
      announce(`${plural(nDone, "photograph")} saved.`);
      for (const item of items) item.box.checked = false;
    } catch (error) {
      waiting.length = 0;
      this.problem.textContent = error.message;
      this.problem.hidden = false;
    }
    this.isBusy = false;
    this.update(this.problem.hidden ? "" : `${nDone} of ${items.length} saved`);
    this.onDone();
  }

  handleKey(event) {
    const element = event.target.closest("li");
    const isText = event.target.matches("select, textarea, input:not(.pick)");
    if (isText || !this.items.has(element) || event.altKey || event.metaKey) return;
    const change = KEYS[event.key.toLowerCase()];
    if (event.ctrlKey && event.key === "a") this.select(true);
    else if (event.ctrlKey) return;
    else if (event.key === "Escape") this.select(false);
    else if (change) this.apply(change, change === "reject" ? this.tag : null);
    else if (!moveFocus(event, [...this.list.children].filter((each) => !each.hidden && this.items.has(each)), element)) return;
    event.preventDefault();
  }
}

// Moves the focus from one item of a grid to another by an arrow key; returns whether it was one.
function moveFocus(event, elements, element) {
  const top = element.getBoundingClientRect().top;
  const perRow = elements.filter((each) => Math.abs(each.getBoundingClientRect().top - top) < 2).length;
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -perRow, ArrowDown: perRow }[event.key];
  if (!step) return false;
  elements[elements.indexOf(element) + step]?.querySelector(".pick").focus();
  return true;
}
