// How the bytes of a word become tokens, merge by merge.

import { element, visible } from "./dom.js";
import { fromByteString, hex } from "./tokenizer.js";

/**
 * Show the merges of the pre-token that holds a token.
 * @param {import("./tokenizer.js").Tokenizer} tokenizer
 * @param {number[]} ids
 * @param {number} position
 */
export function mergeSteps(tokenizer, ids, position) {
  const pretokens = tokenizer.split(tokenizer.decode(ids));
  let end = 0;
  const index = Math.max(0, pretokens.findIndex((one) => (end += one.ids.length) > position));
  const pretoken = pretokens[index] ?? { text: "", bytes: "", ids: [] };
  const neighbours = pretokens.slice(Math.max(0, index - 4), index + 5);
  const isSpecial = pretoken.ids.length === 1
    && tokenizer.merge(pretoken.bytes).at(-1)?.length !== 1;
  const row = element("p.chips", {}, "Pre-tokens: ", ...neighbours.map((one) => element(
    one === pretoken ? "span.token.chosen" : "span.token", {}, visible(one.text))));
  if (isSpecial) {
    return element("div", {}, row, element("p", {}, "A special token: found before everything else, "
      + "and one token whatever its bytes."));
  }
  const steps = tokenizer.merge(pretoken.bytes);
  const pieces = element("p.pieces", { "aria-live": "polite" });
  const status = element("p.soft", {});
  const slider = element("input", { type: "range", min: 0, max: steps.length - 1, value: 0,
    "aria-label": "Merges that are done", oninput: () => show() });
  const step = (/** @type {number} */ by) => {
    slider.value = `${Number(slider.value) + by}`;
    show();
  };
  const back = element("button", { type: "button", onclick: () => step(-1) }, "Back");
  const next = element("button", { type: "button", onclick: () => step(1) }, "Next merge");
  function show() {
    const done = Number(slider.value), tokens = steps[done];
    const merged = done > 0 ? tokens.find((token, i) => token !== steps[done - 1][i]) : undefined;
    pieces.replaceChildren(...tokens.map((token) => element(
      token === merged ? "span.piece.chosen" : "span.piece", {},
      element("span.token", {}, visible(text(token))), element("small", {}, hex(token)))));
    status.textContent = done === 0 ? `${tokens.length} ${tokens.length === 1 ? "byte" : "bytes"}`
      : `after merge ${done} of ${steps.length - 1}: ${tokens.length} `
        + `${tokens.length === 1 ? "token" : "tokens"}`
        + (done === steps.length - 1 ? `, ${tokens.length === 1 ? "id" : "ids"} `
          + tokens.map((token) => tokenizer.idOf(token)).join(", ") : "");
    back.disabled = done === 0;
    next.disabled = done === steps.length - 1;
  }
  show();
  return element("div", {}, row, pieces, status, element("div.buttons", {}, back, next, slider));
}

/** The text of bytes that may be a part of a character only. @param {string} bytes */
function text(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(fromByteString(bytes));
  } catch {
    return "\u2026";
  }
}
