import { createHash } from "node:crypto";
import { writeSync } from "node:fs";
import { offload } from "@espalier/compaction/policies";
import { openSession, repairSession, type Session } from "@espalier/engine";
import type { SessionContext } from "@espalier/session-tree";
import { SeededRandom } from "../harness.ts";
import { type StoreName, storeNamed } from "../stores.ts";

/** What an acting process says of each act that was acknowledged, before it goes on. */
export interface Acknowledged {
  act: string;
  leafId: string | null;
  digest: string;
  ids: string[];
  /** Another file that must be there, whole. */
  file?: string;
}

/** Names a context, to compare it. */
export function digestOfContext({ messages }: SessionContext): string {
  return createHash("sha1").update(JSON.stringify(messages)).digest("hex");
}

/** `acting <store> <home> <file> <seed>`: does whatever one does with a session until it is killed, and says so. */
export async function act([storeName, home, file, seed]: string[]): Promise<void> {
  const random = new SeededRandom(Number(seed));
  const store = storeNamed(storeName as StoreName, home!);
  const session = await openSession(
    { file: file! },
    { store, home: home!, waitMs: 5_000, compaction: SMALL },
  );
  const say = (said: object) => writeSync(1, `${JSON.stringify(said)}\n`);
  say({ ready: true });
  for (let n = 0; ; n += 1) {
    const name = random.pick(NAMES);
    const { ids = [], file: made } = await acts[name](session, random, `${file}.${seed}-${n}`);
    const acknowledged: Acknowledged = {
      act: name,
      leafId: session.leafId,
      digest: digestOfContext(session.context),
      ids,
      ...(made === undefined ? {} : { file: made }),
    };
    say(acknowledged);
  }
}

/** So that a session of a few lines has something to compact. */
const SMALL = { keepRecentTokens: 400, reserveTokens: 100, contextWindow: 4_000 };

type Act = (
  session: Session,
  random: SeededRandom,
  out: string,
) => Promise<{ ids?: string[]; file?: string }>;

const acts: Record<"say" | "answer" | "note" | "navigate" | "fork" | "compact" | "offload" | "repair", Act> =
  {
    async say(session, random) {
      const content = "Why? ".repeat(1 + random.below(200));
      return idsOf(await session.appendMessages([{ role: "user", content }]));
    },
    async answer(session, random) {
      const content = [{ type: "text" as const, text: "Because. ".repeat(1 + random.below(400)) }];
      return idsOf(
        await session.appendMessages([
          { role: "assistant", content },
          { role: "user", content: "And then?" },
        ]),
      );
    },
    async note(session, random) {
      const data = "x".repeat(random.below(60_000));
      return idsOf(await session.append({ type: "custom", customType: "trial", data } as never));
    },
    async navigate(session, random) {
      const ids = [...session.tree.ids()];
      if (ids.length > 0) await session.navigate(random.pick(ids), { summarize: random.below(3) === 0 });
      return {};
    },
    async fork(session, random, out) {
      const ids = [...session.tree.ids()];
      return ids.length > 0 ? { file: (await session.fork(random.pick(ids), { out })).file } : {};
    },
    async compact(session) {
      const result = await session.compact().catch((error: Error & { code?: string }) => {
        // What would not make the context smaller is refused, and that is right.
        if (error.code === "no-smaller") return { eligible: false as const };
        throw error;
      });
      return result.eligible ? { ids: [result.entryId] } : {};
    },
    async offload(session, random) {
      const id = `call${random.below(1_000_000)}`;
      const text = `${id} ${"pears and apples ".repeat(100 + random.below(400))}`;
      const entries = await session.appendMessages([
        {
          role: "assistant",
          content: [{ type: "toolCall", id, name: "read", arguments: {} }],
          stopReason: "toolUse",
        },
        {
          role: "toolResult",
          toolCallId: id,
          toolName: "read",
          content: [{ type: "text", text }],
          isError: false,
        },
        { role: "assistant", content: [{ type: "text", text: "Read." }] },
      ]);
      await session.prepareRequest({ policy: OFFLOAD });
      return idsOf(entries);
    },
    async repair(session, _random, out) {
      return { file: (await repairSession(session.log, out)).file };
    },
  };

/** Moves every result of some size to a file beside the session. */
const OFFLOAD = offload({ offloadThreshold: 200, offloadMinTokens: 100, triggerTokens: 0 });

/** Appending is what is done most. */
const NAMES = [
  "say",
  "say",
  "answer",
  "answer",
  "note",
  "note",
  "navigate",
  "fork",
  "compact",
  "offload",
  "repair",
] as const;

const idsOf = (entries: readonly { id: string }[]) => ({ ids: entries.map(({ id }) => id) });
