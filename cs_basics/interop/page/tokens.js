// A text as a row of tokens, of which one can be chosen: by a click or with the arrow keys.

import { element } from "./dom.js";

let numStrips = 0;

export class TokenStrip {
  /**
   * @param {string} label for screen readers
   * @param {{ onChoose: (index: number) => void, onPoint?: (index: number | null) => void }} told
   *   onPoint: of the token under the mouse
   */
  constructor(label, { onChoose, onPoint }) {
    this.name = `strip${numStrips++}`;
    this.onChoose = onChoose;
    this.chosen = -1;
    this.node = element("div.strip", {
      role: "listbox", tabindex: "0", "aria-label": label, "aria-orientation": "horizontal",
      onclick: (/** @type {MouseEvent} */ event) => {
        const index = this.indexOf(event.target);
        if (index !== null) this.choose(index);
      },
      onmouseover: (/** @type {MouseEvent} */ event) => onPoint?.(this.indexOf(event.target)),
      onmouseleave: () => onPoint?.(null),
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.onKey(event),
    });
  }

  get length() {
    return this.node.children.length;
  }

  /** @param {EventTarget | null} target */
  indexOf(target) {
    const index = [...this.node.children].indexOf(/** @type {Element} */ (target));
    return index < 0 ? null : index;
  }

  /**
   * Show these texts and keep the elements that are there.
   * @param {string[]} pieces
   * @param {(index: number) => { shade?: number, kind?: string }} [look] shade from 0 to 1
   */
  show(pieces, look = () => ({})) {
    while (this.length > pieces.length) this.node.lastChild.remove();
    while (this.length < pieces.length) {
      this.node.append(element("span", { role: "option", id: `${this.name}-${this.length}` }));
    }
    pieces.forEach((piece, index) => {
      const token = this.node.children[index], { shade = 0, kind = "" } = look(index);
      if (token.textContent !== piece) token.textContent = piece;
      if (token.className !== kind) token.className = kind;
      token.style.setProperty("--shade", `${Math.round(100 * Math.min(shade, 1))}%`);
    });
    if (this.chosen >= pieces.length) this.mark(-1);
  }

  /** Show a token as chosen; tells nobody. @param {number} index */
  mark(index) {
    this.node.children[this.chosen]?.removeAttribute("aria-selected");
    this.chosen = index;
    const token = this.node.children[index];
    token?.setAttribute("aria-selected", "true");
    if (token) this.node.setAttribute("aria-activedescendant", token.id);
    else this.node.removeAttribute("aria-activedescendant");
  }

  /** @param {number} index */
  choose(index) {
    this.mark(index);
    this.onChoose(index);
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const last = this.length - 1;
    const to = { ArrowLeft: this.chosen - 1, ArrowRight: this.chosen + 1, Home: 0, End: last };
    const wanted = to[/** @type {keyof typeof to} */ (event.key)];
    if (wanted === undefined || last < 0) return;
    event.preventDefault();
    this.choose(Math.max(0, Math.min(wanted, last)));
  }
}
