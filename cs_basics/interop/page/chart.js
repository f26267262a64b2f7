// Drawings: bars, a line over the layers, a map of attention.

import { element, percent } from "./dom.js";

/**
 * A list of bars; a row with `onclick` is a button.
 * @param {{ label: string, share: number, note?: string, kind?: string, onclick?: () => void }[]} rows
 */
export function bars(rows) {
  return element("ol.bars", {}, ...rows.map(({ label, share, note, kind, onclick }) => {
    const bar = element("span.bar", { "aria-hidden": "true" });
    bar.style.setProperty("--share", `${100 * Math.min(share, 1)}%`);
    const content = [
      element("span.token", {}, label), bar, element("span.number", {}, note ?? percent(share))];
    const row = onclick ? element("button", { onclick }, ...content) : element("div", {}, ...content);
    return element(kind ? `li.${kind}` : "li", {}, row);
  }));
}

/**
 * Draw a square map, each row a position that looks at the columns before it.
 * @param {HTMLCanvasElement} canvas
 * @param {Float32Array} map (size, size) weights from 0 to 1
 * @param {number} size
 */
export function drawMap(canvas, map, size) {
  canvas.width = canvas.height = size;
  const context = canvas.getContext("2d");
  if (!context) return;
  const [red, green, blue] = accent();
  const image = context.createImageData(size, size);
  for (let i = 0; i < map.length; i++) {
    // The root makes small weights visible; the diagonal and above are told apart by the ground.
    const isPast = i % size <= Math.floor(i / size);
    image.data.set([red, green, blue, isPast ? 18 + 237 * Math.sqrt(map[i]) : 0], 4 * i);
  }
  context.putImageData(image, 0, 0);
}

/** The accent colour of the page, which light and dark have each their own. */
function accent() {
  const value = getComputedStyle(document.documentElement).getPropertyValue("--accent").trim();
  return [1, 3, 5].map((at) => parseInt(value.slice(at, at + 2), 16));
}

/**
 * The size of the residual stream along the layers, of what norms make of it, and of what is added.
 * @param {{ name: string, rms: number }[]} places in the order of the computation
 */
export function streamChart(places) {
  const width = 720, height = 250, left = 44, bottom = 54, top = 12;
  const logs = places.map(({ rms }) => Math.log2(Math.max(rms, 1e-4)));
  const lowest = Math.floor(Math.min(...logs)), highest = Math.ceil(Math.max(...logs)) || 1;
  const x = (/** @type {number} */ i) => left + ((i + 0.5) / places.length) * (width - left);
  const y = (/** @type {number} */ log) =>
    top + ((highest - log) / Math.max(highest - lowest, 1)) * (height - top - bottom);
  const ticks = [];
  const stride = Math.ceil((highest - lowest) / 6) || 1;
  for (let log = lowest; log <= highest; log += stride) ticks.push(log);
  const isStream = (/** @type {string} */ name) => name === "embedding" || name.includes(".after_");
  const stream = places.flatMap(({ name }, i) => (isStream(name) ? [`${x(i)},${y(logs[i])}`] : []));
  return element("svg:svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img",
    "aria-label": "Root mean square by place; the numbers are in the table below" },
    ...ticks.flatMap((log) => [
      element("svg:line", { x1: left, x2: width, y1: y(log), y2: y(log) }),
      element("svg:text", { x: left - 6, y: y(log) + 4, "text-anchor": "end" },
        log < 0 ? `1/${2 ** -log}` : `${2 ** log}`),
    ]),
    element("svg:polyline", { points: stream.join(" ") }),
    ...places.map(({ name, rms }, i) => {
      const kind = isStream(name) ? "stream" : /ln/.test(name) ? "norm" : "part";
      return element("svg:circle", { cx: x(i), cy: y(logs[i]), r: kind === "stream" ? 5 : 4.5,
        class: kind }, element("svg:title", {}, `${name}: ${rms.toFixed(3)}`));
    }),
    ...places.flatMap(({ name }, i) => isStream(name) ? [element("svg:text", {
      transform: `translate(${x(i) + 4} ${height - bottom + 14}) rotate(-35)`, "text-anchor": "end",
    }, name.replace("layers.", "").replace(".after_", " "))] : []),
  );
}
