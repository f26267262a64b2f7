// Write: a beginning, the settings of the sampling, and the text as it comes, token by token.

import { Branch, drawTree } from "./branches.js";
import { bars } from "./chart.js";
import { byId, element, percent, visible } from "./dom.js";
import { unlessCancelled } from "./engine.js";
import { learn } from "./learn.js";
import { fieldset, readLink, writeLink } from "./settings.js";
import { TokenStrip } from "./tokens.js";

/** Bits of surprise that have the full colour. */
const MOST_BITS = 8;

/** Why a story ended. @type {Record<string, string>} */
const ENDS = {
  end: "The model ended the story.",
  length: "The length is reached.",
  closed: "The server was stopped.",
  time: "The server's time limit is reached.",
};

/**
 * Build the view.
 * @param {import("./main.js").App} app
 */
export function writeView(app) {
  const { data, engine, tokenizer } = app;
  const stopId = tokenizer.encode(data.end_of_text)[0];
  // As in training, where each story follows the end of another one.
  const before = tokenizer.encode(`${data.end_of_text}\n`);
  const most = data.config.context_length - 1;
  let root = new Branch(null, null), shown = root, prompt = "";
  /** @type {number[]} */
  let promptIds = [];
  /** @type {AbortController | null} */
  let writing = null;

  const settings = fieldset(data.sampling);
  const beginning = element("textarea", { id: "prompt", rows: "2", spellcheck: "false",
    placeholder: data.beginning });
  const status = element("p.soft.status", { role: "status" });
  const writeButton = element("button.primary", { id: "start", type: "submit" }, "Write");
  const stopButton = element(
    "button", { id: "stop", type: "button", onclick: () => stop("Stopped.") }, "Stop");
  const opening = element("span.opening");
  const strip = new TokenStrip("The story, token by token; the arrow keys choose one", {
    onChoose: (index) => showToken(index),
    onPoint: (index) => showToken(index ?? strip.chosen),
  });
  strip.node.id = "story";
  const panel = element("div", { id: "rivals", "aria-live": "polite" });
  const tree = element("div", { id: "tree" });
  const hint = "Point at a token, or choose one with the arrow keys, to see what else could have "
    + "stood there; a click on a rival goes on from it.";

  function showStory() {
    const path = shown.path();
    const ids = path.map(({ scored }) => scored.id);
    const pieces = tokenizer.pieces(ids);
    strip.show(pieces.map((piece, i) => (ids[i] === stopId ? " \u220e" : piece)), (i) => ({
      shade: path[i].scored.bits / MOST_BITS,
    }));
    opening.textContent = prompt;
    app.story = [...before, ...promptIds, ...ids.filter((id) => id !== stopId)];
  }

  function showTree() {
    const drawn = drawTree(root, shown, (ids) => tokenizer.decode(ids), (branch) => {
      stop("");
      for (let at = branch; at.parent; at = at.parent) at.parent.latest = at;
      shown = branch.end();
      showStory();
      strip.mark(branch.depth - 1);
      showToken(strip.chosen);
      showTree();
    });
    tree.replaceChildren(drawn ?? element("p.soft", {}, "Nothing is written yet."));
  }

  /** @param {number} index */
  function showToken(index) {
    const branch = shown.path()[index];
    if (!branch) {
      panel.replaceChildren(element("p.soft", {}, hint));
      return;
    }
    const { id, probability, bits, rivals } = branch.scored;
    const all = rivals.some(([rival]) => rival === id) ? rivals : [...rivals, [id, probability]];
    panel.replaceChildren(
      element("p", {}, element("span.token", {}, visible(tokenizer.name(id))),
        ` had ${percent(probability)}: a surprise of ${bits.toFixed(1)} bits.`),
      bars(all.map(([rival, share]) => ({
        label: visible(tokenizer.name(rival)), share, kind: rival === id ? "chosen" : undefined,
        onclick: () => goOnFrom(branch, rival, share),
      }))));
  }

  /**
   * Put another token in the place of one, and write on.
   * @param {Branch} branch
   * @param {number} id
   * @param {number} probability
   */
  function goOnFrom(branch, id, probability) {
    if (!branch.parent) return;
    stop("");
    shown = branch.parent.grow({
      id, probability, bits: -Math.log2(probability), rivals: branch.scored.rivals });
    showStory();
    strip.mark(shown.depth - 1);
    showToken(strip.chosen);
    if (id !== stopId) write();
    else showTree();
  }

  /** @param {string} why */
  function stop(why) {
    writing?.abort();
    writing = null;
    stopButton.disabled = true;
    if (why) status.textContent = why;
  }

  async function write() {
    stop("");
    const controller = writing = new AbortController();
    const { maxTokens, seed, ...sampling } = settings.read();
    stopButton.disabled = false;
    status.textContent = "Writing\u2026";
    const started = performance.now();
    let count = 0, isDrawn = false;
    const show = () => {
      isDrawn = false;
      showStory();
    };
    const onNews = (/** @type {any} */ scored) => {
      if (writing !== controller) return;
      shown = shown.grow(scored);
      count++;
      if (!isDrawn) requestAnimationFrame(show);
      isDrawn = true;
    };
    const text = [...before, ...promptIds, ...shown.path().map(({ scored }) => scored.id)];
    const request = { text, maxTokens, sampling, seed, numDrawn: shown.depth, stopId };
    try {
      const reason = await engine.ask("write", request, { onNews, signal: controller.signal });
      const speed = count / ((performance.now() - started) / 1000);
      stop(`${count} tokens, ${speed.toFixed(0)} per second. ${ENDS[reason]}`);
    } catch (error) {
      if (writing === controller) stop("");
      unlessCancelled(app.fail)(/** @type {Error} */ (error));
    }
    showStory();
    showTree();
  }

  /** @param {SubmitEvent} event */
  function start(event) {
    event.preventDefault();
    app.fail("");
    const wrong = settings.wrong();
    if (wrong) return app.fail(wrong);
    const ids = tokenizer.encode(beginning.value);
    if (before.length + ids.length > most) {
      return app.fail(`The beginning has ${ids.length} tokens; this model reads at most `
        + `${most - before.length}: shorten it.`);
    }
    if (beginning.value !== prompt) root = new Branch(null, null);
    [prompt, promptIds, shown] = [beginning.value, ids, root];
    strip.mark(-1);
    showStory();
    showToken(-1);
    write();
  }

  /** @param {DragEvent} event */
  async function dropped(event) {
    const file = event.dataTransfer?.files[0];
    if (!file) return;
    event.preventDefault();
    if (file.size > 1e6) return app.fail(`${file.name} has ${file.size} bytes: drop a short text.`);
    try {
      const decoder = new TextDecoder("utf-8", { fatal: true });
      beginning.value = decoder.decode(await file.arrayBuffer());
      app.fail("");
    } catch {
      app.fail(`${file.name} is not UTF-8 text.`);
    }
  }

  /** @param {string} text @param {string} done */
  async function copy(text, done) {
    try {
      await navigator.clipboard.writeText(text);
      status.textContent = done;
    } catch {
      status.textContent = "This browser lets no page copy: select the text instead.";
    }
  }

  const buttons = element("div.buttons", {}, writeButton, stopButton,
    element("button", { type: "button", id: "copy", onclick: () => copy(
      prompt + tokenizer.decode(
        shown.path().map(({ scored }) => scored.id).filter((id) => id !== stopId)), "Copied.",
    ) }, "Copy text"),
    element("button", { type: "button", id: "link", onclick: () => {
      const link = writeLink({ prompt: beginning.value, ...settings.read() });
      history.replaceState(null, "", link);
      copy(link, "The link is copied: it opens this page with these settings.");
    } }, "Copy link"));
  const form = element("form.card", { id: "form", novalidate: true, onsubmit: start, ondrop: dropped,
    ondragover: (/** @type {Event} */ event) => event.preventDefault() },
    element("label", { for: "prompt" }, "Beginning of the story, or none"), beginning,
    settings.node, buttons, status);
  byId("write").append(form,
    element("div.columns", {},
      element("article.card", {}, element("div.paper", {}, opening, strip.node),
        element("p.legend.soft", {}, "colour: surprise, from none ",
          element("span.scale", { "aria-hidden": "true" }), ` to ${MOST_BITS} bits and more`)),
      element("aside.card", {}, element("h2", {}, "Rivals"), panel)),
    element("div.card", {}, element("h2", {}, "Branches"), tree),
    learn(app, "write"));
  const given = readLink();
  if (given) {
    beginning.value = given.prompt;
    settings.fill(given);
  }
  stopButton.disabled = true;
  showToken(-1);
  showTree();
}
