// The random numbers of torch.rand on a CPU: the same seed gives the same story there and here.

/**
 * Yield numbers in [0, 1): Mersenne Twister, Matsumoto and Nishimura 1998, of which PyTorch takes
 * the lower 24 bits.
 * @param {number} seed an integer; its lower 32 bits count
 * @returns {Generator<number, never>}
 */
export function* uniforms(seed) {
  const size = 624, state = new Uint32Array(size);
  state[0] = seed % 2 ** 32;
  for (let i = 1; i < size; i++) {
    state[i] = Math.imul(1812433253, state[i - 1] ^ (state[i - 1] >>> 30)) + i;
  }
  for (;;) {
    for (let i = 0; i < size; i++) {
      const bits = (state[i] & 0x80000000) | (state[(i + 1) % size] & 0x7fffffff);
      state[i] = state[(i + 397) % size] ^ (bits >>> 1) ^ (bits & 1 ? 0x9908b0df : 0);
    }
    for (let bits of state) {
      bits ^= bits >>> 11;
      bits ^= (bits << 7) & 0x9d2c5680;
      bits ^= (bits << 15) & 0xefc60000;
      bits ^= bits >>> 18;
      yield (bits & 0xffffff) / 2 ** 24;
    }
  }
}
