// Asks the server that the page came from: the requests of worker.js, each answered by a stream of
// server-sent events. Its other side is cs_basics/interop/serve/glass.py.

import { CANCELLED } from "./engine.js";
import { toBytes } from "./weights.js";

export class ServedEngine {
  /** The server has the model. */
  async open() {}

  /**
   * Ask the server.
   * @param {string} name
   * @param {object} request
   * @param {{ onNews?: (news: any) => void, signal?: AbortSignal }} [options]
   * @returns {Promise<any>}
   */
  async ask(name, request, { onNews, signal } = {}) {
    try {
      for await (const { news, result, error } of this.events(name, request, signal)) {
        if (error) throw new Error(error.message);
        if (result !== undefined) return result;
        onNews?.(news);
      }
    } catch (error) {
      if (signal?.aborted) throw new Error(CANCELLED);
      // What fetch throws where nobody listens, or the connection breaks.
      if (!(error instanceof TypeError)) throw error;
    }
    throw new Error("The server does not answer: is scripts/serve.py still running?");
  }

  /**
   * @param {string} name
   * @param {object} request
   * @param {AbortSignal} [signal]
   */
  async* events(name, request, signal) {
    const headers = { "Content-Type": "application/json" }, body = JSON.stringify(request);
    const response = await fetch(`glass/${name}`, { method: "POST", headers, body, signal });
    if (!response.ok || !response.body) {
      const none = { error: { message: `The server refuses, with status ${response.status}.` } };
      yield await response.json().catch(() => none);
      return;
    }
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ""; ;) {
      const { value, done } = await reader.read();
      if (done) return;
      const events = (text + value).split("\n\n");
      text = events.pop() ?? "";
      for (const event of events) yield JSON.parse(event.slice("data: ".length), revived);
    }
  }
}

/** What page_data.py makes of a tensor is an array again. @param {string} _ @param {any} value */
const revived = (_, value) => (
  value?.float32 === undefined ? value : new Float32Array(toBytes(value.float32)));
