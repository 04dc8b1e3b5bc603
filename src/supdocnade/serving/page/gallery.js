// The view of the indexed photographs: by class, tags and words, and by similarity.

import { get, getBlob, loadPicture } from "./api.js";
import { correctionPanel } from "./corrections.js";
import { announce, bdi, className, h, percent, plural } from "./dom.js";
import { addFiles } from "./photographs.js";

const PAGE_SIZE = 60;

export const galleryLink = (kind, name) => `#/gallery?${new URLSearchParams({ [kind]: name })}`;

// A link for a class or tag, which may be one of a correction that the model does not know.
const linkAmong = (known, kind, name) => galleryLink(known.includes(name) ? kind : "words", name);

export function photoGrid(photographs, size = "") {
  return h("ul", { class: `photo-grid ${size}` }, photographs.map((each) => {
    const image = loadPicture(h("img", { alt: "", loading: "lazy", width: 160, height: 120 }), each.picture);
    const match = each.match === null ? null : h("span", { class: "soft" }, `${percent(each.match)} match`);
    return h("li", {}, h("a", { href: `#/gallery/${each.photograph}` }, image,
      h("span", { class: "caption" }, h("span", { class: "first" }, bdi(each.label ?? each.name), match), h("small", {}, bdi(each.name)),
        each.distance === 0 ? h("strong", {}, "the same photograph") : each.near_duplicate ? h("strong", {}, "near-duplicate") : null)));
  }));
}

export async function galleryView(model, path, query) {
  if (model.gallery === null) {
    return [h("p", { class: "eyebrow" }, "Gallery"), h("h1", {}, "No gallery yet"),
      h("p", { class: "lead" }, "Index a folder of photographs to find photographs with a tag and photographs similar to any of them."),
      h("pre", { role: "region", "aria-label": "Command", tabindex: "0" }, `supdocnade index ${model.name} PHOTOS`),
      h("p", { class: "soft" }, "Then restart the server. The photographs stay where they are.")];
  }
  return path ? photographView(model, path) : listView(model, query);
}

let lastSearch = ""; // Where the view of one photograph leads back to.

// Returns the parameters of a search that the server knows.
function requestFor({ label, tags, words, unlikely }) {
  const request = new URLSearchParams();
  if (label) request.set("label", label);
  tags.forEach((tag) => request.append("tag", tag));
  if (words) request.set("words", words);
  if (unlikely) request.set("min_probability", "0");
  return request;
}

function openSearch(search) {
  const query = requestFor(search);
  if (search.unlikely) {
    query.delete("min_probability");
    query.set("unlikely", "1");
  }
  location.hash = `#/gallery?${query}`;
}

async function listView(model, query) {
  lastSearch = String(query);
  const search = { label: query.get("label"), tags: query.getAll("tag"), words: query.get("words") ?? "", unlikely: query.has("unlikely") };
  const { label, tags, words } = search;
  const request = requestFor(search);
  const found = await get(`/v1/gallery?${request}&limit=${PAGE_SIZE}`);
  const grid = photoGrid(found.photographs);
  const asked = [...tags, ...(words ? [words] : [])].flatMap((each, i) => [i ? ", " : "", bdi(each)]);
  const title = label && asked.length ? [bdi(label), " with ", ...asked] : label ? [bdi(label)] : asked.length ? asked : ["All photographs"];
  // A search that finds nothing may find photographs with less likely tags.
  const asksLikely = asked.length && (search.unlikely || found.total || (await get(`/v1/gallery?${requestFor({ ...search, unlikely: true })}&limit=1`)).total);
  const more = h("div", { class: "more" });
  if (found.total > found.photographs.length) more.append(moreButton(grid, request, found.total));
  announce(`${plural(found.total, "photograph")}.`);
  return [h("p", { class: "eyebrow" }, "Gallery"), h("h1", {}, ...title), filters(model, search, found),
    h("p", { class: "soft" }, found.total ? `${plural(found.total, "photograph")}${label || asked.length ? ", most probable first" : ""}. ` : "No matching photographs. ",
      asksLikely ? likelyButton(search) : null),
    words && !found.total ? nearestNames(model, search) : null, grid, more];
}

// Returns the number of letters to add, remove or change to turn a word into another.
function letterDistance(one, other) {
  let row = [...other].map((_, i) => i + 1);
  [...one].forEach((letter, i) => {
    let diagonal = i;
    let left = i + 1;
    row = row.map((above, j) => {
      left = Math.min(above + 1, left + 1, diagonal + (letter === other[j] ? 0 : 1));
      diagonal = above;
      return left;
    });
  });
  return row.at(-1) ?? one.length;
}

// Links to the classes and tags that are spelled almost as the words of a search.
function nearestNames(model, search) {
  const words = search.words.toLowerCase();
  const near = [...new Set([...model.classes, ...model.tags])].map((name) => [letterDistance(words, name.toLowerCase()), name])
    .filter(([distance]) => distance <= Math.max(1, words.length / 4)).sort((a, b) => a[0] - b[0]).slice(0, 3);
  return near.length ? h("p", {}, "Did you mean ", near.flatMap(([, name], i) => [i ? " or " : "",
    h("button", { type: "button", class: "quiet inline", onclick: () => openSearch({ ...search, words: name }) }, bdi(name))]), "?") : null;
}

const likelyButton = (search) => h("button", { type: "button", class: "quiet inline", onclick: () => openSearch({ ...search, unlikely: !search.unlikely }) },
  search.unlikely ? "Show only likely ones" : "Show less likely ones, too");

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

function filters(model, search, found) {
  const choice = (id, name, first, options, chosen) => h("label", { for: id }, name,
    h("select", { id }, h("option", { value: "" }, first),
      options.map((each) => h("option", { value: each.name, selected: each.name === chosen }, `${each.name} (${each.count.toLocaleString("en")})`))));
  const chosenClass = search.label && !found.classes.some((each) => each.name === search.label) ? [{ name: search.label, count: 0 }] : [];
  const input = h("input", { id: "filter-words", type: "search", list: "known-words", value: search.words, placeholder: "Tags, classes, file names", autocomplete: "off" });
  const known = h("datalist", { id: "known-words" }, [...model.classes, ...model.tags].map((each) => h("option", { value: each })));
  const form = h("form", { class: "filters", role: "search", "aria-label": "Photographs" }, h("label", { for: "filter-words" }, "Search", input), known);
  if (model.classes.length) form.append(choice("filter-label", "Class", "All classes", [...chosenClass, ...found.classes], search.label));
  if (model.tags.length) form.append(choice("filter-tag", "Add a tag", found.tags.length ? "Choose a tag" : "No further tags", found.tags, null));
  const value = (id) => form.querySelector(id)?.value ?? "";
  const submit = () => {
    const added = value("#filter-tag");
    openSearch({ ...search, label: value("#filter-label"), tags: added ? [...search.tags, added] : search.tags, words: input.value.trim() });
  };
  form.addEventListener("change", submit);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  if (!search.tags.length) return form;
  return h("div", {}, form, h("ul", { class: "tags", "aria-label": "Chosen tags" }, search.tags.map((tag) =>
    h("li", {}, h("button", { type: "button", "aria-label": `Remove ${tag}`, onclick: () => openSearch({ ...search, tags: search.tags.filter((each) => each !== tag) }) },
      bdi(tag), h("span", { "aria-hidden": "true" }, "×"))))));
}

// The path of the original, which a browser may not open, with a button that copies it.
function originalPath(path) {
  const copy = h("button", { type: "button", class: "quiet inline", onclick: async () => {
    await navigator.clipboard.writeText(path);
    announce("Path copied.");
    copy.textContent = "Copied";
  } }, "Copy path");
  return h("p", { class: "original" }, h("b", {}, "Original: "), h("code", {}, bdi(path)), " ",
    navigator.clipboard ? copy : null); // Only pages of this machine or with TLS may copy.
}

async function photographView(model, number) {
  const [photo, similar] = await Promise.all([get(`/v1/gallery/${number}`), get(`/v1/gallery/${number}/similar?limit=24`)]);
  const image = loadPicture(h("img", { alt: `Photograph ${photo.name}` }), photo.picture);
  const explain = h("button", { type: "button", onclick: async () => {
    const picture = await getBlob(photo.picture);
    addFiles([new File([picture], photo.name, { type: picture.type })]);
    location.hash = "#/";
  } }, "See why");
  const facts = h("div", {});
  const show = (shown) => facts.replaceChildren(...[
    h("h1", { class: "prediction", tabindex: -1 }, shown.label === null ? bdi(shown.name) : className(shown)),
    shown.label === null ? null : h("p", {}, h("a", { href: linkAmong(model.classes, "label", shown.label) }, "All of this class")),
    shown.tags.length ? h("ul", { class: "tags", "aria-label": "Tags" }, shown.tags.map((each) =>
      h("li", {}, h("a", { href: linkAmong(model.tags, "tag", each.tag) }, bdi(each.tag), h("small", {}, percent(each.probability)))))) : null].filter(Boolean));
  show(photo);
  const correct = model.corrections && correctionPanel(model, { photograph: photo.photograph }, photo.name, photo, async () => show(await get(`/v1/gallery/${number}`)));
  return [h("a", { class: "back", href: `#/gallery${lastSearch ? `?${lastSearch}` : ""}` }, lastSearch ? "← Back to the search" : "← All photographs"),
    h("div", { class: "photo-detail" }, h("div", { class: "frame" }, image), h("div", {},
      facts, originalPath(photo.path), h("div", { class: "actions" }, explain, correct))),
    h("h2", {}, "More like this"), photoGrid(similar)];
}
