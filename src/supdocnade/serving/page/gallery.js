// The view of the indexed photographs: by class, tags and words, and by similarity.

import { get, getBlob, loadPicture, post } from "./api.js";
import { correctionPanel } from "./corrections.js";
import { announce, bdi, className, h, percent, plural, saveFile, saveTable } from "./dom.js";
import { addFiles } from "./photographs.js";
import { changed, KEYS, Review } from "./review.js";

const PAGE_SIZE = 60;

export const galleryLink = (kind, name) => `#/gallery?${new URLSearchParams({ [kind]: name })}`;

// A link for a class or tag, which may be one of a correction that the model does not know.
const linkAmong = (known, kind, name) => galleryLink(known.includes(name) ? kind : "words", name);

const stars = (rating) => "★".repeat(rating);

// The marks of a photograph: what to look at, and what people have given.
const judgements = (photo) => Object.entries(photo.judged).map(([tag, has]) => `${has ? "✓" : "✗"} ${tag}`).join(", ");
const marks = (photo) => [photo.label_given || photo.tags_given ? h("strong", { class: "given" }, "✓ reviewed") : judgements(photo) ? h("strong", { class: "given" }, bdi(judgements(photo))) : null,
  photo.unsure && !photo.label_given ? h("strong", { class: "unsure" }, "unsure") : null,
  photo.unfamiliar && !photo.label_given ? h("strong", { class: "unsure" }, "unlike anything learned") : null];

function photoLink(photo, withTags) {
  const image = loadPicture(h("img", { alt: "", loading: "lazy", width: 160, height: 120 }), photo.picture);
  const match = photo.match === null ? null : h("span", { class: "soft" }, `${percent(photo.match)} match`);
  return h("a", { href: `#/gallery/${photo.photograph}` }, image,
    h("span", { class: "caption" }, h("span", { class: "first" }, bdi(photo.label ?? photo.name), match), h("small", {}, bdi(photo.name)),
      withTags ? h("span", { class: "suggested" }, photo.tags.map((each) => each.tag).join(", ") || "no tags") : null,
      withTags ? marks(photo) : null,
      photo.distance === 0 ? h("strong", {}, "the same photograph") : photo.near_duplicate ? h("strong", {}, "near-duplicate") : null));
}

export const photoGrid = (photographs, size = "") =>
  h("ul", { class: `photo-grid ${size}` }, photographs.map((each) => h("li", {}, photoLink(each, false))));

export async function galleryView(model, path, query) {
  if (model.gallery === null) {
    return [h("p", { class: "eyebrow" }, "Gallery"), h("h1", {}, "No gallery yet"),
      h("p", { class: "lead" }, "Index a folder of photographs to find photographs with a tag and photographs similar to any of them."),
      h("pre", { role: "region", "aria-label": "Command", tabindex: "0" }, `supdocnade index ${model.name} PHOTOS`),
      h("p", { class: "soft" }, "Then restart the server. The photographs stay where they are.")];
  }
  return path ? photographView(model, path) : listView(model, query);
}

// Parameters of a search with one value. The page and the server use the same names.
const PARAMETERS = ["label", "words", "since", "until", "camera", "min_rating", "state", "order"];

// The photographs of a search, loaded page by page.
class Results {
  constructor(search, request) {
    Object.assign(this, { search, request, numbers: [], touched: new Set(), stale: new Set(), start: 0, total: 0, view: null, top: 0, tag: null, isBusy: () => false });
  }

  // Loads the next photographs. Those that were changed may no longer be found, so that the others move up.
  async more() {
    let fresh = [];
    let found = null;
    while (this.isBusy()) await new Promise((resolve) => setTimeout(resolve, 100)); // Corrections are being saved.
    const moved = [...this.touched];
    this.start = Math.max(this.start - moved.length, 0);
    do {
      found = await get(`/v1/gallery?${this.request}&limit=${PAGE_SIZE}&offset=${this.start}`);
      this.start += found.photographs.length || found.total;
      const known = new Set(this.numbers);
      fresh = found.photographs.filter((each) => !known.has(each.photograph));
    } while (!fresh.length && this.start < found.total);
    this.total = found.total;
    moved.forEach((each) => this.touched.delete(each));
    this.numbers.push(...fresh.map((each) => each.photograph));
    return { ...found, photographs: fresh };
  }

  get isComplete() {
    return this.start - this.touched.size >= this.total;
  }
}

let last = new Results("", ""); // The search that led to the view of one photograph.
let cameFrom = null; // The number of the photograph whose view was left.

// Forgets the list: other views may change what it shows.
export const leaveGallery = () => {
  last.view = null;
};

const readSearch = (query) =>
  ({ ...Object.fromEntries(PARAMETERS.map((name) => [name, query.get(name) ?? ""])), tags: query.getAll("tag"), unlikely: query.has("unlikely") });

// Returns the parameters of a search that the server knows.
function requestFor(search) {
  const request = new URLSearchParams(PARAMETERS.filter((name) => search[name]).map((name) => [name, search[name]]));
  search.tags.forEach((tag) => request.append("tag", tag));
  if (search.unlikely) request.set("min_probability", "0");
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
  if (cameFrom !== null && last.view && String(query) === last.search) return last.restore();
  const search = readSearch(query);
  const { label, tags, words } = search;
  const request = requestFor(search);
  const results = new Results(String(query), request);
  const found = await results.more();
  last = results;
  const grid = h("ul", { class: "photo-grid tagged" });
  const summary = h("p", { class: "soft" });
  const more = h("div", { class: "more" });
  results.tag = tags.length === 1 ? tags[0] : null;
  const review = model.corrections ? new Review(model, grid, { tag: results.tag, onDone: async () => {
    const { total, reviewed } = await get(`/v1/gallery?${request}&limit=1`);
    summary.textContent = summarize(search, total, reviewed);
    results.total = total;
    const button = more.querySelector("button");
    if (button) button.hidden = results.isComplete;
  } }) : null;
  results.isBusy = () => review?.isBusy ?? false;
  const refresh = new Map(); // Shows a photograph again, by its number.
  const append = (photographs) => photographs.forEach((photo) => refresh.set(photo.photograph, addPhotograph(results, grid, review, photo)));
  append(found.photographs);
  const asked = [...tags, ...(words ? [words] : [])].flatMap((each, i) => [i ? ", " : "", bdi(each)]);
  const state = STATES[search.state];
  const title = state && !label && !asked.length ? [state] : label && asked.length ? [bdi(label), " with ", ...asked] : label ? [bdi(label)] : asked.length ? asked : ["All photographs"];
  // A search that finds nothing may find photographs with less likely tags.
  const asksLikely = asked.length && (search.unlikely || found.total || (await get(`/v1/gallery?${requestFor({ ...search, unlikely: true })}&limit=1`)).total);
  if (!results.isComplete) more.append(moreButton(grid, results, append));
  announce(`${plural(found.total, "photograph")}.`);
  summary.textContent = summarize(search, found.total, found.reviewed);
  const actions = h("div", { class: "list-actions" }, asksLikely ? likelyButton(search) : null,
    review && found.total ? h("button", { type: "button", class: "quiet inline", onclick: () => review.select(true) }, "Select all shown") : null,
    ...(found.total ? exportButtons(request) : []), review && model.photos.length ? keywordsButton() : null);
  results.view = [h("p", { class: "eyebrow" }, "Gallery"), h("h1", {}, ...title), filters(model, search, found), summary, actions,
    words && !found.total ? nearestNames(model, search) : null, review?.bar ?? null, grid, more];
  // After the view of one photograph the list is where it was.
  results.restore = () => {
    const number = cameFrom;
    cameFrom = null;
    results.stale.forEach((each) => refresh.get(each)?.());
    results.stale.clear();
    setTimeout(() => {
      window.scrollTo(0, results.top);
      grid.querySelector(`a[href="#/gallery/${number}"]`)?.focus({ preventScroll: true });
    });
    return results.view;
  };
  grid.addEventListener("click", () => {
    results.top = window.scrollY;
  });
  return results.view;
}

const STATES = { unsure: "Unsure", unfamiliar: "Unlike anything learned", unreviewed: "Not reviewed yet", reviewed: "Reviewed" };

const ORDERS = { match: "best match first", name: "by name", newest: "newest first", oldest: "oldest first" };

function summarize(search, total, reviewed) {
  if (!total) return "No matching photographs. ";
  const isSorted = search.order || search.label || search.words || search.tags.length;
  return `${plural(total, "photograph")}${isSorted ? `, ${ORDERS[search.order || "match"]}` : ""}${reviewed ? `, ${reviewed.toLocaleString("en")} reviewed` : ""}. `;
}

// Adds a photograph to the list; returns a function that shows it again after a change.
function addPhotograph(results, grid, review, photo) {
  let shown = photo;
  const element = h("li", {}, photoLink(photo, true));
  grid.append(element);
  const show = async () => {
    results.touched.add(photo.photograph);
    shown = { ...(await get(`/v1/gallery/${photo.photograph}`)), match: photo.match };
    const old = element.querySelector("a");
    const link = photoLink(shown, true);
    link.tabIndex = old.tabIndex;
    const hadFocus = old === document.activeElement;
    old.replaceWith(link);
    if (hadFocus) link.focus();
  };
  review?.add(element, photo.name, { photograph: photo.photograph }, () => shown, show);
  return show;
}

// Buttons that save all photographs of a search, as a list of paths for other commands, or as a table.
function exportButtons(request) {
  const button = (text, save) => h("button", { type: "button", class: "quiet inline", onclick: async (event) => {
    event.target.disabled = true;
    const all = [];
    for (let total = Infinity; all.length < total;) {
      const page = await get(`/v1/gallery?${request}&limit=200&offset=${all.length}`);
      ({ total } = page);
      all.push(...page.photographs);
    }
    save(all);
    event.target.disabled = false;
  } }, text);
  return [button("Save list", (all) => saveFile("photographs.txt", "text/plain", all.map((each) => `${each.path}\n`).join(""))),
    button("Save CSV", (all) => saveTable("photographs.csv", ["file", "label", "probability", "tags", "reviewed", "taken", "camera", "rating"], all.map((each) =>
      [each.path, each.label, each.probability?.toFixed(4), each.tags.map((tag) => tag.tag).join("|"), each.label_given || each.tags_given ? "yes" : "no", each.taken, each.camera, each.rating])))];
}

// Writes the tags that people gave as keywords, after a question, and takes them back.
function keywordsButton() {
  const place = h("span", { class: "keywords" });
  const button = (text, action) => h("button", { type: "button", class: "quiet inline", onclick: action }, text);
  const replace = (...children) => {
    const hadFocus = place.contains(document.activeElement);
    place.replaceChildren(...children);
    if (hadFocus) place.querySelector("button").focus();
  };
  const show = (undo, ...said) => replace(...said, button("Write keywords", ask), ...(undo ? [" ", button("Undo", () => send("/v1/keywords/undo", "Removed keywords of", undo)),
    h("small", { class: "soft" }, ` or: ${undo}`)] : []));
  const ask = () => replace("Write the tags that people gave into .xmp files beside their photographs? Keywords that were written before stay. ",
    button("Write", () => send("/v1/keywords", "Wrote keywords of")), " ", button("Cancel", start));
  const send = async (path, verb, before = null) => {
    try {
      const { changed: n, elsewhere, failed, undo } = await post(path, {});
      const outside = elsewhere ? `${plural(elsewhere, "photograph")} left out: not in the folders of this server, or gone. ` : "";
      show(undo, h("span", {}, `${verb} ${plural(n, "photograph")}. ${outside}`), failed.length ? h("ul", { class: "unsure" }, failed.map((each) => h("li", {}, each))) : "");
      announce(place.textContent);
    } catch (error) {
      show(before, h("span", { class: "unsure" }, `${error.message} `));
    }
  };
  const start = async () => {
    show(null);
    show((await get("/v1/keywords")).undo);
  };
  start();
  return place;
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
    .filter(([distance]) => distance <= Math.max(1, words.length / 3)).sort((a, b) => a[0] - b[0]).slice(0, 3);
  return near.length ? h("p", {}, "Did you mean ", near.flatMap(([, name], i) => [i ? " or " : "",
    h("button", { type: "button", class: "quiet inline", onclick: () => openSearch({ ...search, words: name }) }, bdi(name))]), "?") : null;
}

const likelyButton = (search) => h("button", { type: "button", class: "quiet inline", onclick: () => openSearch({ ...search, unlikely: !search.unlikely }) },
  search.unlikely ? "Show only likely ones" : "Show less likely ones, too");

// A button that loads the next photographs, also when it is scrolled into view.
function moreButton(grid, results, append) {
  const problem = h("p", { class: "problem", hidden: true });
  const button = h("button", { type: "button", onclick: async () => {
    button.disabled = true; // A second click would load the same photographs again.
    try {
      const { length } = grid.children;
      const hadFocus = document.activeElement === button || document.activeElement === document.body;
      append((await results.more()).photographs);
      if (hadFocus && results.isComplete) grid.children[length]?.querySelector("a").focus({ preventScroll: true });
      problem.hidden = true;
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
      seen.disconnect();
      announce(error.message);
    }
    button.disabled = false;
    button.hidden = results.isComplete;
  } }, "Show more");
  const seen = new IntersectionObserver(([entry]) => entry.isIntersecting && button.click(), { rootMargin: "600px" });
  seen.observe(button);
  return h("div", {}, button, problem);
}

function filters(model, search, found) {
  const field = (name, title, control) => h("label", { for: `filter-${name}` }, title, control);
  const choice = (name, title, first, options, chosen) => field(name, title, h("select", { id: `filter-${name}` }, h("option", { value: "" }, first),
    options.map(([value, text]) => h("option", { value, selected: value === chosen }, text))));
  const counted = (counts, chosen = "") => [...(chosen && !counts.some((each) => each.name === chosen) ? [[chosen, `${chosen} (0)`]] : []),
    ...counts.map(({ name, count }) => [name, `${name} (${count.toLocaleString("en")})`])];
  const input = (name, title, type, properties = {}) => field(name, title, h("input", { id: `filter-${name}`, type, value: search[name], ...properties }));
  const known = h("datalist", { id: "known-words" }, [...model.classes, ...model.tags].map((each) => h("option", { value: each })));
  const states = Object.entries(STATES).filter(([name]) => model.corrections || !name.endsWith("reviewed"));
  const details = h("details", { class: "more-filters", open: ["since", "until", "camera", "min_rating", "order"].some((name) => search[name]) },
    h("summary", {}, "Date, camera, rating, order"), h("div", { class: "filters" },
      input("since", "Taken from", "date"), input("until", "to", "date"),
      choice("camera", "Camera", "All cameras", counted(found.cameras, search.camera), search.camera),
      choice("min_rating", "Rating", "Any", [1, 2, 3, 4, 5].map((each) => [String(each), `at least ${stars(each)}`]), search.min_rating),
      choice("order", "Order", "Best match first", [["name", "By name"], ["newest", "Newest first"], ["oldest", "Oldest first"]], search.order)));
  const form = h("form", { role: "search", "aria-label": "Photographs" }, h("div", { class: "filters" },
    input("words", "Search", "search", { list: "known-words", placeholder: "Tags, classes, file names", autocomplete: "off" }), known,
    model.classes.length ? choice("label", "Class", "All classes", counted(found.classes, search.label), search.label) : null,
    model.tags.length ? choice("tag", "Add a tag", found.tags.length ? "Choose a tag" : "No further tags", counted(found.tags)) : null,
    choice("state", "Show", "All", states, search.state)), details);
  const value = (name) => form.querySelector(`#filter-${name}`)?.value.trim() ?? "";
  const submit = () => openSearch({ ...search, ...Object.fromEntries(PARAMETERS.map((name) => [name, value(name)])), tags: [...search.tags, value("tag")].filter(Boolean) });
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

// Returns the photograph before or after another one in the last search, if there is one.
async function neighbour(number, step) {
  const place = last.numbers.indexOf(number);
  if (place < 0) return undefined;
  if (place + step === last.numbers.length && !last.isComplete) {
    last.view = null; // The list lacks what is loaded now.
    await last.more();
  }
  return last.numbers[place + step];
}

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.matches("input, select, textarea") || event.altKey || event.ctrlKey || event.metaKey;
  const rel = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
  if (isTyping) return;
  const shown = "#gallery:not([hidden])";
  if (rel) document.querySelector(`${shown} a[rel="${rel}"]`)?.click();
  else if (/^[a-z]$/.test(event.key)) document.querySelector(`${shown} [data-key="${event.key.toUpperCase()}"]`)?.click();
});

// A button that shows the photograph itself instead of its thumbnail.
function originalButton(photo, image) {
  const button = h("button", { type: "button", onclick: () => {
    button.disabled = true;
    image.addEventListener("load", () => button.remove(), { once: true });
    const address = `/v1/gallery/${photo.photograph}/original`;
    image.addEventListener("error", async () => {
      loadPicture(image, photo.picture);
      try {
        const file = await getBlob(address);
        button.replaceWith(h("p", { class: "problem" }, "This browser does not show the format of the original. ",
          h("button", { type: "button", class: "quiet inline", onclick: () => saveFile(photo.name.split("/").at(-1), file.type, file) }, "Download it")));
      } catch (error) {
        button.replaceWith(h("p", { class: "problem" }, error.message));
      }
    }, { once: true });
    loadPicture(image, address);
  } }, "Show original");
  return button;
}

const when = (photo) => [photo.taken ? new Date(photo.taken).toLocaleString([], { dateStyle: "medium", timeStyle: "short" }) : null,
  photo.camera, photo.rating ? stars(photo.rating) : null].filter(Boolean).join(" · ");

async function photographView(model, number) {
  const [photo, similar, previous, next] = await Promise.all([get(`/v1/gallery/${number}`), get(`/v1/gallery/${number}/similar?limit=24`),
    neighbour(Number(number), -1), neighbour(Number(number), 1)]);
  const image = loadPicture(h("img", { alt: `Photograph ${photo.name}` }), photo.picture);
  const explain = h("button", { type: "button", onclick: async () => {
    const picture = await getBlob(photo.picture);
    addFiles([new File([picture], photo.name, { type: picture.type })]);
    location.hash = "#/";
  } }, "See why");
  const facts = h("div", {});
  const show = (shown) => facts.replaceChildren(...[
    h("h1", { class: "prediction", tabindex: -1 }, shown.label === null ? bdi(shown.name) : className(shown)),
    h("p", { class: "marks" }, ...marks(shown).filter(Boolean)),
    shown.label === null ? null : h("p", {}, h("a", { href: linkAmong(model.classes, "label", shown.label) }, "All of this class")),
    shown.tags.length ? h("ul", { class: "tags", "aria-label": "Tags" }, shown.tags.map((each) =>
      h("li", {}, h("a", { href: linkAmong(model.tags, "tag", each.tag) }, bdi(each.tag), h("small", {}, percent(each.probability)))))) : null,
    when(shown) ? h("p", { class: "soft small" }, bdi(when(shown))) : null].filter(Boolean));
  let shownPhoto = photo;
  const update = async () => {
    shownPhoto = await get(`/v1/gallery/${number}`);
    last.touched.add(photo.photograph);
    last.stale.add(photo.photograph);
    show(shownPhoto);
  };
  show(photo);
  cameFrom = Number(number);
  // Accepts, rejects or withdraws its class and tags.
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const tag = last.numbers.includes(photo.photograph) ? last.tag : null;
  const decide = async (change) => {
    try {
      await post("/v1/corrections", { photograph: photo.photograph, ...changed(shownPhoto, change, tag) });
      await update();
      problem.hidden = true;
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    }
  };
  const decisions = Object.entries({ accept: "Accept", reject: tag ? `Not ${tag}` : "Reject tags", withdraw: "Withdraw" }).map(([change, text]) => {
    const key = Object.keys(KEYS).find((each) => KEYS[each] === change).toUpperCase();
    return h("button", { type: "button", "data-key": key, "aria-keyshortcuts": key, title: `Key ${key}`, onclick: () => decide(change) }, text, h("kbd", {}, key));
  });
  const isNamed = model.photos.some((folder) => photo.path.startsWith(`${folder}/`));
  const correct = model.corrections && correctionPanel(model, { photograph: photo.photograph }, photo.name, () => shownPhoto, update);
  const turn = (to, rel, text) => to === undefined ? null : h("a", { rel, href: `#/gallery/${to}`, title: `Key ${rel === "prev" ? "←" : "→"}` }, text);
  const back = last.search ? `?${last.search}` : "";
  return [h("nav", { class: "turns", "aria-label": "Photographs" }, h("a", { class: "back", href: `#/gallery${back}` }, back ? "Back to the search" : "All photographs"),
    turn(previous, "prev", "← Previous"), turn(next, "next", "Next →")),
    h("div", { class: "photo-detail" }, h("div", { class: "frame" }, image), h("div", {},
      facts, originalPath(photo.path), h("div", { class: "actions" }, explain, isNamed ? originalButton(photo, image) : null, correct),
      model.corrections ? h("div", { class: "actions" }, decisions) : null, problem,
      isNamed ? null : h("p", { class: "hint" }, "The server shows originals in the folders that it was started with (--photos)."))),
    h("h2", {}, "More like this"), photoGrid(similar)];
}
