import { IdHashes } from "./id-hashes.ts";

/** How many rows wait at most: enough that looks into the table of ids overlap, few enough to stay in the cache. */
const MOST_WAITING = 256;

/** Rows that were found in the bytes and are not in the index yet: their ids are looked up many at once. */
export class WaitingRows {
  count = 0;
  /** The number of the first one's line; the others follow line by line. */
  firstLine = 1;
  readonly ids = new IdHashes(MOST_WAITING);
  readonly parents = new IdHashes(MOST_WAITING);
  readonly isRoot = new Uint8Array(MOST_WAITING);
  readonly kind = new Uint8Array(MOST_WAITING);
  readonly offset = new Float64Array(MOST_WAITING);
  readonly length = new Uint32Array(MOST_WAITING);

  /** Whether there is no room for another one. */
  get isFull(): boolean {
    return this.count === MOST_WAITING;
  }
}
