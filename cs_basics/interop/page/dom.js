// Elements from names, attributes and children; a text is only ever set as text, never as markup.

/** @typedef {Node | string | number | null | undefined} Child */

/**
 * @param {string} tag such as "p", "p.soft" or "svg:rect" for SVG, "math:mi" for MathML
 * @param {Record<string, any>} [attributes] `onclick` and the like are listeners; false is none
 * @param {...Child} children
 * @returns {any}
 */
export function element(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const made = name.startsWith("svg:")
    ? document.createElementNS("http://www.w3.org/2000/svg", name.slice(4))
    : name.startsWith("math:")
      ? document.createElementNS("http://www.w3.org/1998/Math/MathML", name.slice(5))
      : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== false && value !== null) made.setAttribute(key, value === true ? "" : value);
  }
  if (classes.length) made.setAttribute("class", classes.join(" "));
  for (const child of children) if (child !== null && child !== undefined) made.append(child);
  return made;
}

/** The element with an id. @param {string} id @returns {any} */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element ${id}`);
  return found;
}

/** White space that one would not see, as a mark. @param {string} text */
export const visible = (text) =>
  text.replaceAll("\n", "\u21b5").replaceAll("\t", "\u21e5").replace(/ /g, "\u00b7") || "\u2205";

/** @param {number} share */
export const percent = (share) =>
  share >= 0.9995 ? "100%" : share < 0.0005 ? "<0.1%" : `${(100 * share).toFixed(1)}%`;
