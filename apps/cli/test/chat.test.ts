import { once } from "node:events";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { startOpenaiServer } from "@espalier/engine/testing";
import {
  brokenReply,
  errorReply,
  hangingReply,
  type MessagesServer,
  startMessagesServer,
  textReply,
  toolReply,
} from "@espalier/summarizer/testing";
import { afterAll, expect, test } from "vitest";
import {
  demoCopy,
  espalier,
  espalierJson,
  HEADER,
  linesOf,
  said,
  sessionOf,
  start,
  temporaryFolder,
} from "./espalier.ts";
import { hasTmux, Tmux } from "./tmux.ts";

const endings: (() => unknown)[] = [];
afterAll(async () => {
  for (const end of endings.reverse()) await end();
});

const KEY = "key-of-the-chat-test";

const SUMMARY = [
  "## Goal\nTell tales.",
  "## Constraints & Preferences\n- none",
  "## Progress\n### Done\n- [x] told\n### In Progress\n- [ ] more\n### Blocked\n- none",
  "## Key Decisions\n- **Tell**: on",
  "## Next Steps\n1. Tell more.",
  "## Critical Context\n- Waves.",
].join("\n\n");

/** A model that reads notes.txt when it is asked for notes, hangs when it is told to, fails, and else says much. */
async function claude(): Promise<MessagesServer> {
  const server = await startMessagesServer({
    apiKey: KEY,
    reply: ({ body }) => {
      const messages = body["messages"] as { content: { type: string; text?: string }[] }[];
      const last = messages.at(-1)!.content.at(-1)!;
      if (!JSON.stringify(body["system"] ?? "").includes("assistant in a terminal"))
        return textReply(SUMMARY);
      if (last.type === "tool_result") return textReply("The notes say that the **tide** is high.");
      if (last.text?.includes("asks for a summary")) return textReply(SUMMARY);
      if (last.text?.includes("notes"))
        return toolReply([{ name: "read_file", input: { path: "notes.txt" } }]);
      if (last.text?.includes("for ever")) return brokenReply("I begin to count and do not end", "hang", 1);
      if (last.text?.includes("impossible")) return errorReply(400, "that cannot be answered");
      if (last.text?.includes("short")) return textReply("Ebb. Flood.");
      return textReply(`It is so. ${"Waves come and go. ".repeat(1_200)}\n\nThe end.`, {
        deltaLength: 4_000,
      });
    },
  });
  endings.push(server.close);
  return server;
}

function place() {
  const home = temporaryFolder();
  writeFileSync(join(home, "notes.txt"), "the tide is high\n");
  return home;
}

const environmentOf = (home: string, { url }: MessagesServer) => ({
  ANTHROPIC_API_KEY: KEY,
  ANTHROPIC_BASE_URL: url,
  ESPALIER_HOME: home,
});

const sessionsIn = (home: string): string[] =>
  readdirSync(home, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".jsonl"))
    .map((name) => join(home, name));

test("without a key one sentence says which variable to set", async () => {
  for (const rest of [["--print", "Hello"], []]) {
    const { code, stdout, stderr } = await espalier(["chat", ...rest]);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr.trimEnd().split("\n")).toHaveLength(1);
    expect(stderr).toContain("set ANTHROPIC_API_KEY, or anthropicApiKey in ~/.espalier/settings.json.");
  }
});

test("a model of any server with OpenAI's API answers, writes the summaries, and is asked again", async () => {
  const home = place();
  const server = await startOpenaiServer(({ body }) => {
    const text = JSON.stringify(body["messages"]);
    if (!text.includes("assistant in a terminal")) return { text: SUMMARY };
    if (text.includes('"role":"tool"')) return { text: "The tide is high." };
    return { calls: [{ id: "c1", name: "read_file", input: { path: "notes.txt" } }] };
  });
  endings.push(server.close);
  const env = { OPENAI_BASE_URL: server.url, ESPALIER_HOME: home };
  const model = ["--model", "openai:qwen3"];
  const prompt = `What do the notes say? ${"Look well. ".repeat(400)}`;
  const asked = await espalier(["chat", ...model, "--print", prompt], { env, cwd: home });
  expect(asked).toEqual({ code: 0, stdout: "The tide is high.\n", stderr: "" });
  const again = await espalier(["chat", "--continue", "--print", "And now?"], { env, cwd: home });
  expect(again).toMatchObject({ code: 0, stderr: "" });
  expect(server.requests.flatMap(({ problems }) => problems)).toEqual([]);
  expect(new Set(server.requests.map(({ body }) => body["model"]))).toEqual(new Set(["qwen3"]));
  expect(server.requests[0]!.body["max_tokens"]).toBeGreaterThan(0);
  const [file = ""] = sessionsIn(home);
  const compacted = await espalierJson(
    ["compact", file, "--keep-recent", "1", "--summarizer", "openai:qwen3"],
    { env, cwd: home },
  );
  expect(compacted.value).toMatchObject({ source: "openai" });
  const refused = await espalier(["chat", "--model", "openai:", "--print", "Hm?"], { env, cwd: home });
  expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining("Name a model too") });
});

test("a key and an address can be settings; the key is not shown", async () => {
  const home = place();
  const server = await claude();
  const settings = { anthropicApiKey: KEY, anthropicBaseUrl: server.url };
  writeFileSync(join(home, "settings.json"), JSON.stringify(settings));
  const env = { ESPALIER_HOME: home };
  const said = await espalier(["chat", "--print", "What do the notes say?"], { env, cwd: home });
  expect(said).toEqual({ code: 0, stdout: "The notes say that the **tide** is high.\n", stderr: "" });
  const { stdout } = await espalier(["config"], { env, cwd: home });
  expect(stdout).toContain(server.url);
  expect(stdout).toMatch(/^ *anthropicApiKey +\(set\)/m);
  expect(stdout).not.toContain(KEY);
});

test("without a terminal the chat suggests --print", async () => {
  const home = place();
  const { code, stderr } = await espalier(["chat"], { env: environmentOf(home, await claude()) });
  expect(code).toBe(2);
  expect(stderr).toContain("--print");
  expect(sessionsIn(home)).toEqual([]);
});

test("--print answers one prompt with tools, and --json prints the events; the key is never printed", async () => {
  const home = place();
  const env = environmentOf(home, await claude());
  const printed = await espalier(["chat", "--print", "What do the notes say?"], { env, cwd: home });
  expect(printed).toEqual({ code: 0, stdout: "The notes say that the **tide** is high.\n", stderr: "" });
  const told = await espalierJson(["chat", "--continue", "--print", "And the notes again?"], {
    env,
    cwd: home,
  });
  const types = told.values.map(({ type }) => type);
  expect(types[0]).toBe("agent_start");
  expect(types.at(-1)).toBe("agent_end");
  expect(types.filter((type) => type === "answer")).toHaveLength(2);
  const [file] = sessionsIn(home);
  expect(sessionsIn(home)).toHaveLength(1);
  expect(statSync(file!).mode & 0o777).toBe(0o600);
  expect(JSON.stringify([linesOf(file!), told.values])).not.toContain(KEY);
});

test("--json prints an event when it happens, and ends silently when its reader leaves", async () => {
  const home = place();
  const env = environmentOf(home, await claude());
  const child = await start(["chat", "--print", "Count for ever.", "--json"], { env, cwd: home });
  let [stdout, stderr] = ["", ""];
  child.stderr.on("data", (piece) => {
    stderr += piece;
  });
  child.stdin.end();
  const begins = new Promise<void>((resolve) => {
    child.stdout.on("data", (piece) => {
      stdout += piece;
      if (stdout.includes("I begin to count")) resolve();
    });
  });
  await begins;
  expect(stdout.split("\n")[0]).toContain('"agent_start"');
  const ended = once(child, "close");
  child.stdout.destroy();
  child.kill("SIGINT");
  expect({ code: (await ended)[0], stderr }).toEqual({ code: 0, stderr: "" });
});

test("--print says in one sentence why there is no answer, without the text of the request", async () => {
  const home = place();
  const env = environmentOf(home, await claude());
  const failed = await espalier(["chat", "--print", "Do the impossible, swordfish."], { env, cwd: home });
  expect(failed).toEqual({ code: 1, stdout: "", stderr: "400 that cannot be answered\n" });
  const { value, code } = await espalierJson(["chat", "--print", "Do the impossible."], {
    env: { ...env, ANTHROPIC_API_KEY: "wrong" },
    cwd: home,
  });
  expect([code, value?.type]).toEqual([1, "agent_start"]);
});

/** Replies of servers that are no model's API, or that cannot answer now; with the message that --print shows. */
const REFUSALS: [string, number, Record<string, string>, string, RegExp][] = [
  [
    "a wait of a day",
    429,
    { "content-type": "application/json", "retry-after": "86400" },
    '{"type":"error","error":{"type":"rate_limit_error","message":"Slow down."}}',
    /^429 .*[Ss]low down/,
  ],
  [
    "an error text with escapes",
    400,
    { "content-type": "application/json" },
    '{"type":"error","error":{"type":"invalid_request_error","message":"The field \\"x\\"\\nis \\u001b[31mwrong."}}',
    /^400 .*The field "x" is wrong\./,
  ],
  [
    "a page of a proxy",
    403,
    { "content-type": "text/html" },
    `<html><body>${"<p>Forbidden</p>".repeat(2_000)}</body></html>`,
    /^No whole answer of a model from http:[^ ]+ \(403 <html>.{100,300}…\)\. Retry; if it fails again, check the address in [A-Z]+_BASE_URL\.$/,
  ],
  [
    "a page instead of an answer",
    200,
    { "content-type": "text/html" },
    "<html>Welcome</html>",
    /^No whole answer of a model from .* check the address in [A-Z]+_BASE_URL\.$/,
  ],
  [
    "no page at this path",
    404,
    { "content-type": "text/plain" },
    "404 page not found",
    /^No whole answer of a model from .*404 page not found.* check the address in [A-Z]+_BASE_URL\.$/,
  ],
];

test.each(REFUSALS)(
  "--print ends with one short sentence after %s",
  async (_, status, headers, body, said) => {
    const server = createServer((request, response) => {
      request.resume().on("end", () => response.writeHead(status, headers).end(body));
    });
    endings.push(() => server.close());
    await once(server.listen(0, "127.0.0.1"), "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const home = place();
    const env = {
      ESPALIER_HOME: home,
      ANTHROPIC_API_KEY: KEY,
      ANTHROPIC_BASE_URL: url,
      OPENAI_BASE_URL: `${url}/v1`,
    };
    for (const model of ["claude-haiku-4-5", "openai:small", "openai-responses:small"]) {
      const run = await espalier(["chat", "--print", "Is it so?", "--model", model], { env, cwd: home });
      expect(run, model).toMatchObject({ code: 1, stdout: "" });
      expect(run.stderr.trimEnd()).toMatch(said);
    }
  },
  60_000,
);

test("--print prints the answer even if an extension vetoes the compaction after it, and reports the veto", async () => {
  const home = place();
  writeFileSync(
    join(home, "settings.json"),
    JSON.stringify({ contextWindow: 21_000, keepRecentTokens: 200 }),
  );
  const veto = join(home, "veto.ts");
  writeFileSync(
    veto,
    `export default (api: any) => {
  api.on("session_before_compact", () => ({ cancel: true, reason: "a deploy is running" }));
  api.on("session_before_fork", () => ({ cancel: true, reason: "a deploy is running" }));
};`,
  );
  const file = demoCopy();
  const options = { env: environmentOf(home, await claude()), cwd: home };
  const run = await espalier(["chat", file, "--print", "Is it so?", "--extension", veto], options);
  expect([run.code, run.stdout.slice(0, 9)]).toEqual([0, "It is so."]);
  expect(run.stderr).toContain(`cancelled by ${veto}: a deploy is running`);

  const moved = await espalierJson(["navigate", file, "before-cache", "--extension", veto], options);
  const error = { code: "cancelled", by: veto, reason: "a deploy is running" };
  expect(moved).toMatchObject({ code: 1, value: { error } });
  const forked = await espalierJson(["fork", file, "before-cache", "--extension", veto], options);
  expect(forked).toMatchObject({ code: 1, value: { error } });
});

test("a policy that compacts after an append asks the API that --model names", async () => {
  const home = place();
  writeFileSync(
    join(home, "settings.json"),
    JSON.stringify({ policy: "message-count", maxMessages: 2, keepLast: 1 }),
  );
  const server = await startOpenaiServer(() => ({ text: "## Goal\nAnswer." }));
  endings.push(() => server.close());
  const env = { ESPALIER_HOME: home, OPENAI_BASE_URL: server.url };
  const prompt = "Is it so? ".repeat(400);
  for (const more of [[], ["--continue"]])
    await espalier(["chat", "--print", prompt, "--model", "openai-responses:small", ...more], {
      env,
      cwd: home,
    });
  expect(server.requests.length).toBeGreaterThan(2);
  expect(new Set(server.requests.map(({ path }) => path))).toEqual(new Set(["/responses"]));
});

test("--model chooses the model, and the session remembers it", async () => {
  const home = place();
  const server = await claude();
  const run = (...more: string[]) =>
    espalier(["chat", "--print", "In short?", ...more], { env: environmentOf(home, server), cwd: home });
  await run("--model", "claude-haiku-4-5");
  await run("--continue");
  await run("--continue", "--model", "claude-sonnet-4-5");
  await run("--continue");
  const answered = server.requests.map(({ body }) => body["model"]);
  expect(answered).toEqual([
    "claude-haiku-4-5",
    "claude-haiku-4-5",
    "claude-sonnet-4-5",
    "claude-sonnet-4-5",
  ]);
});

test("a session whose folder is missing reports this and continues", async () => {
  const home = place();
  const env = environmentOf(home, await claude());
  const { code, stdout, stderr } = await espalier(["chat", demoCopy(), "--print", "In short?"], {
    env,
    cwd: home,
  });
  expect([code, stdout === ""]).toEqual([0, false]);
  expect(stderr).toContain("The folder of this session, /home/ada/tidepool, does not exist");
});

/** A chat in a terminal, and what it shows. */
async function terminal(home: string, server: MessagesServer, ...session: string[]) {
  const env = environmentOf(home, server);
  const tmux = await Tmux.run(["chat", ...session], { columns: 120, rows: 50, cwd: home, env });
  return {
    tmux,
    /** Waits for a text, and, where something was going on, until it is over. */
    shows: (text: string | RegExp, { idle = false } = {}) =>
      tmux.until(() => {
        const seen = tmux.history;
        const isThere = typeof text === "string" ? seen.includes(text) : text.test(seen);
        return isThere && !(idle && seen.includes(" s · Esc aborts it"));
      }, `${text}`),
  };
}

test.skipIf(!hasTmux)("the help wraps its paragraphs between words in a narrow terminal", async () => {
  const tmux = await Tmux.run(["chat", "--help"], { columns: 80, rows: 70 });
  const screen = await tmux.shows(`${Tmux.LEFT} 0`);
  expect(screen).toContain("Needs\nANTHROPIC_API_KEY, or OPENAI_API_KEY");
});

test.skipIf(!hasTmux)(
  "a person types, interrupts, forks, compacts and quits",
  async () => {
    const home = place();
    const server = await claude();
    const { tmux, shows } = await terminal(home, server);

    await shows("/help lists the commands.");
    tmux.type("What do the notes say?");
    await shows("• read_file path=notes.txt");
    await shows("The notes say that the **tide** is high.");
    await shows(/claude-\S+ · [\d,]+ of [\d,]+ tokens \(\d+ %\) · \$\d/);
    tmux.type("/help");
    await shows("/compact         Compress conversation history");
    tmux.type("/compact");
    await shows("Nothing to compact");
    tmux.type("/nothing");
    await shows("There is no command /nothing; /help lists them.");

    tmux.type("Count for ever.");
    await shows("I begin to count");
    await shows("Esc aborts it");
    tmux.type("In short, please.");
    await shows("waits: In short, please.");
    tmux.type("/label in between");
    await shows("An answer is still coming");
    tmux.keys("C-c");
    await shows("(aborted)", { idle: true });
    await shows("not sent, /continue sends it: In short, please.");
    tmux.type("/continue");
    await shows("› In short, please.");
    await shows("Ebb. Flood.", { idle: true });

    tmux.type("/undo");
    await shows("Undone: the prompt “In short, please.”");
    await shows(/› In short, please\.\s*$/);
    tmux.keys("C-c", "C-c");
    tmux.type("/label aborted");
    await shows(/Labelled \S+: aborted/);
    tmux.type("/name Tides");
    await shows("The session is called Tides");
    tmux.type("/tree");
    await shows(/Tides .*\n.*entries · 1 branch/);
    tmux.type("/tree --everything");
    await shows("The only option is --all: /tree [--all].");
    tmux.type("/tree --all");
    await shows(/^\S+ +custom +espalier\.queued/m);
    tmux.type("/navigate 999");
    await shows('There is no entry "999" in this session. /tree --all lists all ids.');
    tmux.type("/context");
    await shows("What the model reads at");

    const [first] = sessionsIn(home);
    const prompts = linesOf(first!).filter(({ message }) => (message as { role?: string })?.role === "user");
    tmux.type(`/hide ${prompts[0]!["id"]}`);
    await shows(/\S+ is hidden, and the model reads [\d,]+ tokens/);
    tmux.type("/undo");
    await expect
      .poll(() => linesOf(first!).at(-1), { timeout: 60_000 })
      .toMatchObject({ type: "leaf", undoes: expect.any(String) });
    tmux.type(`/fork ${prompts[1]!["id"]} --summarize`);
    await shows(/Forked to \S+/);
    await shows(/› Count for ever\.\s*$/);
    tmux.keys("C-c", "C-c");
    expect(sessionsIn(home)).toHaveLength(2);

    tmux.type("/policy");
    await shows("The policy is token-budget");
    tmux.type("/policy nonsense");
    await shows("There is no policy nonsense; choose one of token-budget");
    tmux.type("/policy pressure");
    await shows("The policy is pressure until the end of this chat");
    tmux.type("/policy token-budget");
    await shows("The policy is token-budget until the end of this chat");
    tmux.type("/model claude-haiku-4-5");
    await shows(/claude-haiku-4-5 · [\d,]+ of 200,000 tokens/);

    for (const word of ["One", "Two", "Three", "Four", "Five"]) {
      tmux.type(`${word} more tale, please.`);
      await shows(new RegExp(`${word} more tale[\\s\\S]*The end\\.\\s+claude`), { idle: true });
    }
    tmux.type("/compact the waves");
    await shows(/✅ Compacted: [\d,]+ → [\d,]+ tokens/);
    await shows(/ {3}Freed [\d,]+ tokens, removed 0 offloaded files/);
    tmux.type("Do the impossible.");
    await shows("400 that cannot be answered (/continue retries)", { idle: true });
    tmux.type("/quit");
    await shows(`${Tmux.LEFT} 0`);
    await shows(/To continue: espalier chat \S+/);
    expect(tmux.history).not.toContain(KEY);
    expect(server.requests.flatMap(({ problems }) => problems)).toEqual([]);
    expect(server.failures).toEqual([]);
    const asked = server.requests.filter(({ body }) => JSON.stringify(body["system"]).includes("terminal"));
    expect(asked.at(-1)!.body["model"]).toBe("claude-haiku-4-5");
    for (const file of sessionsIn(home)) expect(statSync(file).mode & 0o777).toBe(0o600);
  },
  240_000,
);

test.skipIf(!hasTmux)(
  "a failed compaction is reported once with its reason, and the history is unchanged; a pasted text is one message",
  async () => {
    const home = place();
    writeFileSync(join(home, "settings.json"), JSON.stringify({ keepRecentTokens: 1_000, fallback: false }));
    let mayAnswer = true;
    const server = await startMessagesServer({
      apiKey: KEY,
      reply: ({ body }) =>
        !JSON.stringify(body["system"] ?? "").includes("assistant in a terminal") ||
        JSON.stringify(body["messages"]).includes("asks for a summary") ||
        !mayAnswer
          ? errorReply(401, "who are you?")
          : textReply("Waves come and go. ".repeat(300)),
    });
    endings.push(server.close);
    const { tmux, shows } = await terminal(home, server);
    await shows("/help lists the commands.");
    tmux.paste("first line\nsecond line");
    await shows(/› first line\n {2}second line/);
    tmux.keys("Enter");
    await shows(/Waves come[\s\S]*claude/);
    tmux.type("And again?");
    await shows(/And again\?[\s\S]*Waves come[\s\S]*claude/);
    mayAnswer = false;
    const [file] = sessionsIn(home);
    tmux.type("/compact");
    await shows(/❌ Compaction failed, history unchanged\n {3}\S+/);
    expect(tmux.history.match(/history unchanged/g)).toHaveLength(1);
    expect(linesOf(file!).some((line) => line["type"] === "compaction")).toBe(false);
    const said = linesOf(file!).flatMap(({ message }) =>
      (message as { role?: string })?.role === "user" ? [(message as { content: unknown }).content] : [],
    );
    expect(said[0]).toBe("first line\nsecond line");
    tmux.keys("C-c");
    await shows("Press Ctrl-C again to leave.");
    tmux.keys("C-c");
    await shows(`${Tmux.LEFT} 0`);
  },
  120_000,
);

test.skipIf(!hasTmux)(
  "Ctrl-C aborts the summary of a fork: no session is created, and the chat continues",
  async () => {
    const home = place();
    let hangs = true;
    const server = await startMessagesServer({
      apiKey: KEY,
      reply: ({ body }) => {
        if (JSON.stringify(body["system"] ?? "").includes("assistant in a terminal"))
          return textReply("Waves come and go.");
        return hangs ? hangingReply() : textReply(SUMMARY);
      },
    });
    endings.push(server.close);
    const { tmux, shows } = await terminal(home, server);
    await shows("/help lists the commands.");
    for (const word of ["One", "Two"]) {
      tmux.type(`${word} tale, please.`);
      await shows(new RegExp(`› ${word} tale[\\s\\S]*Waves come`), { idle: true });
    }
    const [file] = sessionsIn(home);
    const before = readFileSync(file!);
    const answer = linesOf(file!).find(
      ({ message }) => (message as { role?: string })?.role === "assistant",
    )!["id"];

    const asked = server.requests.length;
    tmux.type(`/fork ${answer} --summarize`);
    await shows("summarizes the rest of the session");
    // Not before the summary is on its way.
    const asks = () => server.requests.length > asked;
    for (const end = Date.now() + 60_000; !asks() && Date.now() < end; )
      await new Promise((resolve) => setTimeout(resolve, 20));
    expect(asks()).toBe(true);
    tmux.keys("C-c");
    await shows("Fork aborted, no session was created", { idle: true });
    expect(tmux.history).not.toContain("Forked to");
    expect(sessionsIn(home)).toEqual([file]);
    expect(readFileSync(file!).equals(before)).toBe(true);

    hangs = false;
    tmux.type("Three tales, please.");
    await shows(/› Three tales[\s\S]*Waves come/, { idle: true });
    tmux.type(`/fork ${answer} --summarize`);
    await shows(/Forked to \S+/, { idle: true });
    const [made] = sessionsIn(home).filter((one) => one !== file);
    expect(linesOf(made!).find((line) => line["type"] === "branch_summary")).toMatchObject({
      summary: expect.stringContaining("Tell tales."),
      details: { source: "anthropic" },
    });
    tmux.keys("C-d");
    await shows(`${Tmux.LEFT} 0`);
  },
  120_000,
);

test.skipIf(!hasTmux)(
  "a session that ended in the middle of a turn shows its state, and continues on request",
  async () => {
    const home = place();
    const file = sessionOf(HEADER, said("u1", null, "In short?"), {
      type: "custom",
      id: "s1",
      parentId: "u1",
      timestamp: "2026-01-01T00:00:02.000Z",
      customType: "espalier.sent",
      data: { leafId: "u1", model: "claude-haiku-4-5" },
    });
    const { tmux, shows } = await terminal(home, await claude(), file);
    await shows("› In short?");
    await shows("but its answer is unknown; it may have been billed");
    tmux.type("/continue");
    await shows("Ebb. Flood.", { idle: true });
    tmux.type("/continue");
    await shows("the last message is an answer");
    tmux.keys("C-d");
    await shows(`${Tmux.LEFT} 0`);
    expect(
      linesOf(file).filter(({ message }) => (message as { role?: string })?.role === "user"),
    ).toHaveLength(1);
  },
  120_000,
);

test.skipIf(!hasTmux)(
  "no typed text is lost: lines, a draft that Ctrl-C asks about, an interrupted answer, a failed command",
  async () => {
    const home = place();
    const server = await claude();
    const { tmux, shows } = await terminal(home, server);
    await shows("/help lists the commands.");
    tmux.write("one");
    tmux.keys("M-Enter");
    tmux.write("two\\");
    tmux.keys("Enter");
    tmux.write("three");
    // As a terminal with the keyboard protocol of kitty sends Shift-Enter.
    tmux.write("\u001b[13;2ushort");
    await shows(/› one\n {2}two\n {2}three\n {2}short/);
    tmux.keys("Enter");
    await shows("Ebb. Flood.", { idle: true });
    const [file] = sessionsIn(home);
    const prompts = () =>
      linesOf(file!).flatMap(({ message }) =>
        (message as { role?: string })?.role === "user" ? [(message as { content: unknown }).content] : [],
      );
    expect(prompts()).toEqual(["one\ntwo\nthree\nshort"]);

    tmux.write("a draft");
    tmux.keys("C-c");
    await shows("Press Ctrl-C again to clear the text");
    tmux.write(" that goes on");
    await shows(/› a draft that goes on\s*$/);
    tmux.resize(60, 30);
    await shows(/› a draft that goes on\s*$/);
    tmux.keys("C-c", "C-c", "Up");
    await shows(/› a draft that goes on\s*$/);
    tmux.keys("Down");

    // A draft and a changed earlier message stay while one looks at others.
    tmux.write("second draft");
    tmux.keys("Up");
    tmux.write(", changed");
    await shows(/› a draft that goes on, changed\s*$/);
    tmux.keys("Down");
    await shows(/› second draft\s*$/);
    tmux.keys("Up");
    await shows(/› a draft that goes on, changed\s*$/);
    tmux.keys("Down", "C-u");

    tmux.type("Count for ever.");
    await shows("I begin to count");
    tmux.write("typed meanwhile");
    tmux.keys("Escape");
    await shows("(aborted)", { idle: true });
    await shows(/› typed meanwhile\s*$/);
    tmux.keys("C-u");

    tmux.write("/br");
    tmux.keys("Tab");
    await shows(/› \/branches\s*$/);
    tmux.keys("C-u");
    tmux.write("what is in no");
    tmux.keys("Tab");
    await shows(/› what is in notes\.txt\s*$/);
    tmux.keys("C-u");
    tmux.type("/navigat nowhere");
    await shows(/Did you\s+mean \/navigate\?/);
    tmux.keys("Up");
    await shows(/› \/navigat nowhere\s*$/);
    tmux.keys("C-u");

    tmux.type("Say much.");
    await shows(/The end\.\s+claude/, { idle: true });
    const rows = tmux.screen.trimEnd().split("\n");
    expect([rows.length, rows.at(-1)]).toEqual([30, "›"]);
    tmux.keys("C-d");
    await shows(`${Tmux.LEFT} 0`);
  },
  180_000,
);

test.skipIf(!hasTmux)(
  "branches are created, listed and navigated inside the conversation",
  async () => {
    const home = place();
    const { tmux, shows } = await terminal(home, await claude());
    await shows("/help lists the commands.");
    for (const word of ["First", "Second"]) {
      tmux.type(`${word}, in short.`);
      await shows(new RegExp(`› ${word}, in short[\\s\\S]*Ebb`), { idle: true });
    }
    tmux.type("/label tested");
    await shows(/Labelled \S+: tested/);
    tmux.write("/navigate ");
    tmux.keys("Tab");
    await shows(/ {2}tested +Ebb/);
    await shows(/ {2}\S+ +First, in short\./);
    const [, first = ""] = / {2}(\S+) +First, in short\./.exec(tmux.screen) ?? [];
    tmux.write(first);
    tmux.keys("Enter");
    await shows("The leaf is before the first entry");
    await shows(/› First, in short\.\s*$/);
    tmux.keys("C-u");
    tmux.type("Another short one.");
    await shows(/› Another short one\.[\s\S]*Ebb/, { idle: true });
    tmux.type("/branches");
    await shows(/ 1 \* \S+ +now {2}Another short one\./);
    await shows(/ 2 {3}\S+ +now \[tested\] {2}Second, in short\./);
    tmux.type("/navigate 2");
    await shows(/The leaf is at \S+: the model reads 4 messages/);
    tmux.type("/undo");
    await shows("Undone: the navigation");
    tmux.type("/navigate tested");
    await shows(/› \/navigate tested\s+The leaf is at/, { idle: true });
    tmux.type("/navigate tested");
    await shows("The conversation already continues from here.");
    tmux.type("/fork tested");
    await shows(/Forked to \S+/);
    expect(sessionsIn(home)).toHaveLength(2);
    tmux.keys("C-d");
    await shows(`${Tmux.LEFT} 0`);
  },
  180_000,
);

test.skipIf(!hasTmux)(
  "an unreachable server is named with its address; a second terminal can read, fork or share",
  async () => {
    const home = place();
    const server = await claude();
    const { tmux, shows } = await terminal(home, server);
    await shows("/help lists the commands.");
    tmux.type("In short?");
    await shows("Ebb. Flood.", { idle: true });
    const [file = ""] = sessionsIn(home);

    const env = environmentOf(home, server);
    const refused = await espalier(["chat", file, "--print", "Hello, in short"], { env, cwd: home });
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain("--on-busy read-only, --on-busy fork, --on-busy share");
    const second = await terminal(home, server, file);
    await second.shows("3 share: both write, each on its own branch (--on-busy share)");
    await second.shows("Your choice; Enter leaves [1-3]");
    second.tmux.type("1");
    await second.shows("This session is read-only here; /fork creates a session of your own.");
    second.tmux.type("In short, you too?");
    await second.shows(/› In short, you too\?\s*$/);
    second.tmux.keys("C-u");
    second.tmux.type("/name Mine");
    await second.shows(
      /› \/name Mine\nThis session is read-only here; \/fork creates a session of your own\./,
    );
    // The choice holds when the session is opened again.
    second.tmux.type("/policy pressure");
    await second.shows("The policy is pressure until the end of this chat");
    second.tmux.type("/label Mine");
    await second.shows(/› \/label Mine\nThis session is read-only here/);
    // It also draws what the first terminal has written since.
    tmux.type("The newest prompt, in short?");
    await shows(/The newest prompt, in short\?\s+Ebb/, { idle: true });
    second.tmux.type("/tree");
    await second.shows(/› \/tree[\s\S]*The newest prompt, in short\?/);
    second.tmux.type("/fork");
    await second.shows(/Forked to \S+/);
    second.tmux.keys("C-d");
    await second.shows(`${Tmux.LEFT} 0`);
    expect(sessionsIn(home)).toHaveLength(2);

    await server.close();
    tmux.type("Are you there?");
    await shows(new RegExp(`No answer from ${server.url}[\\s\\S]*ANTHROPIC_BASE_URL`), { idle: true });
    await shows("(/continue retries)");
    expect(JSON.stringify(linesOf(file))).toContain("Are you there?");
    tmux.keys("C-d");
    await shows(`${Tmux.LEFT} 0`);
    // A reopened chat shows that the prompt has no answer, and why.
    const reopened = await terminal(home, server, file);
    await reopened.shows(
      new RegExp(`› Are you there\\?\\s+No answer from ${server.url}[\\s\\S]*\\(/continue retries\\)`),
    );
    reopened.tmux.keys("C-d");
    await reopened.shows(`${Tmux.LEFT} 0`);
  },
  180_000,
);
