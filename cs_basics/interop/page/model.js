// The Transformer of cs_basics/transformer.py and its variants, reading one token at a time.

import {
  ACTIVATIONS, add, groupRmsNorm, layerNorm, linear, rmsNorm, rotate, softmax,
} from "./tensor.js";

/**
 * The ModelConfig of cs_basics/settings/model.py.
 * @typedef {{ vocab_size: number, context_length: number, d_model: number, d_ff: number,
 *   num_layers: number, num_heads: number, rope_theta: number, norm: string, norm_eps: number,
 *   placement: string, positions: string,
 *   num_kv_heads: number | null, head_dim: number | null, ffn: string, qk_norm: boolean
 * }} ModelConfig
 */

/**
 * What is switched off, by the names of the state dict (`layers.0.ln1`, `layers.0.attn.heads.3`,
 * `layers.0.attn.rope`, `layers.0.ffn`, `ln_final`), and by how much a layer's additions to the
 * residual stream are multiplied (`layers.0`).
 * @typedef {{ off: string[], scale: Record<string, number> }} Operations
 */

/** @type {Operations} */
export const UNTOUCHED = { off: [], scale: {} };

/** @typedef {(place: string, values: Float32Array) => void} Trace what is told of every value */

export class Model {
  /**
   * @param {ModelConfig} config
   * @param {Map<string, import("./tensor.js").Weight>} weights by the names of the state dict
   */
  constructor(config, weights) {
    this.config = config;
    this.weights = weights;
    this.dHead = config.head_dim ?? config.d_model / config.num_heads;
    this.numKvHeads = config.num_kv_heads ?? config.num_heads;
    const half = this.dHead / 2;
    /** Angles by position. @type {{ cos: Float32Array, sin: Float32Array }[]} */
    this.angles = [];
    if (config.positions === "rope") {
      for (let position = 0; position < config.context_length; position++) {
        const turns = Array.from(
          { length: half }, (_, i) => position * config.rope_theta ** (-(2 * i) / this.dHead));
        this.angles.push({
          cos: Float32Array.from(turns, Math.cos),
          sin: Float32Array.from(turns, Math.sin),
        });
      }
    }
  }

  /** @param {string} name */
  weight(name) {
    const found = this.weights.get(`${name}.weight`);
    if (!found) throw new Error(`the file holds no weight ${name}`);
    return found;
  }

  /**
   * Read the token at a position, whose keys and values are added to the cache.
   * @param {number} token
   * @param {number} position
   * @param {import("./reader.js").Cache} cache of all positions before
   * @param {Operations} operations
   * @param {Trace} [trace]
   * @returns {Float32Array} what the output head reads, (d_model)
   */
  step(token, position, cache, operations, trace) {
    const { d_model, num_layers, placement } = this.config;
    const table = this.weight("token_embeddings").data;
    const x = table.slice(token * d_model, (token + 1) * d_model);
    trace?.("embedding", x);
    for (let layer = 0; layer < num_layers; layer++) {
      const name = `layers.${layer}`;
      const scale = operations.scale[name] ?? 1;
      const parts = /** @type {const} */ ([
        ["attn", "ln1", (/** @type {Float32Array} */ input) =>
          this.attention(name, input, position, cache, layer, operations, trace)],
        ["ffn", "ln2", (/** @type {Float32Array} */ input) =>
          this.feedForward(name, input, operations, trace)],
      ]);
      for (const [part, norm, compute] of parts) {
        const before = placement === "pre" || placement === "sandwich";
        const input = before ? this.norm(`${name}.${norm}`, x, operations, trace) : x;
        let change = compute(input);
        if (placement === "sandwich") {
          change = this.norm(`${name}.${norm}_after`, change, operations, trace);
        }
        trace?.(`${name}.${part}`, change);
        add(x, change, scale);
        if (placement === "post") x.set(this.norm(`${name}.${norm}`, x, operations, trace));
        trace?.(`${name}.after_${part}`, x);
      }
    }
    const hasFinalNorm = placement === "pre" || placement === "sandwich";
    return hasFinalNorm ? this.norm("ln_final", x, operations, trace) : x;
  }

  /** Scores of the next token. @param {Float32Array} hidden from `step` */
  logits(hidden) {
    const logits = this.headProduct(hidden);
    const bias = this.weights.get("lm_head.bias");
    if (bias) add(logits, bias.data);
    return logits;
  }

  /** Logits without the bias of the head, if it has one. @param {Float32Array} hidden */
  headProduct(hidden) {
    const head = this.weight("lm_head");
    return linear(head, hidden, new Float32Array(head.rows));
  }

  /**
   * @param {string} name
   * @param {Float32Array} x
   * @param {Operations} operations
   * @param {Trace} [trace]
   */
  norm(name, x, operations, trace) {
    const normalised = operations.off.includes(name) ? x : this.normalise(name, x);
    trace?.(name, normalised);
    return normalised;
  }

  /** What a norm multiplies by; Gemma's weight is the difference from 1. @param {string} name */
  gain(name) {
    const { data } = this.weight(name);
    return this.config.norm === "rmsnorm-gemma" ? data.map((value) => 1 + value) : data;
  }

  /** @param {string} name @param {Float32Array} x */
  normalise(name, x) {
    const { norm, norm_eps: eps } = this.config;
    const gain = this.gain(name);
    switch (norm) {
      case "rmsnorm":
      case "rmsnorm-gemma":
      case "rmsnorm-llama": // the two orders of cast and gain differ in bfloat16 only
        return rmsNorm(x, gain, eps);
      case "layernorm":
      case "layernorm-no-bias":
        return layerNorm(x, gain, eps, this.weights.get(`${name}.bias`)?.data);
      case "partial-rmsnorm": {
        const measured = Math.max(1, Math.ceil(x.length / 16));
        return rmsNorm(x, gain, eps, x.subarray(0, measured));
      }
      case "group-rmsnorm":
        return groupRmsNorm(x, gain, eps, 8);
      default:
        throw new Error(`norm=${norm} is unknown to this page`);
    }
  }

  /**
   * @param {string} name
   * @param {Float32Array} x
   * @param {number} position
   * @param {import("./reader.js").Cache} caches of all layers
   * @param {number} layer
   * @param {Operations} operations
   * @param {Trace} [trace]
   */
  attention(name, x, position, caches, layer, operations, trace) {
    const { dHead, numKvHeads, config: { d_model, num_heads, qk_norm, norm_eps } } = this;
    const dQ = num_heads * dHead, dKv = numKvHeads * dHead;
    const cache = caches[layer];
    const q = linear(this.weight(`${name}.attn.q_proj`), x, new Float32Array(dQ));
    const k = cache.keys.subarray(position * dKv, (position + 1) * dKv);
    const v = cache.values.subarray(position * dKv, (position + 1) * dKv);
    linear(this.weight(`${name}.attn.k_proj`), x, k);
    linear(this.weight(`${name}.attn.v_proj`), x, v);
    const scales = this.weights.get(`${name}.value_scales`)?.data;
    if (scales) {
      // The first layer mixes nothing: its cache holds its own values.
      const [ofFirst, own] = scales;
      const first = caches[0].values.subarray(position * dKv, (position + 1) * dKv);
      for (let i = 0; i < dKv; i++) v[i] = ofFirst * first[i] + own * v[i];
    }
    const isTurned = this.angles.length > 0 && !operations.off.includes(`${name}.attn.rope`);
    for (const [rows, norm] of /** @type {const} */ ([[q, "q_norm"], [k, "k_norm"]])) {
      for (let at = 0; at < rows.length; at += dHead) {
        const head = rows.subarray(at, at + dHead);
        if (qk_norm) head.set(rmsNorm(head, this.weight(`${name}.attn.${norm}`).data, norm_eps));
        if (isTurned) rotate(head, this.angles[position].cos, this.angles[position].sin);
      }
    }
    const mixed = new Float32Array(dQ);
    for (let head = 0; head < num_heads; head++) {
      // Heads of queries that share keys and values are neighbours.
      const shared = Math.floor((head * numKvHeads) / num_heads) * dHead;
      const scores = new Float32Array(position + 1);
      for (let past = 0; past <= position; past++) {
        let score = 0;
        const key = past * dKv + shared, query = head * dHead;
        for (let i = 0; i < dHead; i++) score += q[query + i] * cache.keys[key + i];
        scores[past] = score / Math.sqrt(dHead);
      }
      const weights = softmax(scores);
      trace?.(`${name}.attn.heads.${head}`, weights);
      for (let past = 0; past <= position; past++) {
        const value = past * dKv + shared, weight = weights[past];
        for (let i = 0; i < dHead; i++) mixed[head * dHead + i] += weight * cache.values[value + i];
      }
    }
    for (let head = 0; head < num_heads; head++) {
      const isOff = operations.off.includes(`${name}.attn.heads.${head}`);
      if (isOff) mixed.fill(0, head * dHead, (head + 1) * dHead);
    }
    return linear(this.weight(`${name}.attn.output_proj`), mixed, new Float32Array(d_model));
  }

  /**
   * W2 (SiLU(W1 x) * W3 x), or without the gate W2 f(W1 x).
   * @param {string} name
   * @param {Float32Array} x
   * @param {Operations} operations
   * @param {Trace} [trace]
   */
  feedForward(name, x, operations, trace) {
    const { d_model, d_ff, ffn } = this.config;
    const product = (/** @type {string} */ part, /** @type {Float32Array} */ input) => {
      const weight = this.weight(`${name}.ffn.${part}`);
      return linear(weight, input, new Float32Array(weight.rows));
    };
    const units = product("w1", x).map(ACTIVATIONS[ffn]);
    if (ffn === "swiglu") {
      const up = product("w3", x);
      for (let i = 0; i < d_ff; i++) units[i] *= up[i];
    }
    trace?.(`${name}.ffn.units`, units);
    return operations.off.includes(`${name}.ffn`)
      ? new Float32Array(d_model) : product("w2", units);
  }
}
