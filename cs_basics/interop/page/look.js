// Look: what happens between a text and the next token.

import { drawMap, streamChart } from "./chart.js";
import { byId, element, percent, visible } from "./dom.js";
import { unlessCancelled } from "./engine.js";
import { learn } from "./learn.js";
import { mergeSteps } from "./merges.js";
import { Passage } from "./passage.js";
import { TokenStrip } from "./tokens.js";

/**
 * Build the view; it reads when it is shown.
 * @param {import("./main.js").App} app
 * @returns {{ show: () => void }}
 */
export function lookView(app) {
  const { tokenizer, engine, data } = app;
  /** @type {AbortController | null} */
  let asking = null;
  /** @type {import("./trace.js").Inspection | null} */
  let seen = null;
  const chosen = { layer: 0, head: 0 };
  const passage = new Passage(app, "look-text", update);
  const merges = element("div", { id: "merges" });
  const heads = element("div.heads", { role: "group", "aria-label": "Heads" });
  const seenFrom = new TokenStrip("How much the chosen token looks at each", {
    onChoose: (index) => {
      passage.strip.choose(index);
      seenFrom.mark(index);
    },
  });
  const large = element("canvas.large", { role: "img" });
  const headName = element("p", { "aria-live": "polite" });
  const stream = element("div", {}), lens = element("div.scroll", { tabindex: "0" });
  const units = element("div.scroll", { tabindex: "0" });
  const framed = (/** @type {number} */ id) => element("span.token", {},
    visible(tokenizer.name(id)));

  async function update() {
    asking?.abort();
    asking = new AbortController();
    merges.replaceChildren(mergeSteps(tokenizer, passage.ids, passage.position));
    try {
      const request = { text: passage.ids, position: passage.position };
      seen = await engine.ask("look", request, { signal: asking.signal });
    } catch (error) {
      return unlessCancelled(app.fail)(/** @type {Error} */ (error));
    }
    showHeads();
    showStream();
    showLens();
    showUnits();
  }

  function showHeads() {
    if (!seen) return;
    const size = passage.ids.length;
    heads.replaceChildren(...seen.attention.map((maps, layer) => element("div.layer", {},
      element("span.soft", {}, `layer ${layer}`), ...maps.map((map, head) => {
        const canvas = element("canvas", { "aria-hidden": "true" });
        drawMap(canvas, map, size);
        const isChosen = layer === chosen.layer && head === chosen.head;
        return element("button", {
          "aria-pressed": `${isChosen}`, "aria-label": `layer ${layer}, head ${head}`,
          onclick: () => {
            Object.assign(chosen, { layer, head });
            for (const button of heads.querySelectorAll("button")) {
              button.setAttribute("aria-pressed", `${button.contains(canvas)}`);
            }
            showHead();
          },
        }, canvas);
      }))));
    showHead();
  }

  function showHead() {
    if (!seen) return;
    const size = passage.ids.length, map = seen.attention[chosen.layer][chosen.head];
    const row = map.subarray(passage.position * size, (passage.position + 1) * size);
    const pieces = tokenizer.pieces(passage.ids).map((piece) => piece || "\u00b7");
    seenFrom.show(pieces, (index) => ({
      shade: Math.sqrt(row[index]), kind: index > passage.position ? "later" : "" }));
    seenFrom.mark(passage.position);
    const most = row.indexOf(Math.max(...row));
    headName.replaceChildren(`Layer ${chosen.layer}, head ${chosen.head}: `,
      framed(passage.ids[passage.position]), " looks most at ", framed(passage.ids[most]),
      `, with ${percent(row[most])}.`);
    drawMap(large, map, size);
    large.setAttribute("aria-label", headName.textContent);
  }

  function showStream() {
    if (!seen) return;
    const numbers = element("table", {}, element("thead", {}, element("tr", {},
      element("th", {}, "place"), element("th.n", {}, "RMS"))),
      element("tbody", {}, ...seen.places.map((place) => element("tr", {},
        element("td", {}, place.name), element("td.n", {}, place.rms.toFixed(3))))));
    stream.replaceChildren(streamChart(seen.places),
      element("p.legend.soft", {}, element("span.dot.stream"), "the stream ",
        element("span.dot.norm"), "what a norm hands on ",
        element("span.dot.part"), "what a part adds"),
      element("details", {}, element("summary", {}, "Numbers"), numbers));
  }

  function showLens() {
    if (!seen) return;
    const next = passage.ids[passage.position + 1];
    const label = (/** @type {string} */ place) => (place === "embedding"
      ? "embedding" : `after layer ${place.split(".")[1]}`);
    const head = [[], ["1st"], ["2nd"], ["3rd"], ["4th"], ["5th"],
      next === undefined ? [] : [framed(next), " (came)"]];
    lens.replaceChildren(element("table.lens", {},
      element("thead", {}, element("tr", {}, ...head.map((parts) => element("th", {}, ...parts)))),
      element("tbody", {}, ...seen.lens.map(({ name: place, likeliest, probability }) => element(
        "tr", {}, element("th", { scope: "row" }, label(place)),
        ...likeliest.map(([id, share]) => {
          const cell = element(id === next ? "td.right" : "td", {},
            framed(id), element("small", {}, percent(share)));
          cell.style.setProperty("--shade", `${Math.round(100 * share)}%`);
          return cell;
        }),
        element("td.n", {}, probability === null ? "" : percent(probability)))))));
  }

  function showUnits() {
    if (!seen) return;
    units.replaceChildren(element("table", {},
      element("thead", {}, element("tr", {}, ...["layer", "unit", "activation", "makes likelier"]
        .map((text) => element("th", {}, text)))),
      element("tbody", {}, ...seen.units.map(({ layer, unit, activation, pushes }) => element(
        "tr", {}, element("td", {}, `${layer}`), element("td", {}, `${unit}`),
        element("td.n", {}, activation.toFixed(2)),
        element("td", {}, ...pushes.map(framed)))))));
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showHeads);
  const card = (/** @type {string} */ title, /** @type {string} */ text,
    /** @type {string} */ topic, /** @type {Node[]} */ ...children) => element("article.card", {},
    element("h2", {}, title), element("p.soft", {}, text), ...children, learn(app, topic));
  byId("look").append(passage.node,
    card("From bytes to tokens", "The word of the chosen token: its bytes, and the merges that "
      + "make tokens of them, the one learned first before all others.", "merges", merges),
    card("Attention", "A map for each head: a row is a token, and shows how it divides its "
      + "attention among itself and the tokens before it.", "attention",
      element("div.attention", {}, element("div", {}, heads, large),
        element("div", {}, headName, seenFrom.node))),
    card("The residual stream", "How large the vector of the chosen token is along the layers "
      + "(root mean square, on a logarithmic scale).", "stream", stream),
    card("What each layer would say", "The final norm and the output head, applied to the stream "
      + "after each layer (logit lens): the next token as it takes shape.", "lens", lens),
    card("Feed-forward units", `Of the ${data.config.d_ff * data.config.num_layers} hidden units, `
      + "the ten that add most to the stream of the chosen token, and the tokens that each of them "
      + "by itself makes likelier.", "units", units));
  return { show: () => passage.take() };
}
