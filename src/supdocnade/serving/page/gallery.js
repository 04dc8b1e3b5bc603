// The view of the indexed photographs: by class, by tag, and by similarity.

import { get, loadPicture } from "./api.js";
import { announce, bdi, h, percent, plural } from "./dom.js";

const PAGE_SIZE = 60;

export const galleryLink = (kind, name) => `#/gallery?${new URLSearchParams({ [kind]: name })}`;

export function photoGrid(photographs, size = "") {
  return h("ul", { class: `photo-grid ${size}` }, photographs.map((each) => {
    const image = loadPicture(h("img", { alt: "", loading: "lazy", width: 160, height: 120 }), each.picture);
    return h("li", {}, h("a", { href: `#/gallery/${each.photograph}` }, image,
      h("span", { class: "caption" }, bdi(each.label ?? each.name), h("small", {}, bdi(each.name)))));
  }));
}

export async function galleryView(model, path, query) {
  if (model.gallery === null) {
    return [h("p", { class: "eyebrow" }, "Gallery"), h("h1", {}, "No gallery yet"),
      h("p", { class: "lead" }, "Index a folder of photographs to find photographs with a tag and photographs similar to any of them."),
      h("pre", { role: "region", "aria-label": "Command", tabindex: "0" }, `supdocnade index ${model.name} PHOTOS`),
      h("p", { class: "soft" }, "Then restart the server. The photographs stay where they are.")];
  }
  return path ? photographView(path) : listView(model, query);
}

async function listView(model, query) {
  const [label, tag] = [query.get("label"), query.get("tag")];
  const chosen = new URLSearchParams();
  if (label) chosen.set("label", label);
  if (tag) chosen.set("tag", tag);
  const found = await get(`/v1/gallery?${chosen}&limit=${PAGE_SIZE}`);
  const grid = photoGrid(found.photographs);
  const title = tag && label ? [bdi(label), " with ", bdi(tag)] : [bdi(tag ?? label ?? "All photographs")];
  const more = h("div", { class: "more" });
  if (found.total > found.photographs.length) more.append(moreButton(grid, chosen, found.total));
  announce(`${plural(found.total, "photograph")}.`);
  return [h("p", { class: "eyebrow" }, "Gallery"), h("h1", {}, ...title), filters(model, label, tag),
    h("p", { class: "soft" }, found.total ? `${plural(found.total, "photograph")}${tag || label ? ", most probable first" : ""}.` : "No photographs match."),
    grid, more];
}

function moreButton(grid, chosen, total) {
  const problem = h("p", { class: "problem", hidden: true });
  const button = h("button", { type: "button", onclick: async () => {
    button.disabled = true; // A second click would load the same photographs again.
    try {
      const next = await get(`/v1/gallery?${chosen}&limit=${PAGE_SIZE}&offset=${grid.children.length}`);
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
  const [classField, classSelect] = choice("filter-label", "Class", "All classes", model.classes, label);
  const [tagField, tagSelect] = choice("filter-tag", "Tag", "All tags", model.tags, tag);
  const form = h("form", { class: "filters", onchange: () => {
    const query = new URLSearchParams();
    if (classSelect.value) query.set("label", classSelect.value);
    if (tagSelect.value) query.set("tag", tagSelect.value);
    location.hash = `#/gallery?${query}`;
  } });
  if (model.classes.length) form.append(classField);
  if (model.tags.length) form.append(tagField);
  return form;
}

async function photographView(number) {
  const [photo, similar] = await Promise.all([get(`/v1/gallery/${number}`), get(`/v1/gallery/${number}/similar?top=24`)]);
  const image = loadPicture(h("img", { alt: `Photograph ${photo.name}` }), photo.picture);
  return [h("a", { class: "back", href: "#/gallery" }, "← All photographs"),
    h("div", { class: "photo-detail" }, h("div", { class: "frame" }, image), h("div", {},
      h("p", { class: "file soft" }, bdi(photo.name)),
      h("h1", { class: "prediction" }, bdi(photo.label ?? photo.name), photo.label === null ? null : h("small", {}, ` ${percent(photo.probability)}`)),
      photo.label === null ? null : h("p", {}, h("a", { href: galleryLink("label", photo.label) }, "All of this class")),
      photo.tags.length ? h("ul", { class: "tags", "aria-label": "Tags" }, photo.tags.map((each) =>
        h("li", {}, h("a", { href: galleryLink("tag", each.tag) }, bdi(each.tag), h("small", {}, percent(each.probability)))))) : null)),
    h("h2", {}, "More like this"), photoGrid(similar.photographs)];
}
