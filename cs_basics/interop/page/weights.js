// The weights as the file holds them: int8 rows with a float32 scale each, or float32.

/**
 * Where a weight lies; written by cs_basics/interop/page_data.py.
 * @typedef {{ name: string, shape: number[], at: number, scales_at: number | null }} Place
 */

/**
 * @param {string} base64
 * @returns {ArrayBuffer}
 */
export function toBytes(base64) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes.buffer;
}

/**
 * @param {Place[]} places
 * @param {ArrayBuffer} bytes
 * @returns {Map<string, import("./tensor.js").Weight>}
 */
export function unpack(places, bytes) {
  return new Map(places.map(({ name, shape, at, scales_at }) => {
    const columns = shape[shape.length - 1], rows = shape.length > 1 ? shape[0] : 1;
    if (scales_at === null) {
      return [name, { data: new Float32Array(bytes, at, rows * columns), rows, columns }];
    }
    const whole = new Int8Array(bytes, at, rows * columns);
    const scales = new Float32Array(bytes, scales_at, rows);
    const data = new Float32Array(rows * columns);
    for (let row = 0, i = 0; row < rows; row++) {
      for (const end = i + columns; i < end; i++) data[i] = whole[i] * scales[row];
    }
    return [name, { data, rows, columns }];
  }));
}
