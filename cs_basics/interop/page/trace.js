// Everything that a model computes on the way, kept to be looked at.

import { Reader } from "./reader.js";
import { strongest } from "./sampling.js";
import { rms, softmax } from "./tensor.js";

const NUM_UNITS = 10, NUM_TOKENS = 5;

/**
 * @typedef {{ places: { name: string, rms: number }[], lens: { name: string, likeliest: [number,
 *   number][], probability: number | null }[], attention: Float32Array[][], units: { layer: number,
 *   unit: number, activation: number, pushes: number[] }[] }} Inspection
 */

/** A reader that remembers all values by place and position. @param {import("./model.js").Model} model @param {import("./model.js").Operations} operations */
export function tracedReader(model, operations) {
  /** @type {Map<string, Float32Array>[]} */
  const values = [];
  const reader = new Reader(model, operations, (place, vector) => {
    if (place === "embedding") values[reader.position] = new Map();
    values[reader.position].set(place, vector.slice());
  });
  return Object.assign(reader, { values });
}

/**
 * What a traced reader saw at a position.
 * @param {any} reader
 * @param {number} position
 * @returns {Inspection}
 */
export function inspect(reader, position) {
  const { model, values, tokens } = reader;
  const { num_layers, num_heads } = model.config;
  const seen = values[position];
  const layers = Array.from({ length: num_layers }, (_, layer) => `layers.${layer}`);
  const next = tokens[position + 1];
  return {
    places: [...seen].filter(([name]) => !/heads|units/.test(name))
      .map(([name, vector]) => ({ name, rms: rms(vector) })),
    lens: ["embedding", ...layers.map((name) => `${name}.after_ffn`)].map((name) => {
      const probabilities = softmax(lensLogits(model, seen.get(name)));
      return {
        name,
        likeliest: strongest(probabilities, NUM_TOKENS).map((id) => [id, probabilities[id]]),
        probability: next === undefined ? null : probabilities[next],
      };
    }),
    attention: layers.map((name) => Array.from({ length: num_heads }, (_, head) => {
      const map = new Float32Array(tokens.length ** 2);
      for (let row = 0; row < tokens.length; row++) {
        map.set(values[row].get(`${name}.attn.heads.${head}`), row * tokens.length);
      }
      return map;
    })),
    units: strongestUnits(model, layers.map((name) => seen.get(`${name}.ffn.units`))),
  };
}

/** What the output head would say of a residual stream. @param {any} model @param {Float32Array} stream */
function lensLogits(model, stream) {
  const hasFinalNorm = model.weights.has("ln_final.weight");
  return model.logits(hasFinalNorm ? model.normalise("ln_final", stream) : stream);
}

/**
 * The hidden units that add most to the stream, with the tokens that each makes likelier.
 * @param {any} model
 * @param {Float32Array[]} activations by layer
 */
function strongestUnits(model, activations) {
  const all = activations.flatMap((units, layer) => {
    const { data, rows, columns } = model.weight(`layers.${layer}.ffn.w2`);
    return Array.from(units, (activation, unit) => {
      const direction = new Float32Array(rows);
      for (let row = 0; row < rows; row++) direction[row] = activation * data[row * columns + unit];
      return { layer, unit, activation, direction, size: rms(direction) };
    });
  });
  const best = strongest(Float32Array.from(all, ({ size }) => size), NUM_UNITS);
  const gain = model.weights.has("ln_final.weight") && model.gain("ln_final");
  return best.map((index) => {
    const { layer, unit, activation, direction } = all[index];
    const pushed = model.headProduct(gain ? direction.map((value, i) => value * gain[i]) : direction);
    return { layer, unit, activation, pushes: strongest(pushed, NUM_TOKENS) };
  });
}
