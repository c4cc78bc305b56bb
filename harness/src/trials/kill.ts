import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { offload } from "@espalier/compaction/policies";
import { openSession, repairSession, type Session } from "@espalier/engine";
import { fileStore } from "@espalier/session-tree/node";
import { Child, type Harness, SeededRandom, say } from "../harness.ts";
import {
  type Acknowledged,
  digestOfContext,
  FROM_KILLS,
  judgeAcknowledged,
  judgeFiles,
  judgeIssues,
} from "../judge.ts";
import { openTree, type StoreName, storeNamed, writeSession } from "../stores.ts";

/** Kills of one session before the next begins, so that judging it stays cheap. */
const KILLS_A_SESSION = 20;

/** Trials at the same time. */
const LANES = 2;

/** `kill -9` at random moments of every act on a session: acknowledged entries are there, and the context is the same. */
export const kill: Harness = {
  async run(options, findings) {
    const count = options.count ?? (options.isShort ? 12 : 10_000);
    let begun = 0;
    const lane = async (number: number) => {
      const random = new SeededRandom(options.seed * 7919 + number);
      for (let round = 0; begun < count; round += 1) {
        const file = writeSession(join(options.folder, `lane${number}-${round}.jsonl`));
        const acked: Acknowledged[] = [];
        for (let at = 0; at < KILLS_A_SESSION && begun < count; at += 1) {
          begun += 1;
          const here = findings.at(`Round ${begun}`);
          const { store, folder, seed } = options;
          const child = new Child(options, ["kill", store, folder, file, begun + seed]);
          if ((await child.line(0)) === undefined) {
            here.fault("the session could not be opened again.");
            break;
          }
          // While it runs already; the first acts take longer, since the program is warming up.
          await setTimeout(random.next() * 300);
          await child.kill();
          findings.count("kills");
          const recent = child.lines.slice(1).map((line) => JSON.parse(line) as Acknowledged);
          for (const { act } of recent) findings.count(`acked ${act}`);
          acked.push(...recent);
          const session = await openTree(fileStore({ home: file }), file);
          judgeAcknowledged(here, session, acked);
          await judgeIssues(here, session, FROM_KILLS);
          await session.close();
          await judgeFiles(here, recent);
        }
      }
    };
    await Promise.all(Array.from({ length: LANES }, (_, number) => lane(number)));
  },

  /** `<store> <home> <file> <seed>`: acts on a session until it is killed, and says each acknowledged act. */
  async child([storeName, home, file, seed]) {
    const random = new SeededRandom(Number(seed));
    const store = storeNamed(storeName as StoreName, home!);
    const session = await openSession(
      { file: file! },
      { store, home: home!, waitMs: 5_000, compaction: SMALL },
    );
    say("ready");
    for (let n = 0; ; n += 1) {
      const act = random.pick(NAMES);
      const { ids = [], file } = await acts[act](session, random, `${session.file}.${seed}-${n}`);
      const { leafId, context } = session;
      say({ act, leafId, digest: digestOfContext(context), ids, file });
    }
  },
};

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
        // A compaction that would not make the context smaller is rightly refused.
        if (error.code === "no-smaller") return { eligible: false as const };
        throw error;
      });
      return result.eligible ? { ids: [result.entryId] } : {};
    },
    async offload(session, random) {
      const id = `call${random.below(1_000_000)}`;
      const text = `${id} ${"pears and apples ".repeat(100 + random.below(400))}`;
      const call = { type: "toolCall" as const, id, name: "read", arguments: {} };
      const entries = await session.appendMessages([
        { role: "assistant", content: [call], stopReason: "toolUse" },
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

/** Names of acts; appending is the most frequent. */
const NAMES = (Object.keys(acts) as (keyof typeof acts)[]).flatMap((name) =>
  ["say", "answer", "note"].includes(name) ? [name, name] : name,
);

const idsOf = (entries: readonly { id: string }[]) => ({ ids: entries.map(({ id }) => id) });
