// The text that Look and Operate read, and the position in it that is chosen.

import { element } from "./dom.js";
import { TokenStrip } from "./tokens.js";

/** Tokens that are shown; a map of attention has the square of it. */
const MOST = 96;

export class Passage {
  /**
   * @param {import("./main.js").App} app
   * @param {string} id of the field, each view has one
   * @param {() => void} onChange told when text or position are others
   */
  constructor(app, id, onChange) {
    this.app = app;
    this.onChange = onChange;
    /** @type {number[]} */
    this.ids = [];
    this.position = 0;
    this.taken = "";
    this.most = Math.min(MOST, app.data.config.context_length);
    this.strip = new TokenStrip("The text, token by token; the arrow keys choose one", {
      onChoose: (index) => {
        this.position = index;
        this.onChange();
      },
    });
    this.field = element("textarea", { id, rows: "3", spellcheck: "false" });
    this.note = element("p.soft", {});
    const read = (/** @type {Event} */ event) => {
      event.preventDefault();
      this.read(app.tokenizer.encode(this.field.value));
    };
    this.node = element("div.card", {},
      this.strip.node, this.note,
      element("details", {}, element("summary", {}, "Read another text"),
        element("form", { onsubmit: read },
          element("label", { for: id }, "Text"), this.field,
          element("div.buttons", {}, element("button", { type: "submit" }, "Read"),
            element("button", { type: "button", onclick: () => this.take(true) },
              "Take the story of Write")))));
  }

  /** Take the story of Write, if it is another one than last time. @param {boolean} [always] */
  take(always = false) {
    const { story, tokenizer } = this.app;
    const key = story.join();
    if (!always && key === this.taken) return;
    this.taken = key;
    this.field.value = tokenizer.decode(story);
    this.read(story);
  }

  /** @param {number[]} ids */
  read(ids) {
    if (!ids.length) {
      this.app.fail("The text is empty: there is nothing to look at.");
      return;
    }
    this.app.fail("");
    this.ids = ids.slice(0, this.most);
    const rest = ids.length - this.ids.length;
    this.note.textContent = "Choose a token: a click, or the arrow keys."
      + (rest ? ` The first ${this.most} tokens are shown, ${rest} more are left out.` : "");
    this.strip.show(this.app.tokenizer.pieces(this.ids).map((piece) => piece || "\u00b7"));
    this.position = Math.min(this.ids.length - 1, Math.max(8, Math.floor(this.ids.length / 2)));
    this.strip.mark(this.position);
    this.onChange();
  }
}
