// The documentation of the API, made from its OpenAPI description.

import { h } from "./dom.js";

function parameters(operation) {
  const rows = (operation.parameters ?? []).map((each) => h("li", {}, h("code", {}, each.name),
    `${each.required ? "" : ", optional"}: ${each.description ?? each.schema?.description ?? `in the ${each.in}`}`));
  return rows.length ? h("ul", { class: "small" }, rows) : null;
}

function article(path, method, operation) {
  const bodies = Object.keys(operation.requestBody?.content ?? {});
  const responses = Object.entries(operation.responses).map(([status, each]) => `${status} ${each.description}`);
  return h("article", { class: "operation" },
    h("h3", {}, h("span", { class: "method" }, method.toUpperCase()), path),
    // Every other part of the text is between backquotes.
    h("p", {}, (operation.description ?? operation.summary ?? "").split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part))),
    bodies.length ? h("p", { class: "small" }, "Takes ", ...bodies.flatMap((each, i) => [i ? " or " : "", h("code", {}, each)]), ", field ", h("code", {}, "images"), ".") : null,
    parameters(operation),
    h("details", {}, h("summary", { class: "small" }, "Responses"), h("ul", { class: "small" }, responses.map((each) => h("li", {}, each)))));
}

const example = (needsToken) =>
  `curl ${needsToken ? '-H "Authorization: Bearer $SUPDOCNADE_TOKEN" ' : ""}-F images=@photo.jpg ${location.origin}/v1/predict`;

async function start() {
  const operations = document.getElementById("operations");
  try {
    const [description, problems] = await Promise.all(["/openapi.json", "/problems"].map(async (path) => (await fetch(path)).json()));
    document.getElementById("example").textContent = example(description.components.securitySchemes !== undefined);
    for (const [path, methods] of Object.entries(description.paths)) {
      for (const [method, operation] of Object.entries(methods)) operations.append(article(path, method, operation));
    }
    document.getElementById("problems").append(...Object.entries(problems).map(([code, [status, title]]) =>
      h("tr", { id: code }, h("th", { scope: "row" }, h("code", {}, code)), h("td", {}, String(status)), h("td", {}, title))));
    if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
  } catch {
    operations.append(h("p", { class: "problem" }, "The description of the API could not be loaded."));
  }
}

start();
