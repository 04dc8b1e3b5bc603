// The API's description as a page.

import { h } from "./dom.js";

const problem = (text) => h("p", { class: "problem" }, text);

function parameters(operation) {
  const rows = (operation.parameters ?? []).map((each) => h("li", {}, h("code", {}, each.name),
    `${each.required ? "" : ", optional"}: ${each.description ?? each.schema?.description ?? `in the ${each.in}`}`));
  return rows.length ? h("ul", { class: "small" }, rows) : null;
}

function operation(path, verb, described) {
  const bodies = Object.keys(described.requestBody?.content ?? {});
  const answers = Object.entries(described.responses).map(([status, each]) => `${status} ${each.description}`);
  return h("article", { class: "op" },
    h("h3", {}, h("span", { class: "verb" }, verb.toUpperCase()), path),
    h("p", {}, described.description ?? described.summary ?? ""),
    bodies.length ? h("p", { class: "small" }, "Takes ", ...bodies.flatMap((each, at) => [at ? " or " : "", h("code", {}, each)]), ", field ", h("code", {}, "images"), ".") : null,
    parameters(described),
    h("details", {}, h("summary", { class: "small" }, "Answers"), h("ul", { class: "small" }, answers.map((each) => h("li", {}, each)))));
}

// Where the server asks for a token, so does the example.
const example = (guarded) =>
  `curl ${guarded ? '-H "Authorization: Bearer $SUPDOCNADE_TOKEN" ' : ""}-F images=@photo.jpg ${location.origin}/v1/predict`;

async function start() {
  const place = document.getElementById("operations");
  try {
    const [description, problems] = await Promise.all(["/openapi.json", "/problems"].map(async (path) => (await fetch(path)).json()));
    document.getElementById("example").textContent = example(description.components.securitySchemes !== undefined);
    for (const [path, verbs] of Object.entries(description.paths)) {
      for (const [verb, described] of Object.entries(verbs)) place.append(operation(path, verb, described));
    }
    document.getElementById("problems").append(...Object.entries(problems).map(([code, [status, title]]) =>
      h("tr", { id: code }, h("th", { scope: "row" }, h("code", {}, code)), h("td", {}, String(status)), h("td", {}, title))));
    if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
  } catch {
    place.append(problem("The description cannot be had from the server."));
  }
}

start();
