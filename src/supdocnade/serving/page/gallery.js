// The photographs of the folder that was indexed: by class, by tag, and those like another one.

import { get, picture } from "./api.js";
import { announce, called, h, many, percent } from "./dom.js";

const PAGE = 60;

export const galleryLink = (kind, name) => `#/gallery?${new URLSearchParams({ [kind]: name })}`;

export function photoGrid(photographs, size = "") {
  return h("ul", { class: `photo-grid ${size}` }, photographs.map((each) => {
    const image = h("img", { alt: "", loading: "lazy", width: 160, height: 120 });
    picture(image, each.picture);
    const title = each.label === null ? each.name : each.label;
    return h("li", {}, h("a", { href: `#/gallery/${each.photograph}` }, image,
      h("span", { class: "under-photo" }, called(title), h("small", {}, called(each.name)))));
  }));
}

export async function galleryView(model, path, query) {
  if (model.gallery === null) {
    return [h("p", { class: "eyebrow" }, "Gallery"), h("h1", {}, "No gallery yet"),
      h("p", { class: "lead" }, "Index a folder of photographs, and this page finds those with a tag, and more like any of them."),
      h("pre", { role: "region", "aria-label": "Command", tabindex: "0" }, `supdocnade index ${model.name} PHOTOS`),
      h("p", { class: "soft" }, "Then start the server again. The photographs stay where they are.")];
  }
  return path ? onePhotograph(path) : manyPhotographs(model, query);
}

async function manyPhotographs(model, query) {
  const [label, tag] = [query.get("label"), query.get("tag")];
  const chosen = new URLSearchParams();
  if (label) chosen.set("label", label);
  if (tag) chosen.set("tag", tag);
  const found = await get(`/v1/gallery?${chosen}&limit=${PAGE}`);
  const grid = photoGrid(found.photographs);
  const title = tag && label ? [called(label), " with ", called(tag)] : [called(tag ?? label ?? "All photographs")];
  const more = h("div", { class: "more" });
  if (found.total > found.photographs.length) more.append(moreButton(grid, chosen, found.total));
  announce(`${many(found.total, "photograph")}.`);
  return [h("p", { class: "eyebrow" }, "Gallery"), h("h1", {}, ...title), filters(model, label, tag),
    h("p", { class: "soft" }, found.total ? `${many(found.total, "photograph")}${tag || label ? ", the surest first" : ""}.` : "No photograph fits."),
    grid, more];
}

function moreButton(grid, chosen, total) {
  const problem = h("p", { class: "problem", hidden: true });
  const button = h("button", { type: "button", onclick: async () => {
    button.disabled = true; // Or the same photographs would come twice.
    try {
      const next = await get(`/v1/gallery?${chosen}&limit=${PAGE}&offset=${grid.children.length}`);
      const added = [...photoGrid(next.photographs).children];
      grid.append(...added);
      added[0]?.querySelector("a").focus();
      problem.hidden = true;
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
      announce(error.message);
    }
    button.disabled = false;
    button.hidden = grid.children.length >= total;
  } }, "Show more");
  return h("div", {}, button, problem);
}

function filters(model, label, tag) {
  const choice = (id, name, all, options, chosen) => {
    const select = h("select", { id }, h("option", { value: "" }, all),
      options.map((each) => h("option", { value: each, selected: each === chosen }, each)));
    return [h("label", { for: id }, name, select), select];
  };
  const [classes, ofClass] = choice("filter-label", "Class", "All classes", model.classes, label);
  const [tags, withTag] = choice("filter-tag", "Tag", "All tags", model.tags, tag);
  const form = h("form", { class: "filters", onchange: () => {
    const query = new URLSearchParams();
    if (ofClass.value) query.set("label", ofClass.value);
    if (withTag.value) query.set("tag", withTag.value);
    location.hash = `#/gallery?${query}`;
  } });
  if (model.classes.length) form.append(classes);
  if (model.tags.length) form.append(tags);
  return form;
}

async function onePhotograph(number) {
  const [one, near] = await Promise.all([get(`/v1/gallery/${number}`), get(`/v1/gallery/${number}/similar?top=24`)]);
  const image = h("img", { alt: `The photograph ${one.name}` });
  picture(image, one.picture);
  return [h("a", { class: "back", href: "#/gallery" }, "← All photographs"),
    h("div", { class: "one" }, h("div", { class: "frame" }, image), h("div", {},
      h("p", { class: "file soft" }, called(one.name)),
      h("h1", { class: "answer" }, called(one.label ?? one.name), one.label === null ? null : h("small", {}, ` ${percent(one.probability)}`)),
      one.label === null ? null : h("p", {}, h("a", { href: galleryLink("label", one.label) }, "All of this class")),
      one.tags.length ? h("ul", { class: "tags", "aria-label": "Tags" }, one.tags.map((each) =>
        h("li", {}, h("a", { href: galleryLink("tag", each.tag) }, called(each.tag), h("small", {}, percent(each.probability)))))) : null)),
    h("h2", {}, "More like this"), photoGrid(near.photographs)];
}
