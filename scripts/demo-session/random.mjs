const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** Numbers in [0, 1), the same ones for the same seed on every machine (mulberry32). */
export function createRandom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** `length` letters and digits. */
export function randomId(random, length) {
  let id = "";
  while (id.length < length) id += ALPHABET[Math.floor(random() * ALPHABET.length)];
  return id;
}

/** Base64 that looks like the signature a provider puts under a model's reasoning. No provider will accept it. */
export function randomSignature(random, bytes) {
  return `Ep${Buffer.from(Array.from({ length: bytes }, () => Math.floor(random() * 256))).toString("base64")}`;
}
