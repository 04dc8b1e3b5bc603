// The view of the user's photographs: one card per file that is dropped, pasted or chosen.

import { send } from "./api.js";
import { correctionPanel, said } from "./corrections.js";
import { announce, bdi, className, h, percent, plural, saveTable } from "./dom.js";
import { photoGrid } from "./gallery.js";
import { drawHeatmap, drawLegend } from "./heatmap.js";
import { Review } from "./review.js";

const MAX_ACTIVE = 3;
const N_SHOWN_CLASSES = 5;
const N_LARGE = 4; // More photographs are shown as a grid of small cards.
const IMAGE = /^image\/|\.(jpe?g|png|webp|tiff?|heic|heif|avif|cr[23]|nef|arw|raf|orf|rw2|dng)$/i;

const results = document.getElementById("results");
const queue = [];
const cards = new Set();
let nActive = 0;
let model = null;
let review = null;

// The training photographs that vote for a tag, since they are similar and have it.
function listVoters({ name, voters }) {
  const item = (voter) => h("li", {},
    voter.picture ? h("img", { src: `data:image/jpeg;base64,${voter.picture}`, alt: "" }) : null,
    h("span", {}, bdi(voter.name.split("/").pop()), ` ${percent(voter.share)}`));
  if (!voters.length) return [];
  return [h("p", {}, "Similar training photographs with ", bdi(name), ", and their weight:"),
    h("ul", {}, ...voters.map(item))];
}

export function startPhotographs(served) {
  model = served;
  if (model.corrections) {
    review = new Review(model, results, { onDone: updateHeading });
    results.before(review.bar);
  }
  document.getElementById("about").textContent = describeModel();
  const input = document.getElementById("files");
  input.addEventListener("change", () => {
    addFiles(input.files);
    input.value = "";
  });
  document.addEventListener("paste", (event) => addFiles(event.clipboardData?.files));
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    document.body.classList.add("dragging");
  });
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) document.body.classList.remove("dragging");
  });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("dragging");
    if (event.dataTransfer.files.length) location.hash = "#/";
    droppedFiles(event.dataTransfer).then(addFiles);
  });
  document.getElementById("show").addEventListener("change", updateHeading);
  document.getElementById("save").addEventListener("click", saveCards);
  document.getElementById("clear").addEventListener("click", () => {
    queue.length = 0;
    cards.forEach((card) => card.discard());
    updateHeading();
    document.getElementById("files").focus();
    announce("All photographs removed.");
  });
}

function describeModel() {
  const classes = model.classes.length ? plural(model.classes.length, "class") : "";
  const tags = model.tags.length ? plural(model.tags.length, "tag") : "";
  const outputs = [classes, tags].filter(Boolean).join(" and ") || "topics";
  return `This model has learned ${outputs} from ${plural(model.n_images, "photograph")}. `
    + "It suggests a class and tags for new photographs, and shows why.";
}

// Returns the photographs of what was dropped, also those in folders.
async function droppedFiles({ items, files }) {
  const entries = [...(items ?? [])].map((each) => each.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.some((each) => each.isDirectory)) return files;
  const opened = async (entry) => {
    if (entry.isFile) return new Promise((resolve) => entry.file((file) => resolve([file]), () => resolve([])));
    const reader = entry.createReader();
    const found = [];
    for (let some; (some = await new Promise((resolve) => reader.readEntries(resolve, () => resolve([])))).length;) found.push(...some);
    return (await Promise.all(found.filter((each) => !each.name.startsWith(".")).map(opened))).flat();
  };
  return (await Promise.all(entries.map(opened))).flat().filter((each) => IMAGE.test(each.type || each.name));
}

export function addFiles(files) {
  const given = [...(files ?? [])];
  if (!given.length) return;
  announce(`${plural(given.length, "photograph")} received.`);
  // New photographs come first, in their own order.
  const added = given.map((file) => new Card(file));
  results.prepend(...added.map((card) => card.element));
  queue.push(...added);
  updateHeading();
  startQueued();
}

function updateHeading() {
  const hasResults = results.children.length > 0;
  document.getElementById("photographs").classList.toggle("has-results", hasResults);
  document.getElementById("results-head").hidden = !hasResults;
  results.classList.toggle("many", cards.size > N_LARGE);
  const done = [...cards].filter((card) => card.isDone);
  document.getElementById("count").textContent = done.length < cards.size ? `${done.length} of ${cards.size}` : plural(cards.size, "photograph");
  document.getElementById("save").hidden = !done.some((card) => card.prediction);
  showChosen();
}

const STATES = {
  unsure: ["Unsure", (card) => card.prediction?.unsure],
  unfamiliar: ["Unlike anything learned", (card) => card.prediction?.unfamiliar],
  unreviewed: ["Not reviewed yet", (card) => card.prediction && !card.isReviewed],
};

// Fills the choice of what is shown, and shows these cards.
function showChosen() {
  const select = document.getElementById("show");
  const chosen = select.value;
  const counts = new Map();
  for (const card of cards) for (const { tag } of card.prediction?.tags ?? []) counts.set(tag, (counts.get(tag) ?? 0) + 1);
  const tags = [...counts].sort((a, b) => b[1] - a[1]).map(([tag, count]) => [`tag ${tag}`, `${tag} (${count})`]);
  const states = Object.entries(STATES).filter(([name]) => model.corrections || name !== "unreviewed").map(([name, [text]]) => [name, text]);
  select.replaceChildren(...[["", "All"], ...states, ...tags].map(([value, text]) => h("option", { value, selected: value === chosen }, text)));
  select.parentElement.hidden = cards.size <= N_LARGE;
  const isShown = (card) => !select.value || (STATES[select.value]?.[1](card) ?? card.prediction?.tags.some(({ tag }) => `tag ${tag}` === select.value));
  for (const card of cards) card.element.hidden = !isShown(card);
  if (!review) return;
  review.tag = select.value.startsWith("tag ") ? select.value.slice(4) : null;
  review.update(review.isBusy ? review.count.textContent : "");
}

function saveCards() {
  saveTable("predictions.csv", ["file", "label", "probability", "tags"], [...cards].filter((card) => card.prediction).map((card) => {
    const { label, probability, tags } = card.answer();
    return [card.name, label, probability?.toFixed(4), tags.map((each) => each.tag).join("|")];
  }));
}

function startQueued() {
  while (nActive < MAX_ACTIVE && queue.length) {
    const card = queue.shift();
    nActive += 1;
    card.predict().finally(() => {
      nActive -= 1;
      startQueued();
    });
  }
}

class Card {
  constructor(file) {
    this.file = file;
    this.name = file.name || "pasted image";
    this.explained = null;
    this.nExplanations = 0;
    this.abort = new AbortController();
    cards.add(this);
    this.photograph = h("img", { alt: `Photograph ${this.name}` });
    this.heatmap = h("canvas", { hidden: true, role: "img" });
    this.legend = h("figcaption", { class: "legend", hidden: true });
    this.voters = h("div", { class: "voters" });
    this.picture = h("div", { class: "picture" }, this.photograph, this.heatmap);
    this.isDone = false;
    this.given = { label: null, tags: null, judged: {} };
    this.mark = h("p", { class: "given" });
    this.body = h("div", { class: "result-body" });
    this.similar = h("div", { class: "similar" });
    this.element = h("li", {}, h("article", { class: "result", "aria-label": this.name },
      h("figure", {}, this.picture, this.legend), this.body, this.similar));
    this.photograph.addEventListener("error", () => this.loadPreview(), { once: true });
    this.photograph.src = URL.createObjectURL(file);
    this.showMessage("waiting", "Waiting …");
  }

  // Shows a preview of the server where the browser does not know the format, such as TIFF.
  async loadPreview() {
    try {
      const preview = await send("/v1/preview", this.file, { signal: this.abort.signal, read: "blob" });
      URL.revokeObjectURL(this.photograph.src);
      this.photograph.src = URL.createObjectURL(preview);
    } catch {
      this.photograph.replaceWith(h("p", { class: "no-preview soft small" }, "This file cannot be displayed."));
      this.photograph = null;
    }
  }

  header(...children) {
    const close = h("button", { type: "button", class: "close", "aria-label": `Remove ${this.name}`, onclick: () => this.remove() }, "×");
    return h("header", {}, h("div", {}, h("p", { class: "file soft" }, bdi(this.name)), ...children), close);
  }

  showMessage(kind, text) {
    this.body.replaceChildren(this.header(), h("p", { class: kind }, text));
  }

  remove() {
    const index = queue.indexOf(this);
    if (index >= 0) queue.splice(index, 1);
    const next = this.element.nextElementSibling ?? this.element.previousElementSibling;
    this.discard();
    updateHeading();
    (next?.querySelector(".close") ?? document.getElementById("files")).focus();
    announce(`${this.name} removed.`);
  }

  // Removes the card and aborts its requests.
  discard() {
    this.abort.abort();
    this.nExplanations += 1;
    cards.delete(this);
    review?.remove(this.element);
    if (this.photograph) URL.revokeObjectURL(this.photograph.src);
    this.element.remove();
  }

  async predict() {
    this.showMessage("waiting", "Predicting …");
    const onBusy = (seconds) => this.showMessage("waiting", `The server is busy; retrying in ${plural(seconds, "second")} …`);
    const { signal } = this.abort;
    try {
      const response = await send("/v1/predict", this.file, { onBusy, signal });
      if (!signal.aborted) this.showPrediction(response.predictions[0]);
    } catch (error) {
      if (signal.aborted) return;
      this.showMessage("problem", error.message);
      announce(`${this.name}: ${error.message}`);
    }
    this.isDone = true;
    updateHeading();
  }

  // Returns class and tags: those that somebody has given, or else the predicted ones.
  answer() {
    const { label, judged } = this.given;
    const { tags } = this.given;
    if (tags === null && Object.keys(judged).length) { // The others stay suggestions.
      const named = this.prediction.tags.map((each) => each.tag);
      return { ...this.prediction, ...(label !== null && { label, probability: 1 }), label_given: label !== null, tags_given: false, judged,
        tags: [...new Set([...named, ...Object.keys(judged)])].filter((tag) => judged[tag] ?? true).map((tag) => ({ tag, probability: 1 })) };
    }
    return { ...this.prediction, judged, label_given: label !== null, tags_given: tags !== null, ...(label !== null && { label, probability: 1 }),
      ...(tags !== null && { tags: tags.map((tag) => ({ tag, probability: 1 })) }) };
  }

  get isReviewed() {
    return this.given.label !== null || this.given.tags !== null;
  }

  showGiven(given) {
    this.given = { label: given.label ?? null, tags: given.tags ?? null, judged: given.judged ?? {} };
    const isJudged = Object.keys(this.given.judged).length > 0;
    this.mark.replaceChildren(...(this.isReviewed || isJudged ? [h("b", {}, this.isReviewed ? "✓ reviewed: " : "✓ judged: "), bdi(said(this.given))] : []));
    const kept = new Set(this.answer().tags.map((each) => each.tag));
    for (const [key, button] of this.buttons) if (key.startsWith("tag ")) button.classList.toggle("rejected", !kept.has(key.slice(4)));
  }

  showPrediction(prediction) {
    this.buttons = new Map();
    this.prediction = prediction;
    const tagButtons = prediction.tags.map((tag) => this.tagButton(tag));
    const parts = [this.header(
      prediction.label === null ? null : h("h3", { class: "prediction" }, className(prediction)),
      prediction.unsure ? h("p", { class: "unsure" }, "Unsure: in tests, answers with so low a probability were mostly wrong.") : null,
      prediction.unfamiliar ? h("p", { class: "unsure" }, "Unlike the training photographs: the answer may be wrong.") : null,
      this.mark,
    )];
    if (prediction.label !== null) parts.push(h("section", { class: "part" }, h("h4", {}, "Class"), ...this.probabilityLists(prediction)));
    parts.push(h("section", { class: "part" }, h("h4", {}, "Tags"),
      tagButtons.length ? h("ul", { class: "tags" }, tagButtons.map((each) => h("li", {}, each))) : h("p", { class: "soft small" }, "No likely tags."), this.tagSelect(prediction)));
    parts.push(this.voters, h("p", { class: "hint" }, "Choose a class or a tag to see which parts of the photograph support it."));
    const similar = model.gallery === null ? null : h("button", { type: "button", onclick: () => this.toggleSimilar() }, "More like this");
    const { key } = prediction;
    const target = { key, file: this.name };
    const correct = model.corrections ? correctionPanel(model, target, this.name, () => this.answer(), (given) => this.showGiven(given)) : null;
    review?.add(this.element, this.name, target, () => this.answer(), (given) => this.showGiven(given));
    if (similar || correct) parts.push(h("div", { class: "actions", onclick: () => this.element.classList.remove("explained") }, similar, correct));
    const open = h("button", { type: "button", class: "quiet open", "aria-expanded": "false", onclick: () => {
      open.setAttribute("aria-expanded", String(this.element.classList.toggle("is-open")));
      open.textContent = this.element.classList.contains("is-open") ? "Less" : "More";
    } }, "More");
    parts.push(open);
    this.body.replaceChildren(...parts);
    const tags = prediction.tags.map((each) => each.tag).join(", ");
    announce(`${this.name}: ${prediction.label === null ? "" : `${prediction.label}, ${percent(prediction.probability)}. `}${prediction.unfamiliar ? "Unlike the training photographs. " : ""}${tags ? `Tags: ${tags}.` : "No tags."}`);
  }

  probabilityLists(prediction) {
    const sorted = Object.entries(prediction.probabilities).sort((a, b) => b[1] - a[1]);
    const row = ([label, share]) => {
      const button = h("button", { type: "button", "aria-pressed": "false", onclick: () => this.explain("label", label) },
        bdi(label), h("i", { "--v": share.toFixed(4) }), h("span", {}, percent(share)));
      this.buttons.set(`label ${label}`, button);
      return h("li", {}, button);
    };
    const list = h("ul", { class: "probabilities" }, sorted.slice(0, N_SHOWN_CLASSES).map(row));
    const rest = sorted.slice(N_SHOWN_CLASSES);
    return rest.length
      ? [list, h("details", {}, h("summary", { class: "small" }, `${rest.length} more`), h("ul", { class: "probabilities" }, rest.map(row)))]
      : [list];
  }

  tagButton({ tag, probability }) {
    const button = h("button", { type: "button", "aria-pressed": "false", onclick: () => this.explain("tag", tag) },
      bdi(tag), h("small", {}, percent(probability)));
    this.buttons.set(`tag ${tag}`, button);
    return button;
  }

  // A choice among the tags that were not given.
  tagSelect(prediction) {
    const given = new Set(prediction.tags.map((each) => each.tag));
    const others = model.tags.filter((tag) => !given.has(tag));
    if (!others.length) return null;
    this.otherTags = h("select", { onchange: () => this.explain("tag", this.otherTags.value) },
      h("option", { value: "" }, "Why not …"), others.map((tag) => h("option", { value: tag }, tag)));
    return h("label", { class: "other-tags" }, h("span", { class: "visually-hidden" }, "Explain a tag that was not given"), this.otherTags);
  }

  async explain(kind, name) {
    const key = `${kind} ${name}`;
    this.nExplanations += 1;
    const number = this.nExplanations;
    const pressed = name !== "" && this.explained !== key;
    this.explained = pressed ? key : null;
    for (const [each, button] of this.buttons) button.setAttribute("aria-pressed", String(pressed && each === key));
    if (this.otherTags && (kind !== "tag" || this.buttons.has(key))) this.otherTags.value = "";
    if (!pressed) {
      this.hideHeatmap();
      announce("The photograph without colours.");
      return;
    }
    try {
      const explanation = await send(`/v1/explain?${new URLSearchParams({ [kind]: name })}`, this.file, { signal: this.abort.signal });
      if (number !== this.nExplanations) return; // Another class or tag has been chosen in the meantime.
      await drawHeatmap(this.heatmap, this.photograph, explanation);
      this.showHeatmap(explanation);
    } catch (error) {
      if (number !== this.nExplanations) return;
      this.hideHeatmap();
      this.legend.hidden = false;
      this.legend.replaceChildren(h("p", { class: "problem" }, error.message));
      announce(error.message);
    }
  }

  showHeatmap(explanation) {
    const { name, whole, empty, decision } = explanation;
    const text = `Bright areas support ${name}, dark areas oppose it.`;
    this.heatmap.hidden = false;
    this.heatmap.setAttribute("aria-label", text);
    if (this.photograph) this.photograph.hidden = true;
    const scale = h("canvas", { "aria-hidden": "true" });
    drawLegend(scale, explanation);
    const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
    this.legend.replaceChildren(scale,
      h("div", { class: "ends" }, h("span", {}, "opposes ", bdi(name)), h("span", {}, "supports ", bdi(name))),
      h("p", { class: "decision" }, bdi(name), `, ${decision}.`),
      h("details", {}, h("summary", {}, "Score"),
        `${signed(whole)} = ${signed(empty)} for an empty picture, ${signed(explanation.spoke_for)} from patches that support it, ${signed(explanation.spoke_against)} from patches against it${explanation.global_share ? `, ${signed(explanation.global_share)} from the picture as a whole` : ""}.`));
    this.voters.replaceChildren(...listVoters(explanation));
    this.legend.hidden = false;
    this.element.classList.add("explained");
    this.uncover(this.buttons.get(this.explained) ?? this.otherTags);
    announce(`${text} ${name}, ${decision}.`);
  }

  // Scrolls until the picture, which stays on top of a narrow screen, does not cover a control.
  uncover(control) {
    const figure = this.picture.parentElement;
    const covered = figure.getBoundingClientRect().bottom - control.getBoundingClientRect().top;
    if (getComputedStyle(figure).position === "sticky" && covered > 0) window.scrollBy(0, -covered - 12);
  }

  hideHeatmap() {
    this.heatmap.hidden = true;
    this.legend.hidden = true;
    this.voters.replaceChildren();
    this.element.classList.remove("explained");
    if (this.photograph) this.photograph.hidden = false;
  }

  async toggleSimilar() {
    if (this.similar.childElementCount) {
      this.similar.replaceChildren();
      return;
    }
    this.similar.replaceChildren(h("p", { class: "waiting" }, "Searching …"));
    try {
      const photographs = await send("/v1/similar?limit=12", this.file, { signal: this.abort.signal });
      this.similar.replaceChildren(h("h4", {}, "More like this in the gallery"), photoGrid(photographs, "small"));
      announce(`${plural(photographs.length, "photograph")} similar to ${this.name}.`);
    } catch (error) {
      this.similar.replaceChildren(h("p", { class: "problem" }, error.message));
    }
  }
}
