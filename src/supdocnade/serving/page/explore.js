// What the model has learned: classes, topics, visual words and tags, each with those it goes with.

import { get, picture } from "./api.js";
import { called, h, many, percent } from "./dom.js";
import { galleryLink } from "./gallery.js";

const KINDS = { class: "Classes", topic: "Topics", word: "Visual words", tag: "Tags" };
let web = null;

const link = (kind, name) => `#/explore/${kind}/${encodeURIComponent(name)}`;

export async function explored(model, path) {
  web ??= await get("/v1/explore");
  const [kind = "class", name] = path.split("/").filter(Boolean).map(decodeURIComponent);
  const chosen = Object.hasOwn(KINDS, kind) ? kind : "class";
  return name === undefined ? all(model, chosen) : one(model, chosen, name);
}

function kinds(chosen) {
  const some = { class: web.classes, topic: web.topics, word: web.words, tag: web.tags };
  return h("nav", { class: "kinds", "aria-label": "Kinds" }, Object.entries(KINDS).filter(([kind]) => some[kind].length).map(([kind, title]) =>
    h("a", { href: `#/explore/${kind}`, "aria-current": kind === chosen ? "page" : null }, title)));
}

const LEADS = {
  class: "The three topics that speak most for each class, the visual words that excite them, and the tags that go with them.",
  topic: "Each topic is a direction in which photographs differ: what excites it, and what it speaks for.",
  word: "Patches of photographs that the model takes for the same. These are the words that its classes and topics are made of.",
  tag: "How often photographs have each tag; choose one to see what speaks for it.",
};

function all(model, kind) {
  const bodies = { class: classCards, topic: topicCards, word: wordGrid, tag: tagRows };
  const chosen = kind === "class" && !web.classes.length ? "topic" : kind;
  return [h("p", { class: "eyebrow" }, "Explore"), h("h1", {}, "What the model has learned"),
    kinds(chosen), h("p", { class: "soft" }, LEADS[chosen]), bodies[chosen](model)];
}

const mosaic = (word) => h("div", { class: "mosaic" },
  picture(h("img", { alt: `Patches of visual word ${word.word}`, width: 64, height: 64, loading: "lazy" }), word.picture));

const words = (some) => h("ul", { class: "words" }, some.map((word) =>
  h("li", {}, h("a", { href: link("word", word.word) }, mosaic(word)))));

const tags = (some) => h("ul", { class: "tags", "aria-label": "Tags" }, some.map((tag) =>
  h("li", {}, h("a", { href: link("tag", tag) }, called(tag)))));

const photos = (some) => h("div", { class: "photos" }, some.map((each) =>
  picture(h("img", { alt: `Photograph ${each.name}`, width: 120, height: 90, loading: "lazy" }), each.picture)));

const links = (kind, names, title) => names.length
  ? h("p", { class: "field" }, h("b", {}, `${title}: `), names.flatMap((name, at) => [at ? ", " : "", h("a", { href: link(kind, name) }, called(String(name)))]))
  : null;

const classCards = () => h("div", { class: "cards" }, web.classes.map((each) => h("article", { class: "card" },
  h("header", {}, h("h2", {}, h("a", { href: link("class", each.label) }, called(each.label))), h("span", {}, many(each.n_images, "photograph"))),
  photos(each.examples.slice(0, 4)), words(each.words), tags(each.tags), links("topic", each.topics, "Topics"))));

const topicCards = () => h("div", { class: "cards" }, web.topics.map((each) => h("article", { class: "card" },
  h("header", {}, h("h2", {}, h("a", { href: link("topic", each.topic) }, `Topic ${each.topic}`))),
  photos(each.examples.slice(0, 4)), words(each.words), tags(each.tags), links("class", each.classes, "Speaks for"))));

const wordGrid = () => h("ul", { class: "word-grid" }, web.words.map((each) =>
  h("li", {}, h("a", { href: link("word", each.word) }, mosaic(each), String(each.word)))));

const tagRows = () => h("ul", { class: "tag-rows" }, web.tags.map((each) =>
  h("li", {}, h("a", { href: link("tag", each.tag) }, called(each.tag), h("i", { "--v": each.frequency.toFixed(3) }), h("span", {}, percent(each.frequency))))));

// Topics share words and photographs; each is shown once.
const once = (some) => [...new Map(some.map((each) => [each.picture, each])).values()];

function part(title, content) {
  return content ? h("section", { class: "part" }, h("h2", {}, title), content) : null;
}

function one(model, kind, name) {
  const lists = { class: [web.classes, "label"], topic: [web.topics, "topic"], word: [web.words, "word"], tag: [web.tags, "tag"] };
  const [some, key] = lists[kind];
  const found = some.find((each) => String(each[key]) === name);
  const title = { class: called(name), tag: called(name), topic: `Topic ${name}`, word: `Visual word ${name}` }[kind];
  const head = [h("p", { class: "eyebrow" }, KINDS[kind]), h("h1", {}, title), kinds(kind)];
  if (!found) {
    return [...head, h("p", { class: "problem" }, "The model has nothing of this name.")];
  }
  const galleryKind = { class: "label", tag: "tag" }[kind];
  const topics = web.topics.filter((each) => kind !== "topic" && found.topics.includes(each.topic));
  const wordsOfTopics = kind === "tag" ? once(topics.flatMap((each) => each.words.slice(0, 2))) : found.words;
  const examples = kind === "word" ? once(topics.flatMap((each) => each.examples.slice(0, 2))).slice(0, 8) : found.examples;
  return [...head, h("div", { class: "detail" },
    kind === "word" ? h("div", { class: "words" }, mosaic(found)) : null,
    kind === "tag" ? h("p", {}, `On ${percent(found.frequency)} of the photographs whose tags are known.`) : null,
    kind === "class" ? h("p", {}, `Learned from ${many(found.n_images, "photograph")}.`) : null,
    part({ topic: "Photographs that excite it", word: "Photographs of its topics" }[kind] ?? "Photographs", examples.length ? photos(examples) : null),
    part(kind === "tag" ? "Visual words of its topics" : "Visual words", wordsOfTopics?.length ? words(wordsOfTopics) : null),
    part("Tags", found.tags?.length ? tags(found.tags) : null),
    links("topic", found.topics ?? [], kind === "word" ? "Excites topics" : "Topics"),
    links("class", found.classes ?? [], kind === "word" ? "Stands for" : "Speaks for"),
    model.gallery !== null && galleryKind ? h("p", {}, h("a", { href: galleryLink(galleryKind, name) }, "In the gallery")) : null)];
}
