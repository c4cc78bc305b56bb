// Keeps the entries of one session in file order, with its leaf and its clock. Ids come from a seed.
import { createRandom, randomId } from "./random.mjs";

/** Kinds that stand beside the conversation: appending one leaves the leaf where it is. */
const BESIDE = new Set(["label", "session_info", "usage"]);

export function createRecorder({ seed, startedAt, cwd }) {
  const random = createRandom(seed);
  const nextId = () => randomId(random, 12);
  const header = { type: "session", version: 3, id: nextId(), timestamp: startedAt, cwd };
  const entries = [];
  const byId = new Map();
  let now = Date.parse(startedAt);
  /** @type {string | null} */
  let leafId = null;

  const recorder = {
    header,
    entries,
    get leafId() {
      return leafId;
    },
    get now() {
      return now;
    },
    get: (id) => byId.get(id),

    /** Appends under the leaf; gives the id. */
    append({ type, ...fields }) {
      const entry = {
        type,
        id: nextId(),
        parentId: leafId,
        timestamp: new Date(now).toISOString(),
        ...fields,
      };
      entries.push(entry);
      byId.set(entry.id, entry);
      if (!BESIDE.has(type)) leafId = entry.id;
      return entry.id;
    },

    /** Sets the leaf to an earlier entry; what comes next is a branch. */
    moveTo(id) {
      leafId = id;
    },

    /** Writes down that the leaf is `id` now, for when nothing is appended under it. */
    appendLeaf(id) {
      leafId = id;
      const entry = {
        type: "leaf",
        id: nextId(),
        parentId: id,
        timestamp: new Date(now).toISOString(),
        targetId: id,
      };
      entries.push(entry);
      byId.set(entry.id, entry);
    },

    wait(milliseconds) {
      now += milliseconds;
    },

    waitUntil(time) {
      if (Date.parse(time) < now) throw new Error(`The story is past ${time} already.`);
      now = Date.parse(time);
    },

    /** Entries from the root to `id`. */
    path(id = leafId) {
      const path = [];
      for (let entry = byId.get(id); entry; entry = byId.get(entry.parentId)) path.push(entry);
      return path.reverse();
    },

    /** The file: one JSON value a line. */
    text: () => [header, ...entries].map((line) => `${JSON.stringify(line)}\n`).join(""),
  };
  return recorder;
}
