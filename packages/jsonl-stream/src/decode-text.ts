const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Stands in a text for every byte sequence that is none; a text may also have it by itself. */
const REPLACEMENT = "\ufffd";

/**
 * The text that bytes are in UTF-8, a byte order mark included; undefined when they are no valid UTF-8. Node's Buffer
 * asks less for a short text than a decoder does, and replaces what is not valid: only then, the strict one has to tell.
 */
export function decodeText(bytes: Uint8Array): string | undefined {
  const buffer = globalThis.Buffer;
  if (buffer !== undefined) {
    const text = buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString();
    if (!text.includes(REPLACEMENT)) return text;
  }
  try {
    return decoder.decode(bytes);
  } catch {
    // The decoder's error says no more than this.
    return undefined;
  }
}
