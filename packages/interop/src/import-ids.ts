import { ID_LENGTH, isSessionId } from "@espalier/session-tree";

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const SOUND_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

/** An id out of a text: the same for the same text every time, of the alphabet and length of a random one. */
export function idFromText(text: string): string {
  let a = 0x811c9dc5;
  let b = 0x9e3779b9;
  let c = 0x85ebca6b;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    a = Math.imul(a ^ unit, 0x01000193);
    b = Math.imul((b ^ unit) + (b >>> 15), 0x2c1b3c6d);
    c = Math.imul(c ^ unit, 0x297a2d39) + (c >>> 13);
  }
  return digits(mix(a ^ text.length)) + digits(mix(b ^ a)) + digits(mix(c ^ b));
}

/** The id that a source gave, where it can be one here; else one that is derived from it. */
export function idFromSource(id: string): string {
  return SOUND_ID.test(id) ? id : idFromText(id);
}

/** The id of a session here: that of its source, where it can be part of a file name. */
export function sessionIdFromSource(id: string): string {
  return isSessionId(id) ? id : idFromText(id);
}

/** The finaliser of MurmurHash3: every input bit reaches every output bit. */
function mix(value: number): number {
  let hash = value >>> 0;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** A third of an id: 62^4 of the 2^32 values, so that an id has 71 bits. */
function digits(value: number): string {
  let text = "";
  let rest = value;
  for (let at = 0; at < ID_LENGTH / 3; at++) {
    text += ALPHABET[rest % ALPHABET.length];
    rest = Math.floor(rest / ALPHABET.length);
  }
  return text;
}
