// Elements from names, properties and children; text is always text.

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

// A name that people gave, in whatever direction it is written.
export const called = (name) => h("bdi", {}, name);

export const percent = (share) =>
  share > 0 && share < 0.005 ? "< 1 %" : `${Math.round(100 * share)} %`;

export const many = (number, noun) =>
  `${number.toLocaleString("en")} ${number === 1 ? noun : noun.endsWith("s") ? `${noun}es` : `${noun}s`}`;

export const announce = (text) => {
  document.getElementById("status").textContent = text;
};

export function show(section, children) {
  section.replaceChildren(...children.filter((child) => child !== null));
  const heading = section.querySelector("h1");
  if (heading) heading.tabIndex = -1;
}
