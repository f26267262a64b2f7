// All texts that were written from one beginning, as a tree of tokens.

import { element, visible } from "./dom.js";

/** @typedef {import("./sampling.js").Scored} Scored */

export class Branch {
  /** @param {Scored | null} scored the token; null at the beginning @param {Branch | null} parent */
  constructor(scored, parent) {
    this.scored = scored;
    this.parent = parent;
    /** @type {Branch[]} */
    this.children = [];
    /** The child that was written last. @type {Branch | null} */
    this.latest = null;
    /** How many tokens there are from the beginning. @type {number} */
    this.depth = parent ? parent.depth + 1 : 0;
  }

  /** Return the branch that goes on with a token, a new one if there is none yet. @param {Scored} scored */
  grow(scored) {
    let child = this.children.find((other) => other.scored?.id === scored.id);
    if (!child) this.children.push(child = new Branch(scored, this));
    return (this.latest = child);
  }

  /** The branches from the beginning to here. @returns {Branch[]} */
  path() {
    /** @type {Branch[]} */
    const path = [];
    for (let at = /** @type {Branch} */ (this); at.parent; at = at.parent) path.push(at);
    return path.reverse();
  }

  /** The end of the text that was written last from here. @returns {Branch} */
  end() {
    let at = /** @type {Branch} */ (this);
    while (at.latest) at = at.latest;
    return at;
  }
}

/**
 * The tree as nested lists, with a line for each text between two forks.
 * @param {Branch} root
 * @param {Branch} shown the end of the text that is shown
 * @param {(ids: number[]) => string} decode
 * @param {(branch: Branch) => void} onChoose told of the first branch of a line
 */
export function drawTree(root, shown, decode, onChoose) {
  const onPath = new Set(shown.path());
  const line = (/** @type {Branch} */ first) => {
    const run = [first];
    while (run[run.length - 1].children.length === 1) run.push(run[run.length - 1].children[0]);
    const text = decode(run.map(({ scored }) => scored?.id ?? 0));
    const short = text.length > 60 ? `${text.slice(0, 57)}\u2026` : text;
    return element("li", {},
      element("button", {
        "aria-current": onPath.has(first) && "true", onclick: () => onChoose(first),
      }, visible(short).replaceAll("\u00b7", " "), element("span.soft", {}, ` ${run.length}`)),
      list(run[run.length - 1].children));
  };
  const list = (/** @type {Branch[]} */ branches) =>
    branches.length ? element("ul", {}, ...branches.map(line)) : null;
  return list(root.children);
}
