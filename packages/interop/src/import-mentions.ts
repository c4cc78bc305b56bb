import type { ByteView } from "@espalier/jsonl-stream";

/** Bytes looked at together; what is looked for is much shorter. */
const BLOCK = 1 << 20;

/** Bytes of a block that are looked at again with the next one, so that nothing is missed at the seam. */
const OVERLAP = 256;

/** Whether something stands anywhere in a file, told without reading lines. */
export function mentions(view: ByteView, pattern: RegExp): boolean {
  const decoder = new TextDecoder("latin1");
  for (let offset = 0; offset < view.size; offset += BLOCK - OVERLAP)
    if (pattern.test(decoder.decode(view.read(offset, BLOCK)))) return true;
  return false;
}
