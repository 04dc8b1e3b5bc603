// The view of the model: classes, topics and tags, with the links between them.

import { get, loadPicture } from "./api.js";
import { bdi, h, percent, plural } from "./dom.js";
import { galleryLink } from "./gallery.js";

const KINDS = { class: "Classes", topic: "Topics", tag: "Tags" };
let overview = null;

const link = (kind, name) => `#/explore/${kind}/${encodeURIComponent(name)}`;

export async function exploreView(model, path) {
  overview ??= await get("/v1/explore");
  const [first = "class", name] = path.split("/").filter(Boolean).map(decodeURIComponent);
  const kind = Object.hasOwn(KINDS, first) ? first : "class";
  return name === undefined ? listView(kind) : detailView(model, kind, name);
}

function kindTabs(chosen) {
  const items = { class: overview.classes, topic: overview.topics, tag: overview.tags };
  return h("nav", { class: "kinds", "aria-label": "Kinds" }, Object.entries(KINDS).filter(([kind]) => items[kind].length).map(([kind, title]) =>
    h("a", { href: `#/explore/${kind}`, "aria-current": kind === chosen ? "page" : null }, title)));
}

const LEADS = {
  class: "Each class with the topics that support it, and the tags that set it apart: the share of its photographs that have the tag, and how many times as often they have it as those of other classes.",
  topic: "A topic is a pattern that sets photographs apart. Each is shown with the classes and tags of the tenth of all photographs that activate it most: their share there, and how many times as often they occur there as elsewhere.",
  tag: "How often photographs have each tag. Choose a tag to see its topics.",
};

function listView(chosen) {
  const bodies = { class: classCards, topic: topicCards, tag: tagRows };
  const kind = chosen === "class" && !overview.classes.length ? "topic" : chosen;
  return [h("p", { class: "eyebrow" }, "Explore"), h("h1", {}, "What the model has learned"),
    kindTabs(kind), h("p", { class: "soft" }, LEADS[kind]), bodies[kind]()];
}

// How many times as often as elsewhere something occurs.
function ratio({ share, elsewhere }) {
  if (elsewhere === null) return "";
  if (elsewhere === 0) return "all here";
  if (share > 50 * elsewhere) return "> 50 ×";
  return `${(share / elsewhere).toFixed(share >= 10 * elsewhere ? 0 : 1)} ×`;
}

const frequencyList = (kind, items) => items.length
  ? h("ul", { class: "frequencies", "aria-label": KINDS[kind] }, items.map((each) =>
    h("li", {}, h("a", { href: link(kind, each.name) }, bdi(each.name)), h("i", { "--v": each.share.toFixed(3) }), h("span", {}, percent(each.share)), h("span", { title: each.elsewhere ? "times as often as elsewhere" : null }, ratio(each)))))
  : null;

const frequencyPart = (kind, items) => items.length
  ? h("div", {}, h("p", { class: "field" }, h("b", {}, KINDS[kind])), frequencyList(kind, items))
  : null;

const photos = (examples) => h("div", { class: "photos" }, examples.map((each) =>
  loadPicture(h("img", { alt: `Photograph ${each.name}`, width: 120, height: 90, loading: "lazy" }), each.picture)));

const links = (kind, names, title) => names.length
  ? h("p", { class: "field" }, h("b", {}, `${title}: `), names.flatMap((name, i) => [i ? ", " : "", h("a", { href: link(kind, name) }, bdi(String(name)))]))
  : null;

const classCards = () => h("div", { class: "cards" }, overview.classes.map((each) => h("article", { class: "card" },
  h("header", {}, h("h2", {}, h("a", { href: link("class", each.label) }, bdi(each.label))), h("span", {}, plural(each.n_images, "photograph"))),
  photos(each.examples.slice(0, 4)), frequencyList("tag", each.tags), links("topic", each.topics, "Topics"))));

const topicCards = () => h("div", { class: "cards" }, overview.topics.map((each) => h("article", { class: "card" },
  h("header", {}, h("h2", {}, h("a", { href: link("topic", each.topic) }, `Topic ${each.topic}`))),
  photos(each.examples.slice(0, 4)), frequencyPart("class", each.classes), frequencyPart("tag", each.tags))));

const tagRows = () => h("ul", { class: "tag-rows" }, overview.tags.map((each) =>
  h("li", {}, h("a", { href: link("tag", each.tag) }, bdi(each.tag), h("i", { "--v": each.frequency.toFixed(3) }), h("span", {}, percent(each.frequency))))));

function part(title, content) {
  return content ? h("section", { class: "part" }, h("h2", {}, title), content) : null;
}

function detailView(model, kind, name) {
  const lists = { class: [overview.classes, "label"], topic: [overview.topics, "topic"], tag: [overview.tags, "tag"] };
  const [items, key] = lists[kind];
  const item = items.find((each) => String(each[key]) === name);
  const title = { class: bdi(name), tag: bdi(name), topic: `Topic ${name}` }[kind];
  const head = [h("p", { class: "eyebrow" }, KINDS[kind]), h("h1", {}, title), kindTabs(kind)];
  if (!item) {
    return [...head, h("p", { class: "problem" }, "The model has nothing of this name.")];
  }
  const galleryKind = { class: "label", tag: "tag" }[kind];
  return [...head, h("div", { class: "detail" },
    kind === "tag" ? h("p", {}, `${percent(item.frequency)} of the photographs with known tags have this tag.`) : null,
    kind === "class" ? h("p", {}, `Trained on ${plural(item.n_images, "photograph")}.`) : null,
    part(kind === "topic" ? "Photographs with the highest activation" : "Photographs", item.examples.length ? photos(item.examples) : null),
    kind === "topic" ? part("Classes of its photographs", frequencyList("class", item.classes)) : null,
    part(kind === "topic" ? "Tags of its photographs" : "Tags", frequencyList("tag", item.tags ?? [])),
    links("topic", item.topics ?? [], "Topics"),
    kind === "topic" ? null : links("class", item.classes ?? [], "Classes"),
    model.gallery !== null && galleryKind ? h("p", {}, h("a", { href: galleryLink(galleryKind, name) }, "In the gallery")) : null)];
}
