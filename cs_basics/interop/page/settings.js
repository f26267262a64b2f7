// The settings of the sampling: fields, their limits, and a link that holds them.

import { element } from "./dom.js";

const FIELDS = /** @type {const} */ ([
  ["temperature", "Temperature", { min: 0, max: 5, step: 0.05 }, "0: always the likeliest"],
  ["top_k", "Top-k", { min: 1, step: 1 }, "empty: all tokens"],
  ["top_p", "Top-p", { min: 0.01, max: 1, step: 0.01 }, "empty: all"],
  ["seed", "Seed", { min: 0, max: 2 ** 32 - 1, step: 1 }, "same seed, same story"],
  ["maxTokens", "Length", { min: 1, max: 5000, step: 1 }, "tokens at the most"],
]);
const OPTIONAL = ["top_k", "top_p"];

/**
 * Fields for the settings.
 * @param {import("./sampling.js").Sampling} sampling what they hold at first
 */
export function fieldset(sampling) {
  /** @type {Record<string, HTMLInputElement>} */
  const inputs = {};
  const node = element("div.settings", {}, ...FIELDS.map(([name, label, limits, note]) => {
    inputs[name] = element("input", {
      type: "number", id: name, ...limits, "aria-describedby": `${name}-note` });
    return element("div", {}, element("label", { for: name }, label), inputs[name],
      element("span.soft", { id: `${name}-note` }, note));
  }));
  /** @param {Record<string, any>} values */
  const fill = (values) => {
    for (const [name] of FIELDS) {
      if (values[name] !== undefined) inputs[name].value = values[name] ?? "";
    }
  };
  fill({ ...sampling, seed: 0, maxTokens: 300 });
  return {
    node,
    fill,
    /** @returns {any} */
    read: () => Object.fromEntries(FIELDS.map(([name]) => (
      [name, inputs[name].value === "" ? null : Number(inputs[name].value)]))),
    /** The first setting that is not allowed, in a sentence. */
    wrong: () => {
      for (const [name, label, limits] of FIELDS) {
        const { value, validity } = inputs[name];
        const { min, max, step } = /** @type {any} */ (limits);
        if (value === "" && !validity.badInput && OPTIONAL.includes(name)) continue;
        const number = Number(value);
        const isBad = value === "" || number < min || number > (max ?? Infinity)
          || (step === 1 && !Number.isInteger(number));
        const kind = step === 1 ? "an integer" : "a number";
        if (isBad) {
          return `${label} must be ${kind} ${max === undefined
            ? `of at least ${min}` : `from ${min} to ${max}`}, not ${value || "empty"}.`;
        }
      }
      return "";
    },
  };
}

/** The address of this page with settings behind the #. @param {Record<string, any>} settings */
export function writeLink(settings) {
  const held = Object.entries(settings).map(([name, value]) => [name, value ?? ""]);
  return `${location.href.split("#")[0]}#${new URLSearchParams(held)}`;
}

/** The settings in the address, if there are any. */
export function readLink() {
  if (location.hash.length < 2) return null;
  const held = new URLSearchParams(location.hash.slice(1));
  return { ...Object.fromEntries(held), prompt: held.get("prompt") ?? "" };
}
