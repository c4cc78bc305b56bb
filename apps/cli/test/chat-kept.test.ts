// Texts of a chat that survive a command, a closed terminal, a killed process; and a screen that fits its terminal.
import { existsSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  brokenReply,
  type MessagesServer,
  startMessagesServer,
  textReply,
} from "@espalier/summarizer/testing";
import { afterAll, expect, test } from "vitest";
import { espalier, HEADER, linesOf, said, sessionOf, temporaryFolder } from "./espalier.ts";
import { hasTmux, Tmux } from "./tmux.ts";

const endings: (() => unknown)[] = [];
afterAll(async () => {
  for (const end of endings.reverse()) await end();
});

/** A model that counts without an end when it is told to, and else says little. */
async function model(): Promise<MessagesServer> {
  const server = await startMessagesServer({
    reply: ({ body }) => {
      const messages = body["messages"] as { content: { text?: string }[] }[];
      const text = messages.at(-1)?.content.at(-1)?.text ?? "";
      if (text.includes("for ever")) return brokenReply("I begin to **count** and do not end", "hang", 1);
      return textReply("Ebb. Flood.");
    },
  });
  endings.push(server.close);
  return server;
}

const environmentOf = (home: string, { url }: MessagesServer) => ({
  ANTHROPIC_API_KEY: "key-of-the-chat-test",
  ANTHROPIC_BASE_URL: url,
  ESPALIER_HOME: home,
});

async function chat(home: string, server: MessagesServer, ...session: string[]): Promise<Tmux> {
  const tmux = await Tmux.run(["chat", ...session], { cwd: home, env: environmentOf(home, server) });
  await tmux.shows("/help lists the commands.");
  return tmux;
}

const sessionsIn = (home: string): string[] =>
  readdirSync(home, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".jsonl"))
    .map((name) => join(home, name));

/** The files of unsent texts. */
const draftsIn = (home: string): string[] =>
  existsSync(join(home, "drafts"))
    ? readdirSync(join(home, "drafts")).map((name) => join(home, "drafts", name))
    : [];

/** Ends the process that writes a session. */
function signal(session: string, name: NodeJS.Signals): void {
  const { pid } = JSON.parse(readFileSync(`${session}.lease`, "utf8"));
  process.kill(pid, name);
}

const idle = (shown: string): boolean => !shown.includes(" s · Esc aborts it");

test.skipIf(!hasTmux)(
  "a command that leaves the path of a waiting message returns the message to the input",
  async () => {
    const home = temporaryFolder();
    const tmux = await chat(home, await model());
    tmux.type("Hello.");
    await tmux.until((shown) => shown.includes("Ebb. Flood.") && idle(shown), "an answer");
    /** Sends a message during an answer, then aborts the answer. */
    const wait = async (text: string) => {
      tmux.type("Count for ever.");
      await tmux.shows(/I begin to [\s\S]*Esc aborts it/);
      tmux.type(text);
      await tmux.shows(`waits: ${text}`);
      tmux.keys("Escape");
      await tmux.shows(`not sent, /continue sends it: ${text}`);
    };
    await wait("Kept by undo?");
    tmux.type("/undo");
    await tmux.shows("Not sent; ↑ restores it: Kept by undo?");
    await tmux.shows(/› Count for ever\.\s*$/);
    tmux.keys("Up");
    await tmux.shows(/› Kept by undo\?\s*$/);
    tmux.keys("Down", "C-u");
    await tmux.shows(/›\s*$/);

    await wait("Kept by navigate?");
    tmux.type("/navigate start");
    await tmux.shows("Not sent; it is in the input: Kept by navigate?");
    await tmux.shows(/› Kept by navigate\?\s*$/);
    tmux.keys("C-u");

    await wait("Kept by fork?");
    tmux.type("/fork");
    await tmux.shows("Not sent; it is in the input: Kept by fork?");
    await tmux.shows(/› Kept by fork\?\s*$/);
    tmux.keys("Enter");
    await tmux.until((shown) => /› Kept by fork\?\s+Ebb/.test(shown) && idle(shown), "its answer");

    // A message on a path that stays current keeps waiting.
    await wait("Stays.");
    tmux.type("/name Tides");
    await tmux.shows("The session is called Tides");
    expect(tmux.screen).not.toMatch(/Not sent[^\n]*Stays/);
    tmux.keys("C-d");
    await tmux.shows(`${Tmux.LEFT} 0`);
  },
  180_000,
);

test.skipIf(!hasTmux)(
  "a command of an extension that leaves the path of a waiting message returns the message to the input",
  async () => {
    const home = temporaryFolder();
    const file = sessionOf({ ...HEADER, cwd: home }, said("ebb-prompt", null, "What is the ebb?"));
    const extension = join(home, "back.ts");
    writeFileSync(
      extension,
      `export default (api) => {
  api.registerCommand("back", { description: "Back", handler: (_, ctx) => ctx.navigateTree("ebb-prompt") });
};`,
    );
    const tmux = await chat(home, await model(), file, "--extension", extension);
    tmux.type("Count for ever.");
    await tmux.shows(/I begin to [\s\S]*Esc aborts it/);
    tmux.type("Kept?");
    await tmux.shows("waits: Kept?");
    tmux.keys("Escape");
    await tmux.shows("not sent, /continue sends it: Kept?");
    tmux.type("/back");
    await tmux.shows("Not sent; it is in the input: Kept?");
    await tmux.shows(/› Kept\?\s*$/);
  },
);

test.skipIf(!hasTmux)(
  "the chat estimates the cost of a session without recorded prices, and of a price that is no number",
  async () => {
    const home = temporaryFolder();
    const answer = {
      role: "assistant",
      content: [{ type: "text", text: "Low water." }],
      stopReason: "stop",
      provider: "anthropic",
      model: "claude-sonnet-4-5",
      usage: {
        input: 100_000,
        output: 0,
        cacheRead: 0,
        cacheWrite: 0,
        totalTokens: 100_000,
        cost: { total: "1.5" },
      },
    };
    const file = sessionOf({ ...HEADER, cwd: home }, said("u1", null, "What is the ebb?"), {
      type: "message",
      id: "a1",
      parentId: "u1",
      timestamp: "2026-01-01T00:00:02.000Z",
      message: answer,
    });
    const tmux = await chat(home, await model(), file);
    await tmux.shows(/Low water\.[\s\S]* tokens \(\d+ %\) · ≈ \$0\.30/);
  },
);

test.skipIf(!hasTmux)(
  "a typed text survives the end of its terminal, in a file that only its user can read",
  async () => {
    const home = temporaryFolder();
    const server = await model();
    // Before the first message the next chat of the folder has it.
    const first = await chat(home, server);
    const [session = ""] = sessionsIn(home);
    first.write("A first thought");
    await first.shows(/› A first thought\s*$/);
    signal(session, "SIGHUP");
    await first.shows(`${Tmux.LEFT} 129`);
    const [draft = ""] = draftsIn(home);
    expect(statSync(draft).mode & 0o777).toBe(0o600);
    expect(statSync(join(home, "drafts")).mode & 0o777).toBe(0o700);
    const second = await chat(home, server);
    await second.shows("Not sent; it is in the input: A first thought");
    await second.shows(/› A first thought\s*$/);
    second.keys("Enter");
    await second.until((shown) => shown.includes("Ebb. Flood.") && idle(shown), "an answer");

    // Then the session has it: also a draft behind an earlier message, and when the process is killed.
    const written = sessionsIn(home).find((file) => file !== session)!;
    second.write("A second");
    second.keys("M-Enter");
    second.write("thought");
    second.keys("Up", "Up");
    await second.shows(/› A first thought\s*$/);
    await expect
      .poll(() => draftsIn(home).map((file) => readFileSync(file, "utf8")), { timeout: 60_000 })
      .toEqual([expect.stringContaining("A second\\nthought")]);
    signal(written, "SIGKILL");
    await second.shows(`${Tmux.LEFT} 137`);
    const other = await chat(home, server);
    expect(other.screen).not.toContain("thought");
    other.keys("C-d");
    const third = await chat(home, server, written);
    await third.shows(/› A second\n {2}thought\s*$/);
    // Two terminals of one session keep their texts apart.
    expect(draftsIn(home)).toHaveLength(1);
    third.type("/quit");
    third.keys("C-u");
    third.type("/quit");
    await third.shows(`${Tmux.LEFT} 0`);
    expect(draftsIn(home)).toEqual([]);
    expect(linesOf(written).filter((line) => line["type"] === "custom").length).toBeGreaterThan(0);
  },
  180_000,
);

test.skipIf(!hasTmux)(
  "the received part of an answer is shown after the process was killed, and its prompt can be sent again",
  async () => {
    const home = temporaryFolder();
    const server = await model();
    const first = await chat(home, server);
    const [session = ""] = sessionsIn(home);
    first.type("Count for ever.");
    await first.shows("I begin to");
    await expect
      .poll(() => draftsIn(home).map((file) => readFileSync(file, "utf8")), { timeout: 60_000 })
      .toEqual([expect.stringContaining("I begin to **count**")]);
    signal(session, "SIGKILL");
    await first.shows(`${Tmux.LEFT} 137`);
    const second = await chat(home, server, session);
    await second.shows("The answer was interrupted. This is its beginning; the model does not read it:");
    await second.shows(/I begin to \*\*count\*\*[\s\S]*its answer is unknown/);
    second.keys("C-d");
    await second.shows(`${Tmux.LEFT} 0`);
    expect(draftsIn(home)).toEqual([]);
    const third = await chat(home, server, session);
    expect(third.screen).not.toContain("I begin");
  },
  180_000,
);

test.skipIf(!hasTmux)("the chat warns once when unsent texts cannot be kept, and continues", async () => {
  const home = temporaryFolder();
  writeFileSync(join(home, "drafts"), "a file in the place of the folder");
  const tmux = await chat(home, await model());
  tmux.write("a draft");
  await tmux.shows(/Unsent texts cannot be kept in\s[\s\S]*drafts\s\(E[A-Z]+\)/);
  tmux.write(" that goes on");
  await tmux.shows(/› a draft that goes on\s*$/);
  expect(tmux.screen.match(/cannot be kept/g)).toHaveLength(1);
});

test("delete says that it cannot look for unsent texts", async () => {
  const home = temporaryFolder();
  symlinkSync("drafts", join(home, "drafts"));
  const file = sessionOf(HEADER, said("u1", null, "In short?"));
  const { code, stderr } = await espalier(["delete", file, "--yes"], { env: { ESPALIER_HOME: home } });
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining("ELOOP") });
});

test("delete removes the unsent texts of the session", async () => {
  const home = temporaryFolder();
  const file = sessionOf(HEADER, said("u1", null, "In short?"));
  const { UnsentFile } = await import("../src/chat/unsent-texts.ts");
  const before = process.env["ESPALIER_HOME"];
  process.env["ESPALIER_HOME"] = home;
  try {
    new UnsentFile((sentence) => expect.unreachable(sentence)).keep(
      { file, header: undefined, leafId: "u1" },
      { draft: "a secret", answer: "" },
    );
  } finally {
    if (before === undefined) delete process.env["ESPALIER_HOME"];
    else process.env["ESPALIER_HOME"] = before;
  }
  const [draft = ""] = draftsIn(home);
  expect(readFileSync(draft, "utf8")).toContain("a secret");
  await espalier(["delete", file, "--yes"], { env: { ESPALIER_HOME: home } });
  expect(existsSync(file)).toBe(false);
  expect(draftsIn(home)).toEqual([]);
});

test.skipIf(!hasTmux)("rows and sentences fit the terminal, also after its size has changed", async () => {
  const home = temporaryFolder();
  const server = await model();
  const tmux = await chat(home, server);
  tmux.resize(30, 24);
  await tmux.shows(/claude-\S+ · \d[^\n]*…/);
  tmux.resize(100, 24);
  await tmux.shows(/claude-\S+ · [\d,]+ of [\d,]+ tokens \(\d+ %\) · \$\d/);
  tmux.resize(50, 40);
  await tmux.shows(/claude-\S+ · [^\n]*…/);
  tmux.type("/help");
  await tmux.shows(/^ {2}\/undo {12}Undo the newest prompt \(its\n {19}\S/m);

  // Before the chat is drawn, its sentences are broken between words too.
  const [session = ""] = sessionsIn(home);
  const env = environmentOf(home, server);
  const second = await Tmux.run(["chat", session], { cwd: home, env, columns: 64 });
  await second.shows("Your choice; Enter leaves [1-3]");
  // A break inside a word would put a blank into it.
  const text = second.screen.replace(/\s+/g, " ");
  expect(text).toMatch(
    /is being written by process \d+ on \S+ since \S+; read it only, fork it, share it, or end/,
  );
  expect(text).toContain("3 share: both write, each on its own branch (--on-busy share)");
});

test.skipIf(!hasTmux)(
  "a beginning of an id names an entry; when several match, they are listed with their texts",
  async () => {
    const home = temporaryFolder();
    const file = sessionOf(
      { ...HEADER, cwd: home },
      said("UtAaaa", null, "What is the ebb?"),
      said("UtBbbb", "UtAaaa", "What is the flood?"),
      said("Xyzzzz", "UtBbbb", "What is the moon?"),
    );
    const tmux = await chat(home, await model(), file);
    tmux.type("/navigate Ut");
    await tmux.shows("2 entries have an id that begins with Ut; name one of them:");
    await tmux.shows(/ {2}UtAaaa user {2}What is the ebb\?\n {2}UtBbbb user {2}What is the flood\?/);
    tmux.type("/hide Ut");
    await tmux.until((shown) => shown.split("2 entries have an id").length === 3, "the list again");
    tmux.type("/fork Ut");
    await tmux.until((shown) => shown.split("2 entries have an id").length === 4, "the list again");
    expect(linesOf(file)).toHaveLength(4);
    tmux.type("/navigate UtB");
    await tmux.shows("The leaf is at UtAaaa");
    await tmux.shows(/› What is the flood\?\s*$/);
    tmux.keys("C-u");
    tmux.type("/navigate Qq");
    await tmux.shows('There is no entry "Qq" in this session.');
  },
);

test.skipIf(!hasTmux)("all views show the same number of tokens for the context", async () => {
  const home = temporaryFolder();
  const tmux = await chat(home, await model());
  tmux.type("Hello.");
  const screen = await tmux.until((shown) => shown.includes("Ebb. Flood.") && idle(shown), "an answer");
  const [, tokens = ""] = /claude-\S+ · ([\d,]+) of/.exec(screen) ?? [];
  expect(tokens).not.toBe("");
  tmux.type("/tree");
  await tmux.shows(`the model reads 2 messages, ${tokens} tokens`);
  tmux.type("/context");
  await tmux.shows(`2 messages, ${tokens} tokens with system prompt`);
  const [, id = ""] = /^(\S+) user {2}Hello\./m.exec(tmux.screen) ?? [];
  tmux.type(`/navigate ${id}`);
  await tmux.shows(/The leaf is before the first entry: the model reads 0 messages, [\d,]+\s+tokens\./);
  const [, after = ""] = /claude-\S+ · ([\d,]+) of/.exec(tmux.screen) ?? [];
  expect(tmux.screen).toMatch(new RegExp(`0 messages, ${after}\\s+tokens\\.`));
});
