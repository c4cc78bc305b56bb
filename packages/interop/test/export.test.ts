import { type ExportFormat, exportSession, fromAnthropic, type SessionDocument } from "@espalier/interop";
import {
  type BaseEntry,
  branchSummary,
  buildSessionContext,
  contextEdit,
  custom,
  customMessage,
  defineEntry,
  type Entry,
  label,
  memoryLog,
  memoryStore,
  message,
  type NewEntry,
  SessionTree,
  type StoredMessage,
  sessionInfo,
  Tree,
} from "@espalier/session-tree";
import { growTree } from "@espalier/session-tree/testing";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { PNG, written } from "./format-histories.ts";

const formats: ExportFormat[] = [
  "json",
  "jsonl",
  "markdown",
  "anthropic",
  "openai",
  "openai-responses",
  "ai-sdk",
];
const exported = (...given: Parameters<typeof exportSession>): string =>
  [...exportSession(...given)].join("");
const treeOf = (lines: string): Tree => new Tree(bytesOf(lines));
const bytesOf = (text: string) => memoryLog(new TextEncoder().encode(text)).view!;

const GARDEN =
  'u1("Plant a tree") > c1(2) > t1("dug") > t2("watered") > a1("Planted."); a1 > u2("Where?") > a2("There."); a1 > u3("Why?") > a3("Because.") > k1(u3 "We planted a tree.") > u4("Thanks")*';

describe("a session exported as json", () => {
  it("is one document with every entry as on its line, in file order", async () => {
    const { session } = await growTree(GARDEN);
    const document: SessionDocument = JSON.parse(exported(session, { format: "json" }));
    expect(document).toMatchObject({
      format: "espalier-session",
      version: 1,
      session: { type: "session", id: "grown", cwd: "/garden" },
      name: null,
      leafId: "u4",
      issues: [],
    });
    expect(document.entries).toEqual([...session.tree.entries()]);
  });

  it("reports the problems of a damaged log, and keeps the position of unreadable lines", async () => {
    const header = '{"type":"session","version":3,"id":"x","timestamp":"","cwd":"/"}';
    const lines = [
      header,
      "not json",
      '{"type":"message","id":"a","parentId":"missing","timestamp":"","message":{"role":"user","content":"Hi"}}',
    ];
    const document: SessionDocument = JSON.parse(
      exported(treeOf(`${lines.join("\n")}\n`), { format: "json" }),
    );
    expect(document.entries.map(({ id }) => id)).toEqual(["a"]);
    expect(document.issues.map(({ kind }) => kind)).toEqual(["corrupt", "orphan"]);
  });
});

describe("a session exported as jsonl", () => {
  it("has the log's own bytes", async () => {
    const { session } = await growTree(GARDEN);
    const view = session.log.view!;
    expect(exported(session, { format: "jsonl" })).toBe(new TextDecoder().decode(view.read(0, view.size)));
  });

  it("of one path opens as a session with that path, its labels and its context", async () => {
    const { session } = await growTree(GARDEN);
    await session.moveTo("u2");
    await session.append(label.of({ targetId: "u1", label: "start" }));
    await session.append(label.of({ targetId: "u3", label: "elsewhere" }));
    const lines = exported(session, { format: "jsonl", at: "a2" });
    const path = treeOf(lines);
    expect(buildSessionContext(path)).toEqual(session.contextAt("a2"));
    expect([...path.entries()].filter(({ type }) => type === "message").map(({ id }) => id)).toEqual([
      ..."u1 c1 t1 t2 a1 u2 a2".split(" "),
    ]);
    expect(lines).toContain('"label":"start"');
    expect(lines).not.toContain("elsewhere");
  });

  it("of any path of any tree opens at the end of that path", async () => {
    await fc.assert(
      fc.asyncProperty(life, fc.nat(), async (steps, pick) => {
        const session = await live(steps);
        const ids = [...session.tree.ids()];
        const at = session.placeOf(ids[pick % ids.length]!);
        const path = treeOf(exported(session, { format: "jsonl", at }));
        expect(buildSessionContext(path)).toEqual(session.contextAt(at));
        expect(path.issues).toEqual([]);
      }),
      { numRuns: 60 },
    );
  });
});

describe("a session exported as a request", () => {
  it.each(["anthropic", "openai", "openai-responses", "ai-sdk"] as const)(
    "in %s is that of the context at the leaf",
    async (format) => {
      const { session } = await growTree(GARDEN);
      const request = JSON.parse(exported(session, { format }));
      const said = JSON.stringify(request);
      expect(said).toContain("We planted a tree.");
      expect(said).toContain("Thanks");
      expect(said).not.toContain("There.");
      const elsewhere = JSON.stringify(JSON.parse(exported(session, { format, at: "a2" })));
      expect(elsewhere).toContain("There.");
    },
  );

  it("reports an empty context before it gives the first piece", async () => {
    const { session } = await growTree("m1(anthropic claude-test)");
    expect(() => exportSession(session, { format: "anthropic" }).next()).toThrow(/nothing to send/i);
  });

  it("contains content that only its format can express", async () => {
    const store = memoryStore();
    const session = await SessionTree.open(
      await store.create({
        type: "session",
        version: 3,
        id: "s",
        timestamp: "2026-01-01T00:00:00.000Z",
        cwd: "/",
      }),
    );
    const document = { type: "document", source: { type: "url", url: "https://example.com/a.pdf" } };
    const { messages } = fromAnthropic([{ role: "user", content: [document] }]);
    await session.append(messages.map((said) => message.of({ message: said })));
    expect(JSON.parse(exported(session, { format: "anthropic" }))).toEqual({
      messages: [{ role: "user", content: [document] }],
    });
  });
});

describe("a session exported as markdown", () => {
  it("has a thought with many thousand backticks in a longer fence", async () => {
    const { session } = await growTree('u1("Read it")*');
    const thinking = `\`\`\`\n${"` ".repeat(200_000)}`;
    const asked = { role: "assistant", provider: "p", model: "m", stopReason: "stop", timestamp: 0 } as const;
    const said: StoredMessage = { ...asked, content: [{ type: "thinking", thinking }] };
    await session.append(message.of({ message: said }));
    expect(exported(session, { format: "markdown" })).toContain("````\n```\n` ` `");
  });

  it("has the path: messages, calls, results, and its compaction", async () => {
    const { session } = await growTree(
      'u1("Plant a tree") > c1 > t1("dug") > a1("Planted.") > u2("Why?") > k1(u2 "We planted.") > a2("Because.")*; a1 > u3("Aside")',
    );
    await session.moveTo("a2");
    await session.append(label.of({ targetId: "u2", label: "the *point*" }));
    expect(exported(session, { format: "markdown" })).toMatchInlineSnapshot(`
      "---
      title: "Plant a tree"
      session: "grown"
      created: "2026-01-01T00:00:00.000Z"
      cwd: "/garden"
      leaf: "a2"
      entries: 10
      ---

      # Plant a tree

      *This is one path of the session, without 1 entry of other branches.*

      ## User

      \`u1\` · \`2026-01-01T00:00:01.000Z\`

      Plant a tree

      ## Assistant (\`anthropic/claude-test\`)

      \`c1\` · \`2026-01-01T00:00:02.000Z\`

      **Call** \`read\`

      \`\`\`json
      {
        "path": "c1.txt"
      }
      \`\`\`

      ## Result of \`read\`

      \`t1\` · \`2026-01-01T00:00:03.000Z\`

      \`\`\`
      dug
      \`\`\`

      ## Assistant (\`anthropic/claude-test\`)

      \`a1\` · \`2026-01-01T00:00:04.000Z\`

      Planted.

      ## User — the \\*point\\*

      \`u2\` · \`2026-01-01T00:00:05.000Z\`

      Why?

      ## Compaction

      \`k1\` · \`2026-01-01T00:00:06.000Z\`

      Everything before \`u2\` is replaced by this summary (the context had \`1000\` tokens).

      We planted.

      ## Assistant (\`anthropic/claude-test\`)

      \`a2\` · \`2026-01-01T00:00:07.000Z\`

      Because.
      "
    `);
  });

  it("has all branches on request, each entry once", async () => {
    const { session } = await growTree(GARDEN);
    const document = exported(session, { format: "markdown", all: true });
    for (const id of ["u1", "a1", "u2", "a2", "u3", "k1", "u4"])
      expect(document.match(new RegExp(`^\`${id}\` ·`, "gm"))).toHaveLength(1);
    expect(document).toContain("# Branch 2, after `a1`");
    expect(document.indexOf("There.")).toBeGreaterThan(document.indexOf("Thanks"));
    expect(exported(session, { format: "markdown" })).not.toContain("There.");
  });

  it("has the state of an agent on request, which is bookkeeping like its reminders", async () => {
    const { session } = await growTree("u1*");
    const data = { totalCostUSD: 0.1, note: "x".repeat(3_000) };
    await session.append(custom.of({ customType: "claude-code.cost-state", data }));
    expect(exported(session, { format: "markdown" })).toContain("without 1 entry of bookkeeping.*");
    const document = exported(session, { format: "markdown", all: true });
    expect(document).toMatch(/\n## State \(`claude-code\.cost-state`\)\n[^#]*"totalCostUSD": 0\.1/);
    expect(document).toContain("characters left out]");
  });

  it("has the entries of an extension's kind: their messages, else their line in a list", async () => {
    const { session } = await growTree("u1*");
    session.registerKind(weather);
    session.registerKind(visit);
    await session.append([weather.of({ degrees: 21 }), visit.of({ guest: "Ada" })]);
    await session.append({ type: "garden.unknown" });
    const told = (options = {}) => exported(session, { format: "markdown", ...options });
    expect(told()).toMatch(/\n## Entry \(`garden\.weather`\)\n\n`\w+` · `[^`]+`\n\nIt is 21 degrees\.\n/);
    expect(told()).toMatch(/\n## Entry \(`garden\.visit`\)\n\n`\w+` · `[^`]+`\n\nAda was here\.\n/);
    expect(told()).not.toContain("garden.unknown");
    expect(told({ redact: (text: string) => text.replace("Ada", "[name]") })).toContain("[name] was here.");
    expect(told({ at: "u1" })).toContain("without 2 entries of other branches.*");
  });

  it("cannot be imitated or ended by a message", async () => {
    const { session } = await growTree("u1 > a1*");
    const said = "---\n# Title\n```\n<!-- \n## Assistant\r\n\u001b[31mred\u001b[0m\n> quoted";
    await session.append(message.of({ message: { role: "user", content: said, timestamp: 0 } }));
    await session.append(message.of({ message: resultOf(`\`\`\`\`\n${said}`) }));
    await session.append(
      message.of({ message: { role: "user", content: said.replace("\n<!--", "\n```\n<!--"), timestamp: 0 } }),
    );
    const list = "- a\n\n    ```\n# Code\n    ```\n";
    await session.append(message.of({ message: { role: "user", content: list, timestamp: 0 } }));
    const document = exported(session, { format: "markdown" });
    const outside = document.replace(/^(`{3,})[^`\n]*\n[\s\S]*?\n\1$/gm, "").split("\n");
    // A message's own headings are below those of the document.
    expect(outside.filter((line) => /^##? /.test(line))).toEqual([
      "# u1",
      "## User",
      "## Assistant (`anthropic/claude-test`)",
      "## User",
      "## Result of `read`",
      "## User",
      "## User",
    ]);
    expect(outside.filter((line) => line === "---")).toHaveLength(2);
    expect(outside).toEqual(
      expect.arrayContaining(["***", "### Title", "\\<!-- ", "#### Assistant", "> quoted"]),
    );
    expect(document).not.toContain("\u001b");
    expect(document).not.toContain("\r");
  });

  it("contains nothing that its reader's program would execute, from any part of a file", () => {
    const acts =
      "a\u001b[2J\u001b]0;title\u0007b\u0007\u009b31mc\u0085d\u200e\u202e\u2066\u061c\u2028e\u007f\ud800f";
    const timestamp = acts;
    const entries = [
      { type: "message", message: { role: acts, content: acts } },
      { type: "message", message: { role: "user", content: [{ type: acts }, { type: "text", text: acts }] } },
      {
        type: "message",
        message: {
          role: "assistant",
          provider: acts,
          model: acts,
          content: [{ type: "toolCall", id: acts, name: acts, arguments: { [acts]: acts } }],
          stopReason: "error",
          errorMessage: acts,
        },
      },
      { type: "message", message: { role: "toolResult", toolName: acts, toolCallId: acts, content: acts } },
      { type: "label", targetId: `1${acts}`, label: acts },
      { type: "session_info", name: acts },
      { type: "compaction", summary: acts, firstKeptEntryId: `0${acts}`, tokensBefore: acts },
      { type: "branch_summary", summary: acts, fromId: acts },
      { type: "custom_message", customType: acts, content: acts, display: true },
      { type: "thinking_level_change", thinkingLevel: acts },
      { type: "message", message: { role: "user", content: "the end" } },
    ].map((entry, at) => ({
      ...entry,
      id: `${at}${acts}`,
      parentId: at ? `${at - 1}${acts}` : null,
      timestamp,
    }));
    const header = { type: "session", version: 3, id: acts, timestamp, cwd: acts };
    const lines = [header, ...entries].map((line) => `${JSON.stringify(line)}\n`);
    const document = exported(treeOf(lines.join("")), { format: "markdown", all: true });
    expect(document).not.toMatch(
      /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/,
    );
    expect(document.isWellFormed()).toBe(true);
    expect(document).toContain("\n## User — abc d e\ufffdf\n\n`1abc d e\ufffdf` · `abc d e\ufffdf`\n");
    expect(JSON.parse(/^cwd: (.*)$/m.exec(document)![1]!)).toBe(acts.toWellFormed());
  });

  it("cuts long results and says by how much, never within a code point", async () => {
    const { session } = await growTree("u1 > c1*");
    await session.append(message.of({ message: resultOf("😀".repeat(3_000)) }));
    const document = exported(session, { format: "markdown" });
    expect(document).toContain("[… 4000 characters left out]");
    expect(document.isWellFormed()).toBe(true);
  });
});

interface Weather extends BaseEntry {
  type: "garden.weather";
  degrees: number;
}

const weather = defineEntry<Weather>("garden.weather", {
  movesLeaf: true,
  toMessages: ({ degrees }) => [{ role: "user", content: `It is ${degrees} degrees.`, timestamp: 0 }],
  draw: ({ degrees }) => `${degrees} °C`,
});

interface Visit extends BaseEntry {
  type: "garden.visit";
  guest: string;
}

const visit = defineEntry<Visit>("garden.visit", {
  movesLeaf: true,
  draw: ({ guest }) => `${guest} was here.`,
});

const resultOf = (text: string): StoredMessage => ({
  role: "toolResult",
  toolCallId: "c1-1",
  toolName: "read",
  content: [{ type: "text", text }],
  isError: false,
  timestamp: 0,
});

interface Step {
  what: "user" | "answer" | "label" | "compact" | "move" | "name" | "edit";
  at: number;
  text: string;
}

/** What happens to a session in its life. */
const life: fc.Arbitrary<Step[]> = fc.array(
  fc.record({
    what: fc.constantFrom("user", "answer", "answer", "label", "compact", "move", "name", "edit"),
    at: fc.nat(),
    text: fc.string({ unit: "binary", maxLength: 20 }),
  }) as fc.Arbitrary<Step>,
  { minLength: 1, maxLength: 25 },
);

/** A session that lives through it, beginning with a question. */
async function live(steps: readonly Step[]): Promise<SessionTree> {
  const store = memoryStore();
  const session = await SessionTree.open(await store.create(HEADER));
  await session.append(message.of({ message: { role: "user", content: "Hello", timestamp: 0 } }));
  for (const step of steps) await takeStep(session, step);
  return session;
}

const HEADER = {
  type: "session",
  version: 3,
  id: "lived",
  timestamp: "2026-01-01T00:00:00.000Z",
  cwd: "/home/me",
} as const;

async function takeStep(session: SessionTree, { what, at, text }: Step): Promise<void> {
  const ids = [...session.tree.ids()];
  const path = session.getBranch();
  const targetId = ids[at % ids.length]!;
  const onPath = path[at % path.length]!.id;
  if (what === "user")
    await session.append(message.of({ message: { role: "user", content: text, timestamp: at } }));
  else if (what === "answer") await session.append(message.of({ message: answerOf(text) }));
  else if (what === "label") await session.append(label.of({ targetId, label: text }));
  else if (what === "compact") await session.appendCompaction(text, onPath, at);
  else if (what === "move") await session.moveTo(targetId);
  else if (what === "name") await session.append(sessionInfo.of({ name: text }));
  else await session.append(contextEdit.of({ targetId: onPath, replacement: { content: text } }));
}

const answerOf = (text: string): StoredMessage => ({
  role: "assistant",
  content: [
    { type: "thinking", thinking: `About ${text}`, thinkingSignature: "c2lnbmVk" },
    { type: "text", text: `Because ${text}` },
  ],
  provider: "anthropic",
  model: "claude-test",
  stopReason: "stop",
  timestamp: 0,
});

/** The same log, opened by somebody else. */
function reopened(session: SessionTree): Promise<SessionTree> {
  const view = session.log.view!;
  return SessionTree.open(memoryLog(view.read(0, view.size)));
}

describe("an export of any session", () => {
  it.each(formats)("in %s is the same for a running session and a reopened one", async (format) => {
    await fc.assert(
      fc.asyncProperty(life, fc.boolean(), async (steps, all) => {
        const session = await live(steps);
        const again = await reopened(session);
        const [one, other] = [session, again].map((each) => written(() => exported(each, { format, all })));
        expect(other).toBe(one);
      }),
      { numRuns: 25 },
    );
  });

  it("is not affected by later changes of an appended object", async () => {
    const session = await live([]);
    const said = { role: "user" as const, content: "before", timestamp: 0 };
    await session.append(message.of({ message: said }));
    await session.load();
    said.content = "after";
    for (const format of ["json", "jsonl", "markdown"] as const)
      expect(exported(session, { format })).not.toContain("after");
  });

  it("comes in pieces, also for twenty thousand entries", async () => {
    const lines = [JSON.stringify(HEADER)];
    let parentId: string | null = null;
    for (let number = 0; number < 20_000; number++) {
      const said =
        number % 2 === 0
          ? { role: "user", content: `Question ${number}`, timestamp: 0 }
          : answerOf(`${number}`);
      lines.push(
        JSON.stringify({ type: "message", id: `e${number}`, parentId, timestamp: "", message: said }),
      );
      parentId = `e${number}`;
    }
    const tree = treeOf(`${lines.join("\n")}\n`);
    for (const format of ["json", "markdown", "anthropic"] as const) {
      let pieces = 0;
      let longest = 0;
      for (const piece of exportSession(tree, { format, all: true })) {
        pieces++;
        longest = Math.max(longest, piece.length);
      }
      expect(pieces).toBeGreaterThan(20_000);
      expect(longest).toBeLessThan(1_000);
    }
  });

  it("accepts damaged files", () => {
    fc.assert(
      fc.property(fc.array(fc.nat({ max: 255 }), { maxLength: 40 }), fc.nat(), (noise, at) => {
        const whole = new TextEncoder().encode(DAMAGED_LOG);
        const bytes = Uint8Array.from([
          ...whole.slice(0, at % whole.length),
          ...noise,
          ...whole.slice(at % whole.length),
        ]);
        const tree = new Tree(memoryLog(bytes).view!);
        for (const format of ["json", "jsonl", "markdown"] as const) {
          const text = exported(tree, { format, all: true, redact: (said) => said.toUpperCase() });
          expect(text.isWellFormed()).toBe(true);
          if (format === "json") expect(JSON.parse(text).entries).toHaveLength(tree.length);
        }
      }),
      { numRuns: 200 },
    );
  });
});

const DAMAGED_LOG = [
  HEADER,
  {
    type: "message",
    id: "a",
    parentId: null,
    timestamp: "",
    message: { role: "user", content: [{ type: "text" }, 5] },
  },
  {
    type: "message",
    id: "b",
    parentId: "a",
    timestamp: "",
    message: { role: "assistant", content: [{ type: "toolCall" }, { type: "x.y" }] },
  },
  { type: "message", id: "c", parentId: "b", timestamp: "", message: { role: { toString: 1 } } },
  {
    type: "message",
    id: "d",
    parentId: "c",
    timestamp: "",
    message: { role: "bashExecution", command: { toString: 1 } },
  },
  { type: "compaction", id: "e", parentId: "d", timestamp: "", firstKeptEntryId: "b" },
  {
    type: "context_edit",
    id: "f",
    parentId: "e",
    timestamp: "",
    targetId: "b",
    replacement: { content: { a: 1 } },
  },
  { type: "label", id: "g", parentId: "f", timestamp: "", targetId: "a", label: "\ud800" },
  { type: "unheard_of", id: "h", parentId: "g", timestamp: "", deep: [[["\udfff"]]] },
]
  .map((line) => `${JSON.stringify(line)}\n`)
  .join("");

describe("a redacted export", () => {
  const hide = (text: string) => text.replaceAll("SECRET", "[hidden]");

  it.each(formats)("in %s contains no secret, from any position", async (format) => {
    const session = await secretive();
    expect(exported(session, { format })).toContain("SECRET");
    expect(exported(session, { format, redact: hide, all: true })).not.toContain("SECRET");
  });

  it("opens as a session with the same tree", async () => {
    const session = await secretive();
    const tree = treeOf(exported(session, { format: "jsonl", redact: hide }));
    expect(tree.issues).toEqual([]);
    expect([...tree.ids()]).toEqual([...session.tree.ids()]);
    const shape = ({ type, id, parentId, timestamp }: Entry) => ({ type, id, parentId, timestamp });
    expect([...tree.entries()].map(shape)).toEqual([...session.tree.entries()].map(shape));
  });

  it("is not called for ids, names of tools and models, signatures, or images", async () => {
    const session = await secretive();
    const asked = new Set<string>();
    const note = (text: string): string => {
      asked.add(text);
      return text;
    };
    for (const format of formats) exported(session, { format, all: true, redact: note });
    for (const kept of [
      ...session.tree.ids(),
      "toolu_1",
      "read",
      "c2lnbmVk",
      "b3BhcXVl",
      "ZW5j",
      "Y21w",
      "srvtoolu_1",
      PNG,
      "image/png",
      "anthropic",
      "claude-test",
    ])
      expect(asked).not.toContain(kept);
    for (const said of [
      "Say SECRET",
      "/home/SECRET",
      "SECRET.txt",
      "the SECRET result",
      "label SECRET",
      "name SECRET",
    ])
      expect(asked).toContain(said);
  });

  it("leaves out a signature of changed reasoning, and sends no reasoning after a change", async () => {
    const session = await secretive();
    const before: SessionDocument = JSON.parse(exported(session, { format: "json" }));
    const after: SessionDocument = JSON.parse(exported(session, { format: "json", redact: hide }));
    const thoughts = ({ entries }: SessionDocument) =>
      JSON.stringify(entries).match(/"thinkingSignature"/g)?.length ?? 0;
    expect(thoughts(before)).toBe(4);
    expect(thoughts(after)).toBe(2);
    expect(exported(session, { format: "anthropic" })).toContain("c2lnbmVk");
    expect(exported(session, { format: "anthropic", redact: hide })).not.toContain("c2lnbmVk");
  });

  it("without secrets equals the plain export", async () => {
    const session = await live([{ what: "answer", at: 0, text: "so" }]);
    for (const format of formats)
      expect(exported(session, { format, redact: hide })).toBe(exported(session, { format }));
  });
});

/** A session with a secret in every field that somebody can have said something in. */
async function secretive(): Promise<SessionTree> {
  const store = memoryStore();
  const session = await SessionTree.open(await store.create({ ...HEADER, cwd: "/home/SECRET" }));
  const item = {
    type: "reasoning",
    id: "rs_1",
    summary: [{ type: "summary_text", text: "SECRET" }],
    encrypted_content: "ZW5j",
  };
  const messages = [
    {
      role: "system",
      content: "SECRET rules",
      toolsAdded: [
        {
          name: "read",
          description: "SECRET",
          parameters: { type: "object", properties: { path: { type: "string", description: "SECRET" } } },
        },
      ],
      timestamp: 0,
    },
    {
      role: "user",
      content: [
        { type: "text", text: "Say SECRET" },
        { type: "image", data: PNG, mimeType: "image/png" },
        {
          type: "anthropic.document",
          native: {
            format: "anthropic",
            value: {
              type: "document",
              source: { type: "text", media_type: "text/plain", data: "SECRET" },
              title: "SECRET",
            },
          },
        },
      ],
      timestamp: 0,
    },
    {
      role: "assistant",
      provider: "anthropic",
      model: "claude-test",
      content: [
        { type: "thinking", thinking: "SECRET thought", thinkingSignature: "c2lnbmVk" },
        { type: "thinking", thinking: "", thinkingSignature: "b3BhcXVl", redacted: true },
        { type: "thinking", thinking: "Summary", thinkingSignature: JSON.stringify(item) },
        {
          type: "anthropic.server_tool_use",
          native: {
            format: "anthropic",
            value: {
              type: "server_tool_use",
              id: "srvtoolu_1",
              name: "web_search",
              input: { query: "SECRET" },
            },
          },
        },
        { type: "text", text: "SECRET answer" },
        {
          type: "toolCall",
          id: "toolu_1",
          name: "read",
          arguments: { path: "SECRET.txt", more: ["SECRET"] },
        },
      ],
      stopReason: "toolUse",
      errorMessage: "SECRET",
      timestamp: 0,
    },
    {
      role: "toolResult",
      toolCallId: "toolu_1",
      toolName: "read",
      content: [{ type: "text", text: "the SECRET result" }],
      details: { path: "SECRET" },
      isError: false,
      timestamp: 0,
    },
    { role: "bashExecution", command: "echo SECRET", output: "SECRET", timestamp: 0 },
  ] as unknown as StoredMessage[];
  await session.append(messages.map((said) => message.of({ message: said })));
  const [first] = [...session.tree.ids()];
  const more: NewEntry[] = [
    label.of({ targetId: first!, label: "label SECRET" }),
    sessionInfo.of({ name: "name SECRET" }),
    custom.of({ customType: "x", data: { note: "SECRET", about: first } }),
    customMessage.of({ customType: "x", content: "SECRET note", display: true, details: { path: "SECRET" } }),
    branchSummary.of({
      summary: "SECRET branch",
      fromId: first!,
      details: { readFiles: ["SECRET.md"], opaque: [{ type: "compaction", encrypted_content: "Y21w" }] },
    }),
    contextEdit.of({ targetId: first!, replacement: { content: "SECRET edit" } }),
    { type: "unheard_of", says: "SECRET" } as NewEntry,
  ];
  await session.append(more);
  await session.append(
    message.of({
      message: {
        ...(messages[2] as object),
        content: [
          { type: "thinking", thinking: "Fine", thinkingSignature: "c2lnbmVk" },
          { type: "text", text: "Fine" },
        ],
        errorMessage: undefined,
      } as unknown as StoredMessage,
    }),
  );
  return session;
}
