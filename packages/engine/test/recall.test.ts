import {
  createSession,
  type Recalled,
  readEntries,
  recall,
  type Session,
  searchSessions,
} from "@espalier/engine";
import { compaction, contextEdit, memoryStore } from "@espalier/session-tree";
import { describe, expect, test } from "vitest";

/** A session of exchanges; a text is what the user says, and each is answered. */
async function conversation(...prompts: string[]): Promise<Session> {
  const session = await createSession({ store: memoryStore(), cwd: "/project" });
  for (const prompt of prompts) await exchange(session, prompt);
  return session;
}

const exchange = (session: Session, prompt: string, answer = `Understood ${prompt.length}.`) =>
  session.appendMessages([
    { role: "user", content: prompt },
    { role: "assistant", content: [{ type: "text", text: answer }] },
  ]);

/** Compacts so that the last `kept` entries of the path stay in the context. */
async function compactTo(session: Session, kept: number): Promise<void> {
  const path = session.getBranch();
  await session.append(
    compaction.of({ summary: "Earlier work.", firstKeptEntryId: path.at(-kept)!.id, tokensBefore: 1_000 }),
  );
}

const textsOf = ({ entries }: Recalled) => entries.map(({ text }) => text);

describe("recall", () => {
  test("finds entries that a compaction removed, and none that the model still reads", async () => {
    const session = await conversation(
      "The staging port is 7431",
      "Unrelated",
      "The port of the office printer",
    );
    await compactTo(session, 2);
    const found = await recall(session, "staging port");
    expect(textsOf(found)[0]).toBe("The staging port is 7431");
    expect(found.entries.every(({ place }) => place === "compacted")).toBe(true);
    expect(textsOf(found)).not.toContain("The port of the office printer");
    expect(found.hasMore).toBe(false);
  });

  test("finds nothing if nothing was removed from the context", async () => {
    const session = await conversation("The staging port is 7431");
    expect(await recall(session, "staging")).toEqual({ entries: [], hasMore: false });
  });

  test("ranks rare words above frequent ones, and the whole query above its words", async () => {
    const session = await conversation(
      ...Array.from({ length: 30 }, (_, at) => `the database of step ${at}`),
      "zanzibar",
      "a database, and the zanzibar",
      "the zanzibar database",
    );
    await exchange(session, "now");
    await compactTo(session, 2);
    const found = await recall(session, "the zanzibar database", { limit: 3 });
    expect(textsOf(found)).toEqual(["the zanzibar database", "a database, and the zanzibar", "zanzibar"]);
    expect(found.hasMore).toBe(true);
    const next = await recall(session, "the zanzibar database", { limit: 3, skip: 3 });
    expect(textsOf(next)).not.toContain("the zanzibar database");
    expect(textsOf(next).length).toBeGreaterThan(0);
  });

  test("shows the lines around the words of a long text, within the limit", async () => {
    const filler = Array.from({ length: 400 }, (_, at) => `line ${at} of a long log`).join("\n");
    const session = await conversation(
      `${filler}\nerror E4711: disk full\n${filler}\nretry with --force-space\n${filler}`,
    );
    await exchange(session, "now");
    await compactTo(session, 2);
    const [text = ""] = textsOf(await recall(session, "E4711 force-space", { characters: 600 }));
    expect(text).toContain("error E4711: disk full");
    expect(text).toContain("retry with --force-space");
    expect(text.length).toBeLessThan(620);
    expect(text.startsWith("…")).toBe(true);
  });

  test("marks entries of an abandoned branch", async () => {
    const session = await conversation("Start");
    const fork = session.leafId;
    await exchange(session, "Try the quux approach");
    await session.navigate(fork);
    await exchange(session, "Go on without it");
    const found = await recall(session, "quux");
    expect(found.entries.map(({ place }) => place)).toContain("abandoned");
  });

  test("finds the whole text of an entry that an edit shortened, and none that a user hid", async () => {
    const session = await conversation("The port is 7431", "The key is K9");
    const [port, , key] = session.getBranch();
    await session.append(
      contextEdit.of({ targetId: port!.id, replacement: { content: "(a port)" } as never }),
    );
    await session.hide(key!.id);
    expect(textsOf(await recall(session, "7431"))).toEqual(["The port is 7431"]);
    expect(textsOf(await recall(session, "K9"))).toEqual([]);
  });

  test("does not find an entry that a user hid and that a later compaction covers", async () => {
    const session = await conversation("The port is 7431", "The key is K9", "now");
    const [, , key] = session.getBranch();
    await session.hide(key!.id);
    await compactTo(session, 3);
    expect(textsOf(await recall(session, "7431"))).toEqual(["The port is 7431"]);
    expect(textsOf(await recall(session, "K9"))).toEqual([]);
  });

  test("prefers a word in the letter case of the query", async () => {
    const session = await conversation("OUTPUT goes there", "the output", "the output of it", "now");
    await compactTo(session, 2);
    expect(textsOf(await recall(session, "OUTPUT", { limit: 1 }))).toEqual(["OUTPUT goes there"]);
  });

  test("leaves out calls of Espalier's own tools and their results, also in a search", async () => {
    const session = await conversation("The heron nests in the reeds");
    const called = {
      type: "toolCall",
      id: "c1",
      name: "mcp__espalier__recall",
      arguments: { query: "heron" },
    };
    await session.appendMessages([
      { role: "assistant", content: [{ type: "text", text: "I look." }, called] } as never,
      {
        role: "toolResult",
        toolCallId: "c1",
        toolName: "mcp__espalier__recall",
        content: [{ type: "text", text: "heron heron" }],
        isError: false,
      } as never,
    ]);
    await exchange(session, "now");
    await compactTo(session, 2);
    const found = await recall(session, "heron");
    expect(textsOf(found)).toEqual(["The heron nests in the reeds"]);
    const store = { ...memoryStore(), open: async () => session.log };
    const hits = [];
    for await (const hit of searchSessions("heron", { store, files: [session.file] })) hits.push(hit.role);
    expect(hits).toEqual(["user"]);
  });

  test("searches words in any order on request", async () => {
    const session = await conversation("The port of the staging server is 7431", "port alone");
    const store = { ...memoryStore(), open: async () => session.log };
    const found = async (query: string) => {
      const hits: string[] = [];
      for await (const hit of searchSessions(query, { store, files: [session.file], words: true }))
        if (hit.role === "user") hits.push(hit.snippet);
      return hits;
    };
    expect(await found("SERVER port?")).toEqual(["The port of the staging server is 7431"]);
    expect(await found("port")).toHaveLength(2);
    expect(await found("port missing")).toEqual([]);
  });
});

describe("reading entries", () => {
  test("returns every character over any number of pages", async () => {
    const long = Array.from({ length: 300 }, (_, at) => `🌳 ${at} `).join("");
    const session = await conversation("one", long, "three");
    await compactTo(session, 2);
    const whole = readEntries(session, { from: session.getBranch()[0]!.id, characters: 1_000_000 });
    expect(whole.next).toBeUndefined();
    const said = new Map<string, string>();
    let page = readEntries(session, { from: whole.entries[0]!.entryId, characters: 150 });
    for (let pages = 0; pages < 100; pages++) {
      for (const { entryId, text } of page.entries)
        said.set(entryId, (said.get(entryId) ?? "").replace(/…$/, "") + text.replace(/^…/, ""));
      if (!page.next) break;
      page = readEntries(session, { cursor: page.next, characters: 150 });
    }
    expect([...said]).toEqual(whole.entries.map(({ entryId, text }) => [entryId, text]));
    expect(whole.entries.map(({ place }) => place).slice(0, 2)).toEqual(["compacted", "compacted"]);
  });

  test("shows without a range the newest entries that fit, and an abandoned branch to its end", async () => {
    const session = await conversation("first");
    const fork = session.leafId;
    const [aside] = await exchange(session, "aside one");
    await exchange(session, "aside two");
    await session.navigate(fork);
    await exchange(session, "main");
    const newest = readEntries(session, { characters: 200 });
    expect(newest.entries.at(-1)!.text).toBe("Understood 4.");
    const branch = readEntries(session, { from: aside!.id });
    expect(branch.entries.map(({ text }) => text)).toEqual([
      "aside one",
      "Understood 9.",
      "aside two",
      "Understood 9.",
    ]);
    expect(branch.entries.every(({ place }) => place === "abandoned")).toBe(true);
  });

  test("marks an entry that a user hid, until it is shown again", async () => {
    const session = await conversation("The key is K9");
    const [key] = session.getBranch();
    const places = () => readEntries(session).entries.map(({ place }) => place);
    await session.hide(key!.id);
    expect(places()).toEqual(["hidden", "context"]);
    await session.hide(key!.id, false);
    expect(places()).toEqual(["context", "context"]);
  });

  test("keeps an entry that a user hid on a branch hidden after the branch was abandoned", async () => {
    const session = await conversation("start");
    const fork = session.leafId;
    const [key] = await exchange(session, "The key is K9");
    await session.hide(key!.id);
    const aside = session.leafId;
    await session.navigate(fork);
    const read = () => readEntries(session, { from: key!.id }).entries[0]!.place;
    expect(await recall(session, "key")).toEqual({ entries: [], hasMore: false });
    expect(read()).toBe("hidden");
    await session.navigate(aside);
    await session.hide(key!.id, false);
    await session.navigate(fork);
    expect((await recall(session, "key")).entries.map(({ entryId }) => entryId)).toEqual([key!.id]);
    expect(read()).toBe("abandoned");
  });

  test("marks an entry that an edit left out automatically as compacted", async () => {
    const session = await conversation("The port is 7431");
    await session.append(contextEdit.of({ targetId: session.getBranch()[0]!.id, replacement: null }));
    expect(readEntries(session).entries.map(({ place }) => place)).toEqual(["compacted", "context"]);
  });

  test("refuses an unknown entry", async () => {
    const session = await conversation("first");
    expect(() => readEntries(session, { from: "nowhere" })).toThrow(/nowhere/);
  });
});
