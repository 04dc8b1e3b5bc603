// Photographs that are dropped, pasted or chosen: a card for each, as its answer comes.

import { send } from "./api.js";
import { announce, called, h, many, percent } from "./dom.js";
import { photoGrid } from "./gallery.js";
import { drawHeat, drawLegend } from "./heatmap.js";

const AT_ONCE = 3;
const SHOWN_CLASSES = 5;

const results = document.getElementById("results");
const waiting = [];
const cards = new Set();
let working = 0;
let hasGallery = false;

export function startPhotographs(model) {
  hasGallery = model.gallery !== null;
  document.getElementById("about").textContent = sentence(model);
  const input = document.getElementById("files");
  input.addEventListener("change", () => {
    take(input.files);
    input.value = "";
  });
  document.addEventListener("paste", (event) => take(event.clipboardData?.files));
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    document.body.classList.add("over");
  });
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) document.body.classList.remove("over");
  });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("over");
    if (event.dataTransfer.files.length) location.hash = "#/";
    take(event.dataTransfer.files);
  });
  document.getElementById("clear").addEventListener("click", () => {
    waiting.length = 0;
    cards.forEach((card) => card.end());
    update();
    document.getElementById("files").focus();
    announce("All photographs removed.");
  });
}

function sentence(model) {
  const classes = model.classes.length ? `${many(model.classes.length, "class")}` : "";
  const tags = model.tags.length ? many(model.tags.length, "tag") : "";
  const known = [classes, tags].filter(Boolean).join(" and ") || "topics";
  return `This model has learned ${known} from ${many(model.n_images, "photograph")}. `
    + "It tells the class and the tags of others, and shows what in them spoke for it.";
}

function take(files) {
  const given = [...(files ?? [])];
  if (!given.length) return;
  announce(`${many(given.length, "photograph")} received.`);
  // The newest on top, in their own order.
  const added = given.map((file) => new Card(file));
  results.prepend(...added.map((card) => card.element));
  waiting.push(...added);
  update();
  work();
}

function update() {
  const some = results.children.length > 0;
  document.getElementById("photographs").classList.toggle("some", some);
  document.getElementById("results-head").hidden = !some;
}

function work() {
  while (working < AT_ONCE && waiting.length) {
    const card = waiting.shift();
    working += 1;
    card.ask().finally(() => {
      working -= 1;
      work();
    });
  }
}

class Card {
  constructor(file) {
    this.file = file;
    this.name = file.name || "pasted image";
    this.shown = null;
    this.turn = 0;
    this.stopping = new AbortController();
    cards.add(this);
    this.photograph = h("img", { alt: `The photograph ${this.name}` });
    this.heat = h("canvas", { hidden: true, role: "img" });
    this.legend = h("figcaption", { class: "legend", hidden: true });
    this.picture = h("div", { class: "picture" }, this.photograph, this.heat);
    this.said = h("div", { class: "said-box" });
    this.like = h("div", { class: "like" });
    this.element = h("li", {}, h("article", { class: "result", "aria-label": this.name },
      h("figure", {}, this.picture, this.legend), this.said, this.like));
    this.photograph.addEventListener("error", () => {
      this.photograph.replaceWith(h("p", { class: "unshown soft small" }, "This browser cannot show this file."));
      this.photograph = null;
    });
    this.photograph.src = URL.createObjectURL(file);
    this.say(h("p", { class: "waiting" }, "Waiting …"));
  }

  header(...children) {
    const close = h("button", { type: "button", class: "close", "aria-label": `Remove ${this.name}`, onclick: () => this.remove() }, "×");
    return h("header", {}, h("div", {}, h("p", { class: "file soft" }, called(this.name)), ...children), close);
  }

  say(...children) {
    this.said.replaceChildren(this.header(), ...children);
  }

  remove() {
    const at = waiting.indexOf(this);
    if (at >= 0) waiting.splice(at, 1);
    const next = this.element.nextElementSibling ?? this.element.previousElementSibling;
    this.end();
    update();
    (next?.querySelector(".close") ?? document.getElementById("files")).focus();
    announce(`${this.name} removed.`);
  }

  // Takes the card away, and nobody waits for its answer any more.
  end() {
    this.stopping.abort();
    this.turn += 1;
    cards.delete(this);
    if (this.photograph) URL.revokeObjectURL(this.photograph.src);
    this.element.remove();
  }

  async ask() {
    this.say(h("p", { class: "waiting" }, "Looking …"));
    const onBusy = (seconds) =>
      this.say(h("p", { class: "waiting" }, `The server is busy; asking again in ${many(seconds, "second")} …`));
    const stop = this.stopping.signal;
    try {
      const answer = await send("/v1/predict", this.file, { onBusy, stop });
      if (!stop.aborted) this.answered(answer.predictions[0]);
    } catch (error) {
      if (stop.aborted) return;
      this.say(h("p", { class: "problem" }, error.message));
      announce(`${this.name}: ${error.message}`);
    }
  }

  answered(found) {
    this.found = found;
    this.buttons = new Map();
    const tagged = found.tags.map((tag) => this.tagButton(tag));
    const parts = [this.header(
      found.label === null ? null : h("h3", { class: "answer" }, called(found.label), " ", h("small", {}, percent(found.probability))),
      found.unsure ? h("p", { class: "unsure" }, "Unsure: labels of so little probability were wrong more often than right.") : null,
    )];
    if (found.label !== null) parts.push(h("section", { class: "part" }, h("h4", {}, "Class"), ...this.chances(found)));
    parts.push(h("section", { class: "part" }, h("h4", {}, "Tags"),
      tagged.length ? h("ul", { class: "tags" }, tagged.map((each) => h("li", {}, each))) : h("p", { class: "soft small" }, "None is probable enough.")));
    parts.push(h("p", { class: "hint" }, "Choose a class or a tag to see what in the photograph spoke for it."));
    if (hasGallery) {
      parts.push(h("div", { class: "deeds" }, h("button", { type: "button", onclick: () => this.showLike() }, "More like this")));
    }
    this.said.replaceChildren(...parts);
    const tags = found.tags.map((each) => each.tag).join(", ");
    announce(`${this.name}: ${found.label === null ? "" : `${found.label}, ${percent(found.probability)}. `}${tags ? `Tags: ${tags}.` : "No tags."}`);
  }

  chances(found) {
    const sorted = Object.entries(found.probabilities).sort((a, b) => b[1] - a[1]);
    const row = ([label, share]) => {
      const button = h("button", { type: "button", "aria-pressed": "false", onclick: () => this.explain("label", label) },
        called(label), h("i", { "--v": share.toFixed(4) }), h("span", {}, percent(share)));
      this.buttons.set(`label ${label}`, button);
      return h("li", {}, button);
    };
    const list = h("ul", { class: "chances" }, sorted.slice(0, SHOWN_CLASSES).map(row));
    const rest = sorted.slice(SHOWN_CLASSES);
    return rest.length
      ? [list, h("details", {}, h("summary", { class: "small" }, `${rest.length} more`), h("ul", { class: "chances" }, rest.map(row)))]
      : [list];
  }

  tagButton({ tag, probability }) {
    const button = h("button", { type: "button", "aria-pressed": "false", onclick: () => this.explain("tag", tag) },
      called(tag), h("small", {}, percent(probability)));
    this.buttons.set(`tag ${tag}`, button);
    return button;
  }

  async explain(kind, name) {
    const key = `${kind} ${name}`;
    this.turn += 1;
    const turn = this.turn;
    const pressed = this.shown !== key;
    this.shown = pressed ? key : null;
    for (const [each, button] of this.buttons) button.setAttribute("aria-pressed", String(pressed && each === key));
    if (!pressed) {
      this.hideHeat();
      announce("The photograph without colours.");
      return;
    }
    try {
      const found = await send(`/v1/explain?${new URLSearchParams({ [kind]: name })}`, this.file, { stop: this.stopping.signal });
      if (turn !== this.turn) return;
      await drawHeat(this.heat, this.photograph, found);
      this.showHeat(found);
    } catch (error) {
      if (turn !== this.turn) return;
      this.hideHeat();
      this.legend.hidden = false;
      this.legend.replaceChildren(h("p", { class: "problem" }, error.message));
      announce(error.message);
    }
  }

  showHeat(found) {
    const text = `Bright parts spoke for ${found.name}, dark parts against it.`;
    this.heat.hidden = false;
    this.heat.setAttribute("aria-label", text);
    if (this.photograph) this.photograph.hidden = true;
    const bar = h("canvas", { "aria-hidden": "true" });
    drawLegend(bar, found);
    const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
    this.legend.replaceChildren(bar,
      h("div", { class: "ends" }, h("span", {}, "spoke against ", called(found.name)), h("span", {}, "spoke for ", called(found.name))),
      h("div", {}, `${found.score[0].toUpperCase()}${found.score.slice(1)} ${signed(found.whole)} = without any patch ${signed(found.empty)}, patches for it ${signed(found.spoke_for)}, patches against it ${signed(found.spoke_against)}.`));
    this.legend.hidden = false;
    announce(text);
  }

  hideHeat() {
    this.heat.hidden = true;
    this.legend.hidden = true;
    if (this.photograph) this.photograph.hidden = false;
  }

  async showLike() {
    if (this.like.childElementCount) {
      this.like.replaceChildren();
      return;
    }
    this.like.replaceChildren(h("p", { class: "waiting" }, "Looking …"));
    try {
      const { similar } = await send("/v1/similar?top=12", this.file, { stop: this.stopping.signal });
      this.like.replaceChildren(h("h4", {}, "More like this in the gallery"), photoGrid(similar[0].photographs, "small"));
      announce(`${many(similar[0].photographs.length, "photograph")} like ${this.name}.`);
    } catch (error) {
      this.like.replaceChildren(h("p", { class: "problem" }, error.message));
    }
  }
}
