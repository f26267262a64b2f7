// Learn: the equation of what is shown, and the lines of the book that compute it.

import { element } from "./dom.js";

/** @typedef {Node | string} Term */

/**
 * MathML from terms: strings become identifiers, numbers or operators.
 * @param {...Term} terms
 */
const row = (...terms) => element("math:mrow", {}, ...terms.map((term) => (
  typeof term !== "string" ? term
    : /^\p{L}/u.test(term) ? element("math:mi", {}, term)
      : /^\d/.test(term) ? element("math:mn", {}, term) : element("math:mo", { stretchy: "false" }, term))));
/** @param {Term} a @param {Term} b */
const over = (a, b) => element("math:mfrac", {}, row(a), row(b));
/** @param {Term} a @param {Term} b */
const sub = (a, b) => element("math:msub", {}, row(a), row(b));
/** @param {Term} a @param {Term} b */
const sup = (a, b) => element("math:msup", {}, row(a), row(b));
/** @param {...Term} terms */
const root = (...terms) => element("math:msqrt", {}, row(...terms));
/** @param {...Term} terms */
const equation = (...terms) => element("math:math", { display: "block" }, row(...terms));

const NORM = () => equation("norm", "(", "x", ")", "=",
  over("x", root("mean", "(", sup("x", "2"), ")", "+", "\u03b5")), "\u2299", "g");

/** What each view explains: text, equations and the names of lines in page_book.py. */
const TOPICS = {
  write: {
    text: "The scores z of the next token are divided by the temperature T and made to "
      + "probabilities; a random number picks a place among those that top-k and top-p leave. The "
      + "surprise of a token is the logarithm of its probability; its mean is the loss.",
    equations: () => [
      equation(sub("p", "i"), "=", over(sup("e", row(sub("z", "i"), "/", "T")),
        row(sub("\u2211", "j"), sup("e", row(sub("z", "j"), "/", "T"))))),
      equation("surprise", "=", "\u2212", sub("log", "2"), sub("p", "i")),
    ],
    lines: ["sample", "softmax"],
  },
  merges: {
    text: "A text is split into pre-tokens; inside each, the neighbours whose merge was learned "
      + "first are joined, until no two neighbours have a merge.",
    equations: () => [equation("pair", "=", sub("arg min", row("i")), "rank", "(",
      sub("t", "i"), ",", sub("t", row("i", "+", "1")), ")")],
    lines: ["tokenizer", "merge"],
  },
  attention: {
    text: "Each token asks with a query q and answers with a key k; the values v are mixed by how "
      + "well they fit. Queries and keys are turned by their positions first.",
    equations: () => [equation("attention", "=", "softmax", "(",
      over(row("q", sup("k", "\u22a4")), root(sub("d", "head"))), ")", "v")],
    lines: ["attention", "scores", "rope"],
  },
  stream: {
    text: "Every block adds to the stream and never replaces it. A norm gives each part a copy of "
      + "one size, however large the stream has grown.",
    equations: () => [NORM(), equation("x", "\u2190", "x", "+", "part", "(", "norm", "(", "x", ")",
      ")")],
    lines: ["block", "norm"],
  },
  lens: {
    text: "The last lines of the model turn the stream into scores. Nothing forbids to ask them "
      + "earlier.",
    equations: () => [equation("z", "=", "W", "norm", "(", "x", ")")],
    lines: ["model", "norm"],
  },
  units: {
    text: "Each hidden unit is one number times one direction that is added to the stream; the head "
      + "says which tokens lie that way.",
    equations: () => [equation("ffn", "(", "x", ")", "=", sub("W", "2"), "(", "SiLU", "(",
      sub("W", "1"), "x", ")", "\u2299", sub("W", "3"), "x", ")")],
    lines: ["ffn"],
  },
  operate: {
    text: "The block, part by part, and the loss: what was off is missing in these sums.",
    equations: () => [equation("loss", "=", "\u2212", over("1", "n"), sub("\u2211", "t"), "log",
      "p", "(", sub("x", row("t", "+", "1")), "|", sub("x", row("\u2264", "t")), ")")],
    lines: ["block", "loss"],
  },
};

/**
 * @param {import("./main.js").App} app
 * @param {string} topic
 */
export function learn(app, topic) {
  const { text, equations, lines } = TOPICS[/** @type {keyof typeof TOPICS} */ (topic)];
  const found = lines.map((name) => app.data.book[name]).filter((one) => one);
  return element("details.learn", {}, element("summary", {}, "How it is computed"),
    element("p", {}, text), ...equations(),
    ...found.map(({ file, line, name, source }) => element("figure", {},
      element("figcaption", {}, element("code", {}, name), ` in ${file}, line ${line}`),
      element("pre", { tabindex: "0" }, source))));
}
