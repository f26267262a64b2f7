// The model in a worker: what it computes never keeps the page from answering.

import { Model, UNTOUCHED } from "./model.js";
import { uniforms } from "./random.js";
import { Reader } from "./reader.js";
import { sample, scored, surprise } from "./sampling.js";
import { inspect, tracedReader } from "./trace.js";
import { toBytes, unpack } from "./weights.js";

/** @type {Model} */
let model;
/** One reader per purpose and operations: what was read stays read. @type {Map<string, Reader>} */
const readers = new Map();

/** @param {string} purpose @param {import("./model.js").Operations} operations */
function readerFor(purpose, operations = UNTOUCHED) {
  const key = JSON.stringify([purpose, operations]);
  const reader = readers.get(key) ?? (purpose === "look"
    ? tracedReader(model, operations) : new Reader(model, operations));
  readers.delete(key);
  readers.set(key, reader); // the last used is the last
  for (const old of readers.keys()) if (readers.size > 6) readers.delete(old);
  return reader;
}

// What the page may ask for: generators that yield news, for example each token, and return the
// answer. Several take turns; between two yields a request may be cancelled, or another one may have
// the reader read another text.
const REQUESTS = {
  /** @param {{ config: any, places: any[], base64: string }} data */
  * open({ config, places, base64 }) {
    yield "reading weights";
    model = new Model(config, unpack(places, toBytes(base64)));
  },

  /**
   * Continue a text; yields each token with its rivals.
   * @param {{ text: number[], maxTokens: number, sampling: import("./sampling.js").Sampling,
   *   seed: number, numDrawn: number, stopId: number, operations?: any }} request numDrawn: how many
   *   tokens of the text were drawn with this seed
   */
  * write({ text, maxTokens, sampling, seed, numDrawn, stopId, operations }) {
    const { context_length } = model.config;
    const reader = readerFor("write", operations);
    const random = uniforms(seed);
    for (let i = 0; i < numDrawn; i++) random.next();
    text = [...text];
    let begin = Math.max(0, text.length - context_length);
    for (let count = 0; count < maxTokens; count++) {
      if (text.length - begin > context_length) {
        begin = text.length - Math.max(Math.floor(context_length / 2), 1);
      }
      const shown = text.slice(begin);
      while (reader.advance(shown)) yield null;
      const logits = reader.logits(shown.length - 1);
      const id = sample(logits, sampling, random.next().value);
      yield scored(logits, id);
      if (id === stopId) return "end";
      text.push(id);
    }
    return "length";
  },

  /**
   * The likeliest tokens after a text, with their probabilities.
   * @param {{ text: number[], operations?: any }} request
   */
  * rivals({ text, operations }) {
    const reader = readerFor("next", operations);
    while (reader.advance(text)) yield null;
    return scored(reader.logits(text.length - 1), 0).rivals;
  },

  /** All scores of the token after a text. @param {{ text: number[], operations?: any }} request */
  * logits({ text, operations }) {
    const reader = readerFor("next", operations);
    while (reader.advance(text)) yield null;
    return reader.logits(text.length - 1);
  },

  /**
   * The mean loss of a text in nats per token; yields the share that is done.
   * @param {{ text: number[], operations?: any }} request
   */
  * loss({ text, operations }) {
    const reader = readerFor("loss", operations);
    let sum = 0;
    for (let at = 0; at + 1 < text.length; at++) {
      const read = text.slice(0, at + 1);
      while (reader.advance(read));
      sum += surprise(reader.logits(at), text[at + 1]);
      yield (at + 1) / (text.length - 1);
    }
    return sum / (text.length - 1);
  },

  /** What happens inside at one position. @param {{ text: number[], position: number }} request */
  * look({ text, position }) {
    const reader = readerFor("look");
    while (reader.advance(text)) yield reader.tokens.length / text.length;
    return inspect(reader, position);
  },
};

/** @type {Set<number>} */
const cancelled = new Set();
const { port1, port2 } = new MessageChannel();
/** @type {Function[]} */
const paused = [];
port1.onmessage = () => paused.shift()?.();
/** Let messages arrive, and other requests go on. */
const pause = () => new Promise((resolve) => {
  paused.push(resolve);
  port2.postMessage(null);
});
/** The model is there. */
let opened = Promise.resolve();

self.onmessage = ({ data }) => {
  if (data.cancel !== undefined) cancelled.add(data.cancel);
  else if (data.name === "open") opened = answer(data);
  else opened.then(() => answer(data));
};

/** @param {{ id: number, name: keyof typeof REQUESTS, request: any }} asked */
async function answer({ id, name, request }) {
  try {
    await pause();
    const work = REQUESTS[name](request);
    for (let rested = performance.now(); ;) {
      if (cancelled.delete(id)) return postMessage({ id, error: "cancelled" });
      const { value, done } = work.next();
      if (done) return postMessage({ id, result: value });
      if (value !== null) postMessage({ id, news: value });
      if (performance.now() - rested > 8) {
        await pause();
        rested = performance.now();
      }
    }
  } catch (error) {
    postMessage({ id, error: error instanceof Error ? error.message : String(error) });
  }
}
