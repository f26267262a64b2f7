// A model that remembers what it has read: keys, values and results of every position.

import { UNTOUCHED } from "./model.js";

/** Keys and values of each layer. @typedef {{ keys: Float32Array, values: Float32Array }[]} Cache */

export class Reader {
  /**
   * @param {import("./model.js").Model} model
   * @param {import("./model.js").Operations} operations
   * @param {import("./model.js").Trace} [trace]
   */
  constructor(model, operations = UNTOUCHED, trace) {
    const { context_length, num_layers } = model.config;
    const size = context_length * model.numKvHeads * model.dHead;
    this.model = model;
    this.operations = operations;
    this.trace = trace;
    /** The position that is being read. */
    this.position = 0;
    /** @type {number[]} */
    this.tokens = [];
    /** What the output head reads, by position. @type {Float32Array[]} */
    this.hidden = [];
    /** @type {Cache} */
    this.cache = Array.from({ length: num_layers }, () => (
      { keys: new Float32Array(size), values: new Float32Array(size) }));
  }

  /**
   * Read the next token of a text that is not read yet; what two texts share is read once.
   * @param {number[]} text at most context_length tokens
   * @returns {boolean} whether there was one
   */
  advance(text) {
    let shared = 0;
    while (shared < text.length && this.tokens[shared] === text[shared]) shared++;
    if (shared === text.length) return false;
    this.position = shared;
    const hidden = this.model.step(
      text[shared], shared, this.cache, this.operations, this.trace);
    this.tokens.length = this.hidden.length = shared;
    this.tokens.push(text[shared]);
    this.hidden.push(hidden);
    return true;
  }

  /** Scores of the token after a position that was read. @param {number} position */
  logits(position) {
    return this.model.logits(this.hidden[position]);
  }
}
