import { formatLine } from "@espalier/jsonl-stream";
import { leaf } from "../entries/leaf.ts";
import type { Entry } from "../entry.ts";
import { kindOf } from "../entry-kinds.ts";
import { memoryStore } from "../memory-store.ts";
import { type ContextMessage, toolCalls } from "../message.ts";
import { FORMAT_VERSION, type SessionHeader } from "../session-header.ts";
import type { SessionStore } from "../session-store.ts";
import { SessionTree } from "../session-tree.ts";
import { SessionTreeError } from "../session-tree-error.ts";
import { grownKinds } from "./grown-kinds.ts";
import { readTreeLanguage } from "./tree-language.ts";

/** Where a session is grown, and under which header. */
export interface GrowOptions {
  /** Where the session is kept; default: a new {@link memoryStore}. */
  store?: SessionStore;
  /** What the header says beside its type and version. */
  header?: Partial<SessionHeader>;
}

/** A session that was grown, and where. */
export interface GrownTree {
  session: SessionTree;
  store: SessionStore;
  /** What opens it again. */
  ref: string;
}

/** When the first entry of a grown session was written; each one after is a second later. */
const PLANTED = Date.UTC(2026, 0, 1);

/**
 * A session out of a line of text: `growTree("u1 > a1 > u2; a1 > u3*")` is a question with an answer that two more
 * questions follow, the leaf at `u3`. Names become ids, their first letter tells the kind (see `grownKinds`); lines
 * stand in the order of the text, and the same text gives the same bytes. Without a `*` the leaf is where the last
 * line leaves it. What the text says is taken as it is: a tree may be as broken as a test needs it.
 *
 * @throws SessionTreeError `invalid-entry` when the text cannot be read
 */
export async function growTree(
  text: string,
  { store = memoryStore(), header }: GrowOptions = {},
): Promise<GrownTree> {
  const full: SessionHeader = {
    type: "session",
    version: FORMAT_VERSION,
    id: "grown",
    timestamp: new Date(PLANTED).toISOString(),
    cwd: "/garden",
    ...header,
  };
  const log = await store.create(
    full,
    growEntries(text).map((entry) => formatLine(entry)),
  );
  return { session: await SessionTree.open(log), store, ref: log.ref };
}

/** The entries of {@link growTree}, in file order, without a session around them. */
export function growEntries(text: string): Entry[] {
  const written = readTreeLanguage(text);
  const grown = new Map<string, Entry>();
  let leafId: string | null = null;
  let time = PLANTED;
  for (const sprout of written.sprouts) {
    const { name, parent } = sprout;
    const grow = grownKinds[name[0]!];
    if (!grow) {
      const letters = Object.keys(grownKinds).join(" ");
      throw new SessionTreeError(
        "invalid-entry",
        `No kind of entry begins with ${name[0]} (${name}); there are ${letters}.`,
      );
    }
    time += 1_000;
    const { type, ...fields } = grow(sprout, { leafId, time, openCall: () => openCall(parent, grown) });
    grown.set(name, {
      type,
      id: name,
      parentId: parent,
      timestamp: new Date(time).toISOString(),
      ...fields,
    } as Entry);
    leafId = movingAncestor(name, grown);
  }
  const entries = [...grown.values()];
  if (written.leaf === undefined || written.leaf === leafId) return entries;
  const at = new Date(time + 1_000).toISOString();
  const targetId = written.leaf;
  return [
    ...entries,
    { type: leaf.type, id: `leaf-${targetId}`, parentId: targetId, timestamp: at, targetId } as Entry,
  ];
}

function movingAncestor(name: string, grown: ReadonlyMap<string, Entry>): string | null {
  for (let entry = grown.get(name); entry; entry = grown.get(entry.parentId ?? ""))
    if (kindOf(entry).movesLeaf) return entry.id;
  return null;
}

/** The first call on the path above that has no result on it. */
function openCall(parent: string | null, grown: ReadonlyMap<string, Entry>) {
  const answered = new Set<string>();
  for (let entry = grown.get(parent ?? ""); entry; entry = grown.get(entry.parentId ?? "")) {
    const { message } = entry as { message?: ContextMessage };
    if (message?.role === "toolResult") answered.add(message.toolCallId);
    const open = message && toolCalls(message).find(({ id }) => !answered.has(id));
    if (open) return open;
  }
  return undefined;
}
