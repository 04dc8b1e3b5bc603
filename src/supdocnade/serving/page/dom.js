// Functions that create elements and text.

// Creates an element with properties and children; strings become text, never HTML.
export function h(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "class") element.className = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key.startsWith("--")) element.style.setProperty(key, value);
    else if (value === true) element.setAttribute(key, "");
    else element.setAttribute(key, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

// Isolates a user's name, which may be written in any direction.
export const bdi = (name) => h("bdi", {}, name);

export const percent = (share) =>
  share > 0 && share < 0.005 ? "< 1 %" : `${Math.round(100 * share)} %`;

export const plural = (number, noun) =>
  `${number.toLocaleString("en")} ${number === 1 ? noun : noun.endsWith("s") ? `${noun}es` : `${noun}s`}`;

// Returns the class of a photograph with its probability as children of a heading.
export const className = ({ label, probability }) => [bdi(label), " ", h("small", {}, percent(probability))];

// Lets screen readers announce a text.
export const announce = (text) => {
  document.getElementById("status").textContent = text;
};

export function render(section, children) {
  section.replaceChildren(...children.filter((child) => child !== null));
  const heading = section.querySelector("h1");
  if (heading) heading.tabIndex = -1;
}

export function saveFile(name, type, ...parts) {
  const link = h("a", { href: URL.createObjectURL(new Blob(parts, { type })), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}

// Saves rows as a CSV file that spreadsheets open; a cell is never a formula.
export function saveTable(name, header, rows) {
  const quote = (text) => `"${String(text ?? "").replaceAll('"', '""').replace(/^[=+\-@\t\r]/, "'$&")}"`;
  saveFile(name, "text/csv", `\ufeff${header.join(",")}\r\n`, rows.map((row) => `${row.map(quote).join(",")}\r\n`).join(""));
}
