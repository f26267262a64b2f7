// The page: reads what is in it, opens the model and the views.

import { byId } from "./dom.js";
import { Engine } from "./engine.js";
import { lookView } from "./look.js";
import { operateView } from "./operate.js";
import { Tokenizer } from "./tokenizer.js";
import { writeView } from "./write.js";

/**
 * What all views share.
 * @typedef {{ data: any, engine: Engine, tokenizer: Tokenizer, story: number[],
 *   fail: (message: string) => void }} App
 */

const data = JSON.parse(byId("data").textContent);
const tokenizer = new Tokenizer(data.tokenizer);
const engine = new Engine(byId("worker").textContent);
/** @type {App} */
const app = {
  data,
  engine,
  tokenizer,
  // The beginning of the model's own validation text, until something is written.
  story: [...tokenizer.encode(`${data.end_of_text}\n`), ...(data.validation?.ids ?? []).slice(0, 24)],
  fail: (message) => {
    byId("problem").textContent = message;
    byId("problem").hidden = !message;
  },
};
const opened = engine.open(
  { config: data.config, places: data.places, base64: byId("weights").textContent });
opened.catch((error) => app.fail(`The model cannot be opened: ${error.message}`));
byId("weights").remove();

const count = data.num_parameters >= 1e6
  ? `${(data.num_parameters / 1e6).toFixed(1)} million` : data.num_parameters.toLocaleString("en");
byId("name").textContent = data.name;
byId("about").textContent = `A language model of ${count} parameters, `
  + `${data.is_exact ? "in float32" : "rounded to int8"}. All of it is in this file and runs in this `
  + "browser; nothing is loaded or sent.";

writeView(app);
const views = { write: { show: () => {} }, look: lookView(app), operate: operateView(app) };
const tabs = /** @type {HTMLElement[]} */ ([...byId("tabs").children]);

/** @param {keyof typeof views} name */
function show(name) {
  for (const tab of tabs) {
    const isShown = tab.id === `tab-${name}`;
    tab.setAttribute("aria-selected", `${isShown}`);
    tab.tabIndex = isShown ? 0 : -1;
    byId(tab.id.slice(4)).hidden = !isShown;
  }
  app.fail("");
  views[name].show();
}

for (const [index, tab] of tabs.entries()) {
  const name = /** @type {keyof typeof views} */ (tab.id.slice(4));
  tab.addEventListener("click", () => show(name));
  tab.addEventListener("keydown", ({ key }) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[key];
    if (!by) return;
    const next = tabs[(index + by + tabs.length) % tabs.length];
    next.focus();
    next.click();
  });
}
show("write");
byId("incomplete").remove();
// For the console: await glass.engine.ask("logits", { text: glass.tokenizer.encode("Once") })
Object.assign(window, { glass: { ...app, opened } });
