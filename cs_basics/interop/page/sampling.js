// How the next token is drawn: what `sample` of cs_basics/generate.py does.

import { softmax } from "./tensor.js";

/**
 * @typedef {{ temperature: number, top_k: number | null, top_p: number | null }} Sampling
 */

/**
 * Draw a token.
 * @param {Float32Array} logits
 * @param {Sampling} sampling
 * @param {number} uniform a random number in [0, 1): the first token is drawn at which the sum of
 *   probabilities exceeds this share of the whole sum
 */
export function sample(logits, { temperature, top_k, top_p }, uniform) {
  if (temperature === 0) return argmax(logits);
  const highest = logits[argmax(logits)];
  const probabilities = softmax(logits.map((score) => (score - highest) / temperature));
  const ordered = probabilities.slice().sort().reverse().subarray(0, top_k ?? undefined);
  const least = ordered[numKept(ordered, top_p ?? 1) - 1];
  const sums = new Float64Array(logits.length);
  let total = 0;
  probabilities.forEach((p, id) => { sums[id] = total += p >= least ? p : 0; });
  return sums.findIndex((sum) => sum > uniform * total);
}

/**
 * Count the likeliest tokens that have the share top_p of the probability together.
 * @param {Float32Array} ordered probabilities, the highest first
 * @param {number} topP
 */
function numKept(ordered, topP) {
  if (topP >= 1) return ordered.length;
  const enough = topP * ordered.reduce((sum, p) => sum + p, 0);
  let before = 0, count = 0;
  while (count < ordered.length && before < enough) before += ordered[count++];
  return count;
}

/** @param {Float32Array} values */
export function argmax(values) {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i] > values[best]) best = i;
  return best;
}

/**
 * A token among its rivals, by the model's own probabilities (temperature 1).
 * @typedef {{ id: number, probability: number, bits: number, rivals: [number, number][] }} Scored
 */

/**
 * Say how probable a token was, its surprise -log2 p in bits, and the likeliest ten.
 * @param {Float32Array} logits
 * @param {number} id
 * @returns {Scored}
 */
export function scored(logits, id) {
  const probabilities = softmax(logits);
  return {
    id,
    probability: probabilities[id],
    bits: surprise(logits, id) / Math.LN2,
    rivals: strongest(probabilities, 10).map((rival) => [rival, probabilities[rival]]),
  };
}

/** The loss of a token in nats. @param {Float32Array} logits @param {number} id */
export function surprise(logits, id) {
  const highest = logits[argmax(logits)];
  let sum = 0;
  for (const score of logits) sum += Math.exp(score - highest);
  return Math.log(sum) + highest - logits[id];
}

/** Indices of the highest values, the highest first. @param {Float32Array} values @param {number} count */
export function strongest(values, count) {
  /** @type {number[]} */
  const best = [];
  for (let i = 0; i < values.length; i++) {
    if (best.length === count && values[i] <= values[best[count - 1]]) continue;
    let place = best.length;
    while (place > 0 && values[best[place - 1]] < values[i]) place--;
    best.splice(place, 0, i);
    best.length = Math.min(best.length, count);
  }
  return best;
}
