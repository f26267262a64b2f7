// Asks the worker: each request has one answer, and perhaps news before.

/** Why a request has no answer, where somebody wanted none any more. */
export const CANCELLED = "cancelled";

export class Engine {
  /** @param {string} source the script of the worker */
  constructor(source) {
    const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    this.worker = new Worker(url);
    this.numAsked = 0;
    /** @type {Map<number, { resolve: Function, reject: Function, onNews?: Function }>} */
    this.unanswered = new Map();
    this.worker.onmessage = ({ data: { id, news, result, error } }) => {
      const asked = this.unanswered.get(id);
      if (!asked) return;
      if (news !== undefined) {
        asked.onNews?.(news);
        return;
      }
      this.unanswered.delete(id);
      if (error === undefined) asked.resolve(result);
      else asked.reject(new Error(error));
    };
    this.worker.onerror = ({ message }) => {
      for (const { reject } of this.unanswered.values()) reject(new Error(message));
      this.unanswered.clear();
    };
  }

  /** Give the worker its model. @param {{ config: any, places: any[], base64: string }} model */
  open(model) {
    return this.ask("open", model);
  }

  /**
   * Ask the worker (worker.js lists the requests).
   * @param {string} name
   * @param {object} request
   * @param {{ onNews?: (news: any) => void, signal?: AbortSignal }} [options]
   * @returns {Promise<any>}
   */
  ask(name, request, { onNews, signal } = {}) {
    const id = this.numAsked++;
    return new Promise((resolve, reject) => {
      this.unanswered.set(id, { resolve, reject, onNews });
      this.worker.postMessage({ id, name, request });
      signal?.addEventListener("abort", () => {
        if (!this.unanswered.delete(id)) return;
        this.worker.postMessage({ cancel: id });
        reject(new Error(CANCELLED));
      });
    });
  }
}

/** Show an error that is no cancellation. @param {(message: string) => void} show */
export const unlessCancelled = (show) => (/** @type {Error} */ error) => {
  if (error.message !== CANCELLED) show(error.message);
};
