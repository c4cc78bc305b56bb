// What a compaction took away is found again by a client of `espalier mcp`, in at most two calls and 1,500 tokens.
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createSession, openSession, type Session } from "@espalier/engine";
import { importSessions } from "@espalier/interop/node";
import {
  CHARS_PER_TOKEN,
  compaction,
  type Entry,
  message,
  messageText,
  plainText,
} from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { extractiveSummarizer } from "@espalier/summarizer";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { describe, expect, test } from "vitest";
import { bundled, temporaryFolder } from "./espalier.ts";

const CORPUS = fileURLToPath(new URL("../../../../shared/corpus", import.meta.url));

/** Exact strings that are worth keeping: paths, names of files, identifiers with structure, options, constants. */
const EXACT =
  /(?:[\w@.-]+\/)+[\w@.-]+\.[A-Za-z]{1,5}\b|\b[\w-]+\.(?:ts|js|json|md|sh|py|go|rs|toml|yaml|yml)\b|\b[a-z]+[A-Z][A-Za-z0-9]{3,}\b|\b[A-Z][a-z0-9]+[A-Z][A-Za-z0-9]+\b|\b[a-z0-9]+_[a-z0-9_]{3,}\b|--[a-z][a-z-]{3,}|\b[A-Z][A-Z0-9_]{4,}\b/g;

/** A string that the model no longer reads, and what it may remember of its line: the other words. */
interface Target {
  wanted: string;
  clue: string;
}

/** Strings of one session that are nowhere in what the model reads, so many of them, spread over the session. */
function targetsOf(session: Session, most: number): Target[] {
  const read = JSON.stringify(session.context.messages);
  const lost = (pattern: RegExp): Target[] => {
    const found = new Map<string, Target>();
    for (const entry of session.getEntries())
      for (const line of textOf(entry).split("\n"))
        for (const [wanted] of line.matchAll(pattern)) {
          if (wanted.length < 5 || wanted.length > 120 || found.has(wanted) || read.includes(wanted))
            continue;
          found.set(wanted, { wanted, clue: clueOf(line, wanted) });
        }
    return [...found.values()];
  };
  const exact = lost(EXACT);
  // A short session may have plain words alone.
  const all = exact.length > 0 ? exact : lost(/\p{L}{5,}/gu);
  const step = Math.max(1, Math.floor(all.length / most));
  return all.filter((_, at) => at % step === 0).slice(0, most);
}

const textOf = (entry: Entry): string =>
  message.is(entry) && entry.message.role !== "system" ? plainText(messageText(entry.message)) : "";

/** At most six words of a line beside the wanted one, the longest. */
function clueOf(line: string, wanted: string): string {
  const words = line.replaceAll(wanted, " ").match(/[\p{L}\p{N}_-]{4,40}/gu) ?? [];
  const others = [...new Set(words)].filter((word) => !wanted.includes(word) && !word.includes(wanted));
  return others
    .sort((a, b) => b.length - a.length)
    .slice(0, 6)
    .join(" ");
}

/** Asks for a string by words, and for more where the first answer lacks it. */
async function ask(client: Client, session: string, query: string, wanted: string) {
  let tokens = 0;
  let cursor: string | undefined;
  for (const max_tokens of [900, 600]) {
    const given = { query, session, max_tokens, ...(cursor === undefined ? {} : { cursor }) };
    const { content } = await client.callTool({ name: "recall", arguments: given });
    const { text } = (content as { text: string }[])[0]!;
    tokens += Math.ceil(text.length / CHARS_PER_TOKEN);
    if (text.replaceAll("&lt;", "<").includes(wanted)) return { isFound: true, tokens };
    cursor = /cursor "(\d+)"/.exec(text)?.[1];
    if (cursor === undefined) break;
  }
  return { isFound: false, tokens };
}

async function connect(home: string): Promise<Client> {
  const client = new Client({ name: "scripted", version: "1.0.0" });
  const args = [await bundled(), "mcp", "--no-import"];
  const env = { PATH: process.env["PATH"] ?? "", ESPALIER_HOME: home, PI_CODING_AGENT_DIR: join(home, "pi") };
  await client.connect(new StdioClientTransport({ command: process.execPath, args, env, cwd: home }));
  return client;
}

/** Share of the targets of a session that are found by their own words, and by the words beside them. */
async function measure(client: Client, session: Session) {
  const targets = targetsOf(session, 25);
  const rates = { targets: targets.length, byItself: 0, byClue: 0, clues: 0, mostTokens: 0 };
  for (const { wanted, clue } of targets) {
    const direct = await ask(client, session.id, wanted, wanted);
    const hinted = clue === "" ? undefined : await ask(client, session.id, clue, wanted);
    rates.byItself += direct.isFound ? 1 : 0;
    rates.byClue += hinted?.isFound ? 1 : 0;
    rates.clues += hinted ? 1 : 0;
    rates.mostTokens = Math.max(rates.mostTokens, direct.tokens, hinted?.tokens ?? 0);
  }
  return rates;
}

/** Opens a session that was compacted; one that never was is compacted here. */
async function compacted(home: string, id: string): Promise<Session> {
  const session = await openSession(id, { home, summarizer: extractiveSummarizer() });
  const isCompacted = session.getEntries().some(({ type }) => type === "compaction");
  if (!isCompacted) await session.compact({ settings: { keepRecentTokens: 2_000 } });
  return session;
}

/** Tokens that two answers may have together. */
const MOST_TOKENS = 1_500;

describe("generated sessions", () => {
  test("each of 60 values in long logs is found by the words around it", {
    timeout: 240_000,
  }, async () => {
    const home = temporaryFolder();
    const animals = ["heron", "otter", "lynx", "badger", "plover", "marten"];
    const places = [
      "reeds",
      "harbour",
      "quarry",
      "orchard",
      "glacier",
      "delta",
      "canyon",
      "moor",
      "fjord",
      "dune",
    ];
    const facts = animals.flatMap((animal, a) =>
      places.map((place, p) => ({
        clue: `${animal} ${place}`,
        wanted: `KEY_${a}${p}_${animal}${p * 7 + a}`,
      })),
    );
    const log = (at: number) =>
      Array.from(
        { length: 60 },
        (_, line) => `step ${at}.${line} passed over the ${animals[(at + line) % 6]} again`,
      ).join("\n");
    const session = await createSession({ home, cwd: home, summarizer: extractiveSummarizer() });
    for (const [at, { clue, wanted }] of facts.entries()) {
      const [animal, place] = clue.split(" ");
      await session.appendMessages([
        {
          role: "user",
          content: `${log(at)}\nThe ${animal} of the ${place} has the key ${wanted}.\n${log(at + 1)}`,
        },
        { role: "assistant", content: [{ type: "text", text: "Understood." }] },
      ]);
    }
    await session.append(
      compaction.of({
        summary: "Keys.",
        firstKeptEntryId: session.getBranch().at(-1)!.id,
        tokensBefore: 100_000,
      }),
    );
    const client = await connect(home);
    try {
      for (const { clue, wanted } of facts) {
        const { isFound, tokens } = await ask(client, session.id, clue, wanted);
        expect(isFound, clue).toBe(true);
        expect(tokens).toBeLessThanOrEqual(MOST_TOKENS);
      }
    } finally {
      await client.close();
      await session.close();
    }
  });
});

describe.skipIf(!existsSync(CORPUS))("recorded sessions (skipped where ../shared/corpus is absent)", () => {
  const files = existsSync(CORPUS)
    ? readdirSync(CORPUS, { recursive: true, encoding: "utf8" }).filter((path) => path.endsWith(".jsonl"))
    : [];
  test("each lost value is found in two calls and 1,500 tokens", { timeout: 600_000 }, async () => {
    const home = temporaryFolder();
    const store = fileStore({ home });
    const ids = new Map<string, string>();
    for (const file of files)
      for await (const { sessionId } of importSessions(join(CORPUS, file), { store }))
        if (sessionId !== null) ids.set(sessionId, file);
    const client = await connect(home);
    const all = { sessions: 0, clues: 0, byClue: 0 };
    try {
      for (const [id, file] of ids) {
        const session = await compacted(home, id);
        const { targets, byItself, byClue, clues, mostTokens } = await measure(client, session);
        await session.close();
        expect({ file, byItself }).toEqual({ file, byItself: targets });
        expect(mostTokens).toBeLessThanOrEqual(MOST_TOKENS);
        all.sessions += targets > 0 ? 1 : 0;
        all.clues += clues;
        all.byClue += byClue;
      }
      // The others are too short to lose a word that is nowhere else.
      expect(all.sessions).toBeGreaterThanOrEqual(9);
      // Measured: 72 %. Some lines say nothing else: "line", "time", other columns of a table.
      expect(all.byClue / all.clues).toBeGreaterThan(0.65);
    } finally {
      await client.close();
    }
  });
});
