// Operate: switch parts of the model off, and see what it says then.

import { bars } from "./chart.js";
import { byId, element, visible } from "./dom.js";
import { unlessCancelled } from "./engine.js";
import { learn } from "./learn.js";
import { UNTOUCHED } from "./model.js";
import { Passage } from "./passage.js";

/** Tokens that both models write on. */
const NUM_WRITTEN = 24;

/**
 * Build the view; it reads when it is shown.
 * @param {import("./main.js").App} app
 * @returns {{ show: () => void }}
 */
export function operateView(app) {
  const { data, engine, tokenizer } = app;
  const { num_layers, num_heads, positions } = data.config;
  const layers = Array.from({ length: num_layers }, (_, layer) => `layers.${layer}`);
  const weightNames = data.places.map((/** @type {any} */ place) => place.name);
  const norms = ["ln1", "ln1_after", "ln2", "ln2_after"].filter(
    (norm) => weightNames.includes(`layers.0.${norm}.weight`));
  /** @type {Set<string>} */
  const off = new Set();
  /** @type {Record<string, number>} */
  const scale = {};
  /** @type {AbortController | null} */
  let asking = null;
  /** @type {number | null} */
  let lossBefore = null;
  const passage = new Passage(app, "operate-text", update);
  const next = element("div.columns.equal", {}), written = element("div.columns.equal", {});
  const losses = element("p", { id: "losses", "aria-live": "polite" });
  const controls = element("div.scroll.parts", { tabindex: "0" });

  const toggle = (/** @type {string} */ name, /** @type {string} */ text,
    /** @type {string} */ label) => element("button.switch", {
    type: "button", "aria-pressed": `${!off.has(name)}`, "aria-label": label, "data-part": name,
    onclick: (/** @type {Event} */ event) => {
      if (!off.delete(name)) off.add(name);
      /** @type {Element} */ (event.currentTarget).setAttribute("aria-pressed", `${!off.has(name)}`);
      update();
    },
  }, text);

  function showControls() {
    const row = (/** @type {string} */ name, /** @type {number} */ layer) => {
      const shown = element("output", {}, `${scale[name] ?? 1}`);
      const slider = element("input", { type: "range", min: 0, max: 2, step: 0.1,
        value: scale[name] ?? 1, "aria-label": `Scale of layer ${layer}`, "data-part": name,
        oninput: () => {
          scale[name] = Number(slider.value);
          if (scale[name] === 1) delete scale[name];
          shown.textContent = slider.value;
        },
        onchange: () => update() });
      return element("tr", {}, element("th", { scope: "row" }, `${layer}`),
        element("td.heads", {}, ...Array.from({ length: num_heads }, (_, head) => toggle(
          `${name}.attn.heads.${head}`, `${head}`, `Layer ${layer}, head ${head}`))),
        element("td", {}, positions === "rope"
          ? toggle(`${name}.attn.rope`, "rotation", `Layer ${layer}, rotation`) : "none"),
        element("td", {}, toggle(`${name}.ffn`, "feed-forward", `Layer ${layer}, feed-forward`)),
        element("td", {}, ...norms.map((norm) => toggle(
          `${name}.${norm}`, norm, `Layer ${layer}, norm ${norm}`))),
        element("td.slide", {}, slider, shown));
    };
    controls.replaceChildren(element("table", {},
      element("thead", {}, element("tr", {}, ...["layer", "heads", "", "", norms.length
        ? "norms" : "no norms", "scale of what is added"].map((text) => element("th", {}, text)))),
      element("tbody", {}, ...layers.map(row))));
  }

  async function update() {
    asking?.abort();
    const { signal } = asking = new AbortController();
    const operations = { off: [...off].sort(), scale: { ...scale } };
    const isTouched = operations.off.length > 0 || Object.keys(scale).length > 0;
    const text = passage.ids.slice(0, passage.position + 1);
    const both = (/** @type {string} */ name, /** @type {object} */ request) => Promise.all([
      engine.ask(name, { ...request, operations: UNTOUCHED }, { signal }),
      isTouched ? engine.ask(name, { ...request, operations }, { signal }) : null]);
    try {
      await showNext(await both("rivals", { text }), text);
      await showWritten(text, operations, isTouched, signal);
      await showLosses(operations, isTouched, signal);
    } catch (error) {
      unlessCancelled(app.fail)(/** @type {Error} */ (error));
    }
  }

  /** @param {any[]} found @param {number[]} text */
  function showNext([before, after], text) {
    const column = (/** @type {any} */ rivals, /** @type {any[]} */ ...title) => element("div", {},
      element("h3", {}, ...title), rivals
        ? bars(rivals.map((/** @type {[number, number]} */ [id, share]) => (
          { label: visible(tokenizer.name(id)), share })))
        : element("p.soft", {}, "Nothing is changed yet: switch something off above."));
    const last = element("span.token", {}, visible(tokenizer.name(text[text.length - 1])));
    next.replaceChildren(column(before, "After ", last, ", as trained"), column(after, "Operated"));
  }

  /**
   * @param {number[]} text
   * @param {any} operations
   * @param {boolean} isTouched
   * @param {AbortSignal} signal
   */
  async function showWritten(text, operations, isTouched, signal) {
    const sampling = { temperature: 0, top_k: null, top_p: null };
    const stopId = tokenizer.encode(data.end_of_text)[0];
    const column = async (/** @type {string} */ title, /** @type {any} */ done) => {
      /** @type {number[]} */
      const ids = [];
      await engine.ask("write", { text, maxTokens: NUM_WRITTEN, sampling, seed: 0, numDrawn: 0,
        stopId, operations: done }, { signal, onNews: (one) => ids.push(one.id) });
      const story = tokenizer.decode(ids.filter((id) => id !== stopId));
      return element("div", {}, element("h3", {}, title), element("p.paper", {}, story));
    };
    const columns = [await column("It goes on, as trained", UNTOUCHED)];
    if (isTouched) columns.push(await column("Operated", operations));
    written.replaceChildren(...columns);
  }

  /** @param {any} operations @param {boolean} isTouched @param {AbortSignal} signal */
  async function showLosses(operations, isTouched, signal) {
    if (!data.validation) {
      losses.textContent = "This run has no validation text, so no loss can be measured.";
      return;
    }
    const text = data.validation.ids;
    const bits = (/** @type {number} */ loss) => (
      `${loss.toFixed(3)} nats per token, ${(loss / Math.LN2 / data.validation.bytes_per_token)
        .toFixed(3)} bits per byte`);
    const measure = (/** @type {any} */ done) => engine.ask(
      "loss", { text, operations: done }, { signal, onNews: (share) => {
        losses.textContent = `Measuring the loss: ${Math.round(100 * share)}%`;
      } });
    lossBefore ??= await measure(UNTOUCHED);
    const before = `On ${text.length - 1} tokens of validation text: ${bits(lossBefore ?? 0)}`;
    losses.textContent = isTouched
      ? `${before}; operated: ${bits(await measure(operations))}.` : `${before}.`;
  }

  const restore = () => {
    off.clear();
    for (const name of Object.keys(scale)) delete scale[name];
    showControls();
    final.setAttribute("aria-pressed", "true");
    update();
  };
  const final = toggle("ln_final", "final norm", "Final norm");
  const buttons = element("div.buttons", {},
    weightNames.includes("ln_final.weight") ? final : null,
    element("button", { type: "button", id: "restore", onclick: restore }, "Everything on again"));
  showControls();
  byId("operate").append(
    element("div.card", {}, element("h2", {}, "The model"), element("p.soft", {},
      "Every switch is a part of the model. What is switched off adds nothing; a norm that is off "
      + "hands on what it is given; without rotation a layer cannot tell in which order tokens "
      + "came."), controls, buttons),
    passage.node,
    element("article.card", {}, element("h2", {}, "What comes next"), next, written, losses),
    learn(app, "operate"));
  return { show: () => passage.take() };
}
