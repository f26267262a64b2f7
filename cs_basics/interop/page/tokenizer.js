// Byte-pair encoding: what cs_basics/pretokenize.py, bpe.py and tokenizer.py do.
// Bytes are kept as strings whose characters have codes 0 to 255, so that they can be keys of a Map.

/**
 * @typedef {{ vocab: [number, string][], merges: [string, string][], special_tokens: string[],
 *   letters: string, numbers: string }} TokenizerData
 */

/** A pre-token and how its tokens came about. @typedef {{ text: string, bytes: string, ids: number[] }} Pretoken */

export class Tokenizer {
  /** @param {TokenizerData} data written by cs_basics/interop/page_data.py */
  constructor({ vocab, merges, special_tokens, letters, numbers }) {
    /** @type {Map<number, string>} */
    this.vocab = new Map(vocab);
    /** @type {Map<string, number>} */
    this.ids = new Map();
    // Of several ids with the same bytes the lowest is used.
    for (const [id, bytes] of [...vocab].sort(([a], [b]) => b - a)) this.ids.set(bytes, id);
    /** @type {Map<string, number>} */
    this.ranks = new Map();
    merges.forEach(([left, right], rank) => {
      const pair = pairKey(left, right);
      if (!this.ranks.has(pair)) this.ranks.set(pair, rank);
    });
    const longestFirst = [...special_tokens].sort((a, b) => b.length - a.length);
    const escaped = longestFirst.map((token) => token.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&"));
    // With "u" a hyphen must not be escaped outside of a class.
    this.specials = new RegExp(`(${escaped.join("|").replaceAll("\\-", "-") || "(?!)"})`, "u");
    // The classes are Python's: a browser may know other letters, being older or younger.
    const L = letters, N = numbers, S = "\\p{White_Space}";
    this.pretoken = new RegExp(
      `'(?:[sdmt]|ll|ve|re)| ?[${L}]+| ?[${N}]+| ?[^${S}${L}${N}]+|[${S}]+(?![^${S}])|[${S}]+`, "gu");
  }

  /** @param {string} text @returns {number[]} */
  encode(text) {
    return this.split(text).flatMap((pretoken) => pretoken.ids);
  }

  /**
   * Split a text into pre-tokens; a special token is one of its own.
   * @param {string} text
   * @returns {Pretoken[]}
   */
  split(text) {
    return text.split(this.specials).flatMap((part, index) => {
      if (index % 2 === 1) {
        const bytes = toByteString(part);
        return [{ text: part, bytes, ids: [this.idOf(bytes)] }];
      }
      return (part.match(this.pretoken) ?? []).map((pretoken) => {
        const bytes = toByteString(pretoken), steps = this.merge(bytes);
        return { text: pretoken, bytes, ids: steps[steps.length - 1].map((t) => this.idOf(t)) };
      });
    });
  }

  /**
   * Apply to a pre-token the merge of lowest rank until none applies.
   * @param {string} bytes
   * @returns {string[][]} its tokens at first, after the first merge, and so on
   */
  merge(bytes) {
    const steps = [[...bytes]];
    for (;;) {
      const tokens = steps[steps.length - 1];
      let lowest = Infinity, pair = "";
      for (let i = 0; i + 1 < tokens.length; i++) {
        const key = pairKey(tokens[i], tokens[i + 1]), rank = this.ranks.get(key) ?? Infinity;
        if (rank < lowest) [lowest, pair] = [rank, key];
      }
      if (lowest === Infinity) return steps;
      /** @type {string[]} */
      const merged = [];
      for (let i = 0; i < tokens.length; i++) {
        const isPair = i + 1 < tokens.length && pairKey(tokens[i], tokens[i + 1]) === pair;
        merged.push(isPair ? tokens[i] + tokens[++i] : tokens[i]);
      }
      steps.push(merged);
    }
  }

  /** @param {string} bytes */
  idOf(bytes) {
    const id = this.ids.get(bytes);
    if (id === undefined) {
      const code = bytes.charCodeAt(0).toString(16).padStart(2, "0");
      throw new Error(`the vocabulary has no token for byte 0x${code}`);
    }
    return id;
  }

  /** @param {number[]} ids */
  decode(ids) {
    return this.pieces(ids).join("");
  }

  /**
   * Return the text of each token; a character of several tokens belongs to the last of them.
   * @param {number[]} ids
   */
  pieces(ids) {
    const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    return ids.map((id, index) => decoder.decode(
      fromByteString(this.vocab.get(id) ?? ""), { stream: index < ids.length - 1 }));
  }

  /** A token by itself, for a list. @param {number} id */
  name(id) {
    const bytes = this.vocab.get(id);
    if (bytes === undefined) return `id ${id}, of no token`;
    try {
      const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
      return decoder.decode(fromByteString(bytes));
    } catch {
      return hex(bytes);
    }
  }
}

/** A key that no other pair has: the length keeps "a" "bc" and "ab" "c" apart. @param {string} left @param {string} right */
const pairKey = (left, right) => `${left.length} ${left}${right}`;

/** @param {string} bytes */
export const hex = (bytes) =>
  [...bytes].map((byte) => byte.charCodeAt(0).toString(16).padStart(2, "0")).join(" ");

/** UTF-8; a lone surrogate becomes U+FFFD. @param {string} text */
export function toByteString(text) {
  return Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("");
}

/** @param {string} bytes */
export function fromByteString(bytes) {
  return Uint8Array.from(bytes, (byte) => byte.charCodeAt(0));
}
