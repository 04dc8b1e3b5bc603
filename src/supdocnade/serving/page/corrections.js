// Corrections of classes and tags: the form on a photograph, and the view that lists them.

import { get, post } from "./api.js";
import { announce, bdi, h, plural } from "./dom.js";

const PAGE_SIZE = 60;
let nForms = 0;

export const said = ({ label, tags, judged }) => [label, ...(tags ?? []), ...Object.entries(judged ?? {}).map(([tag, has]) => (has ? tag : `not ${tag}`))]
  .filter((each) => each !== null && each !== undefined).join(", ") || "no tags";

// A button that opens a form to correct a photograph. The target is its number in the gallery, or its key and file name;
// `answer` returns its class and tags as they are now.
export function correctionPanel(model, target, name, answer, onSaved = () => {}) {
  const panel = h("div", { class: "correction" });
  const closed = (text) => {
    const open = h("button", { type: "button", onclick: () => {
      const { label, tags } = answer();
      const form = correctionForm(model, name, { label, tags: tags.map((each) => each.tag) }, closed, async (given) => {
        await post("/v1/corrections", { ...target, ...given });
        onSaved(given);
      });
      panel.replaceChildren(form);
      form.querySelector("input, button").focus();
    } }, text ? "Change" : "Correct");
    panel.replaceChildren(...(text ? [h("p", { class: "kept" }, h("b", {}, "Saved: "), bdi(text))] : []), open);
    return open;
  };
  closed("");
  return panel;
}

function correctionForm(model, name, current, close, save) {
  nForms += 1;
  const id = `correction-${nForms}`;
  const hasClass = model.classes.length > 0;
  const tags = new Set(current.tags ?? []);
  const nameOf = (given) => model.classes.find((each) => each.toLowerCase() === given.toLowerCase()) ?? given;
  const choices = (list, names) => h("datalist", { id: `${id}-${list}` }, names.map((each) => h("option", { value: each })));
  const label = h("input", { id: `${id}-label`, type: "text", list: `${id}-classes`, maxlength: 200, autocomplete: "off", value: current.label ?? "" });
  const added = h("input", { id: `${id}-tag`, type: "text", list: `${id}-tags`, maxlength: 200, autocomplete: "off" });
  const list = h("ul", { class: "tags", "aria-label": "Tags" });
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const showTags = () => list.replaceChildren(...[...tags].map((tag) => h("li", {}, h("button", { type: "button", "aria-label": `Remove ${tag}`, onclick: () => {
    tags.delete(tag);
    showTags();
    added.focus();
  } }, bdi(tag), h("span", { "aria-hidden": "true" }, "×")))));
  const addTag = () => {
    for (const tag of added.value.split(/[,;|]/).map((each) => each.trim()).filter(Boolean)) {
      const known = [...tags, ...model.tags].find((each) => each.toLowerCase() === tag.toLowerCase());
      tags.add(known ?? tag);
    }
    added.value = "";
    showTags();
  };
  added.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !added.value.trim()) return;
    event.preventDefault();
    addTag();
  });
  showTags();
  const submit = h("button", { type: "submit" }, "Save");
  const form = h("form", { "aria-label": `Correct ${name}` },
    hasClass ? h("label", { for: label.id }, "Class", label) : null, choices("classes", model.classes),
    h("div", {}, h("label", { for: added.id }, "Add a tag"), h("div", { class: "add-tag" }, added, h("button", { type: "button", onclick: () => { addTag(); added.focus(); } }, "Add"))),
    choices("tags", model.tags), list,
    h("p", { class: "hint" }, "Saved as the complete, correct answer, with the name and the checksum of the file. The photograph itself is not stored."),
    problem,
    h("div", { class: "actions" }, submit, h("button", { type: "button", class: "quiet", onclick: () => close("").focus() }, "Cancel")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    addTag();
    const given = { label: hasClass ? nameOf(label.value.trim()) || null : null, tags: [...tags] };
    submit.disabled = true;
    try {
      await save(given);
      close(said(given)).focus();
      announce(`Saved for ${name}: ${said(given)}.`);
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
      submit.disabled = false;
    }
  });
  return form;
}

export async function correctionsView(model) {
  const list = h("ul", { class: "kept-list" });
  const count = h("p", { class: "soft" });
  const more = h("button", { type: "button", hidden: true, onclick: () => load() }, "Show more");
  const show = (total) => {
    count.textContent = total ? `${plural(total, "photograph")}, the last one first.` : "No corrections yet.";
    more.hidden = list.children.length >= total;
  };
  const load = async () => {
    const found = await get(`/v1/corrections?limit=${PAGE_SIZE}&offset=${list.children.length}`);
    list.append(...found.corrections.map((each) => row(each, async () => {
      const { total } = await get("/v1/corrections?limit=1");
      show(total);
    })));
    show(found.total);
  };
  await load();
  return [h("h1", {}, "Corrections"),
    h("p", { class: "lead" }, "The next model learns from these classes and tags:"),
    h("pre", { role: "region", "aria-label": "Command", tabindex: "0" }, model.corrections),
    count, list, h("div", { class: "more" }, more)];
}

function row(correction, removed) {
  const { file, key, label, tags, judged } = correction;
  const element = h("li", {}, h("div", {}, h("b", {}, bdi(file.split("/").at(-1))), h("small", {}, bdi(file))),
    h("div", {}, label === null ? null : h("span", { class: "kept-class" }, bdi(label)),
      tags === null && !Object.keys(judged).length ? null : h("span", { class: "soft" }, bdi(said({ label: null, tags, judged })))),
    h("button", { type: "button", class: "quiet", "aria-label": `Remove the correction of ${file}`, onclick: async () => {
      await post("/v1/corrections", key === null ? { file } : { key, file });
      element.remove();
      announce(`Correction of ${file} removed.`);
      await removed();
    } }, "Remove"));
  return element;
}
