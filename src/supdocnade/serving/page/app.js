// Shows the view that the URL names.

import { get } from "./api.js";
import { correctionsView } from "./corrections.js";
import { h, render } from "./dom.js";
import { exploreView } from "./explore.js";
import { galleryView, leaveGallery } from "./gallery.js";
import { startPhotographs } from "./photographs.js";

const VIEWS = ["photographs", "explore", "gallery", "corrections"];
const TITLES = { photographs: "Photographs", explore: "Explore", gallery: "Gallery", corrections: "Corrections" };
let model = null;
let navigations = 0;

async function showView(isFirst) {
  navigations += 1;
  const navigation = navigations;
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [first, ...rest] = path.split("/");
  const view = VIEWS.includes(first) ? first : "photographs";
  const section = document.getElementById(view);
  let children = null;
  try {
    if (view === "explore") children = await exploreView(model, rest.join("/"));
    if (view !== "gallery") leaveGallery();
    if (view === "gallery") children = await galleryView(model, rest.join("/"), new URLSearchParams(query));
    if (view === "corrections") children = await correctionsView(model);
  } catch (error) {
    children = [h("h1", {}, TITLES[view]), h("p", { class: "problem" }, error.message)];
  }
  if (navigation !== navigations) return; // The user has navigated elsewhere in the meantime.
  const focused = document.activeElement?.id;
  if (children) render(section, children);
  for (const name of VIEWS) {
    document.getElementById(name).hidden = name !== view;
    const link = document.querySelector(`[data-view="${name}"]`);
    if (name === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${TITLES[view]} · ${model.name}`;
  if (!isFirst) {
    window.scrollTo(0, 0);
    const kept = focused && section.querySelector(`#${CSS.escape(focused)}`); // Such as a filter that was changed.
    (kept || section.querySelector("h1"))?.focus({ preventScroll: true });
  }
}

async function start() {
  try {
    model = await get("/v1/model");
  } catch (error) {
    document.getElementById("about").replaceWith(h("p", { class: "problem" }, error.message));
    return;
  }
  document.getElementById("model-name").textContent = model.name;
  document.querySelector('[data-view="corrections"]').hidden = !model.corrections;
  startPhotographs(model);
  window.addEventListener("hashchange", () => {
    if (location.hash !== "#main") showView(false);
  });
  await showView(true);
  document.body.dataset.ready = "true";
}

start();
