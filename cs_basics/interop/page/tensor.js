// The arithmetic of the model on plain typed arrays: products, norms, softmax.
// What cs_basics/layers.py, norms.py, functional.py and rope.py do, for one position at a time.

/**
 * A weight of two axes, row by row; a vector has one row.
 * @typedef {{ data: Float32Array, rows: number, columns: number }} Weight
 */

/**
 * Write W x into `out`. Four sums side by side, since one would wait for its own last addition.
 * @param {Weight} weight (rows, columns)
 * @param {Float32Array} x (columns)
 * @param {Float32Array} out (rows)
 */
export function linear({ data, rows, columns }, x, out) {
  const whole = columns - (columns % 4);
  for (let row = 0, at = 0; row < rows; row++) {
    let a = 0, b = 0, c = 0, d = 0;
    for (let i = 0; i < whole; i += 4, at += 4) {
      a += data[at] * x[i];
      b += data[at + 1] * x[i + 1];
      c += data[at + 2] * x[i + 2];
      d += data[at + 3] * x[i + 3];
    }
    for (let i = whole; i < columns; i++, at++) a += data[at] * x[i];
    out[row] = a + b + (c + d);
  }
  return out;
}

/** Root mean square. @param {Float32Array} x */
export function rms(x) {
  let sum = 0;
  for (const value of x) sum += value * value;
  return Math.sqrt(sum / x.length);
}

/**
 * RMSNorm of one vector: x / sqrt(mean(x^2) + eps) * gain.
 * @param {Float32Array} x
 * @param {Float32Array} gain
 * @param {number} eps
 * @param {Float32Array} measured the coordinates whose mean square is taken; usually all of x
 */
export function rmsNorm(x, gain, eps, measured = x) {
  let sum = 0;
  for (const value of measured) sum += value * value;
  const scale = 1 / Math.sqrt(sum / measured.length + eps);
  return x.map((value, i) => value * scale * gain[i]);
}

/**
 * RMSNorm of each group of neighbouring coordinates.
 * @param {Float32Array} x
 * @param {Float32Array} gain
 * @param {number} eps
 * @param {number} groups
 */
export function groupRmsNorm(x, gain, eps, groups) {
  const out = new Float32Array(x.length), size = x.length / groups;
  for (let at = 0; at < x.length; at += size) {
    out.set(rmsNorm(x.subarray(at, at + size), gain.subarray(at, at + size), eps), at);
  }
  return out;
}

/**
 * LayerNorm of one vector: shift to mean 0, divide by the standard deviation, gain and bias.
 * @param {Float32Array} x
 * @param {Float32Array} gain
 * @param {number} eps
 * @param {Float32Array | undefined} bias
 */
export function layerNorm(x, gain, eps, bias) {
  let mean = 0, variance = 0;
  for (const value of x) mean += value / x.length;
  for (const value of x) variance += (value - mean) ** 2 / x.length;
  const scale = 1 / Math.sqrt(variance + eps);
  return x.map((value, i) => (value - mean) * scale * gain[i] + (bias ? bias[i] : 0));
}

/** Probabilities from scores. @param {Float32Array} scores */
export function softmax(scores) {
  let highest = -Infinity, sum = 0;
  for (const score of scores) if (score > highest) highest = score;
  const weights = scores.map((score) => Math.exp(score - highest));
  for (const weight of weights) sum += weight;
  return weights.map((weight) => weight / sum);
}

/**
 * The error function, within 1.5e-7: Abramowitz and Stegun 1964, 7.1.26.
 * @param {number} x
 */
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const series = [1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592];
  const sum = series.reduce((rest, factor) => (rest + factor) * t, 0);
  return Math.sign(x) * (1 - sum * Math.exp(-x * x));
}

/** @param {number} x */
export const silu = (x) => x / (1 + Math.exp(-x));

/** What variants/feed_forward.py applies to the hidden layer. @type {Record<string, (x: number) => number>} */
export const ACTIVATIONS = {
  swiglu: silu,
  silu,
  relu: (x) => Math.max(x, 0),
  gelu: (x) => x * 0.5 * (1 + erf(x / Math.SQRT2)),
  "relu-squared": (x) => Math.max(x, 0) ** 2,
};

/**
 * Turn the pairs (2i, 2i + 1) of a head by position / theta^(2i / d_head), in place.
 * @param {Float32Array} head
 * @param {Float32Array} cos (d_head / 2), of this position
 * @param {Float32Array} sin
 */
export function rotate(head, cos, sin) {
  for (let i = 0; i < cos.length; i++) {
    const even = head[2 * i], odd = head[2 * i + 1];
    head[2 * i] = even * cos[i] - odd * sin[i];
    head[2 * i + 1] = even * sin[i] + odd * cos[i];
  }
}

/** Add b to a, in place. @param {Float32Array} a @param {Float32Array} b */
export function add(a, b, scale = 1) {
  for (let i = 0; i < a.length; i++) a[i] += scale * b[i];
}
