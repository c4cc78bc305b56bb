import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { openSession } from "@espalier/engine";
import { hangingReply, startMessagesServer } from "@espalier/summarizer/testing";
import { afterAll, expect, test } from "vitest";
import {
  bundled,
  DEMO,
  demoCopy,
  espalier,
  espalierJson,
  HEADER,
  linesOf,
  said,
  sessionOf,
  temporaryFolder,
} from "./espalier.ts";
import { hasTmux, Tmux } from "./tmux.ts";

const LARGE = fileURLToPath(new URL("../../../../shared/corpus/pi/large-session.jsonl", import.meta.url));
if (!existsSync(LARGE))
  console.warn(`${LARGE} is not here: the terminal is tested on the demo session alone.`);

const endings: (() => unknown)[] = [];
afterAll(async () => {
  for (const end of endings) await end();
});

/** A home of Espalier with one session in it. */
function homeWith(session: string): { home: string; file: string } {
  const home = temporaryFolder();
  mkdirSync(join(home, "sessions/boats"), { recursive: true });
  const file = join(home, "sessions/boats/2026-03-08_tidepool.jsonl");
  copyFileSync(session, file);
  return { home, file };
}

const treeOf = async (file: string) => (await espalierJson(["tree", file])).value;
const entryOf = (tree: Awaited<ReturnType<typeof treeOf>>, id: string) =>
  tree.entries.find((entry: { id: string }) => entry.id === id);

test.skipIf(!hasTmux)("a session is found by its text, navigated and changed", async () => {
  const { home, file } = homeWith(DEMO);
  const before = await treeOf(file);
  const screen = await Tmux.run([], { env: { ESPALIER_HOME: home, PI_CODING_AGENT_DIR: join(home, "pi") } });
  // A time more than a week ago is a date, as in `espalier list`.
  await screen.shows(/tidepool works offline.* espalier +tidepool +2026-03-0\d +\$1\.34/);

  // Search as one types; what is found opens where it was said.
  screen.write("/sum of cosines");
  await screen.shows(/the tide at a place is a sum of cosines/i);
  screen.keys("Down", "Enter");
  await screen.shows(/▸.*sum of cosines/i);
  await screen.shows("212 entries · 6 branches");

  // Fold a branch, go to a label, see what the model reads there.
  screen.keys("Left");
  await screen.shows(/├─· .*▸▸\d/);
  screen.keys("Right", "<", "}");
  await screen.shows(/▸.*\[before-cache\]/);
  screen.keys("2");
  await screen.shows(/12 messages, 3,857 tokens/);
  screen.keys("3");
  await screen.shows(/4 calls/);
  screen.keys("1");

  // Go there with a summary of what is left.
  screen.keys("g");
  await screen.shows("with a summary of the abandoned branch");
  screen.keys("s");
  await screen.shows("The leaf is at");
  await screen.shows(/▸● ⇠ +summary of/);
  const there = await treeOf(file);
  const label = before.entries.find((entry: { label: string }) => entry.label === "before-cache");
  expect(entryOf(there, there.leafId)).toMatchObject({
    type: "branch_summary",
    parentId: label.id,
    onPath: true,
  });

  // Undo it: the leaf is where it was.
  screen.keys("u");
  await screen.shows("U restores it");
  screen.keys("u");
  await screen.shows("Undone: the navigation or merge with a summary");
  expect((await treeOf(file)).leafId).toBe(before.leafId);

  // Label and name.
  screen.keys("<", "l");
  await screen.shows("Label of this entry");
  screen.type("the beginning");
  await screen.shows("[the beginning]");
  screen.keys("R", "C-u");
  screen.type("Tides, told anew");
  await screen.shows("Tides, told anew");
  const named = await treeOf(file);
  expect(named.session.name).toBe("Tides, told anew");
  expect(named.entries.some((entry: { label: string }) => entry.label === "the beginning")).toBe(true);

  // Compare a branch with the path, and bring its conclusion there.
  screen.keys("]", "]", "]", "d");
  await screen.shows("Two branches, from their common ancestor");
  await screen.shows(/common ancestor:/);
  await screen.escape("common ancestor");
  screen.keys("M");
  await screen.shows("append its conclusion at the leaf");
  screen.keys("Enter");
  await screen.shows("The conclusion of the branch of");
  const merged = await treeOf(file);
  expect(entryOf(merged, merged.leafId)).toMatchObject({ type: "branch_summary", parentId: before.leafId });

  // Fork, and open the fork.
  screen.keys("<", "}", "F");
  await screen.shows("open the fork");
  screen.keys("o");
  await screen.shows(/Tides, told anew.* 1 branch /);
  expect((await treeOf(file)).leafId).toBe(merged.leafId);
  screen.keys("Escape");
  await screen.shows("2 sessions");
  screen.keys("Escape");
  await screen.shows(/updated +cost/);
  screen.keys("q");
  await screen.shows(`${Tmux.LEFT} 0`);
});

test.skipIf(!hasTmux)("the list of sessions is filtered by date and by project", async () => {
  const home = temporaryFolder();
  mkdirSync(join(home, "sessions/all"), { recursive: true });
  for (const [id, back, project] of [
    ["now", 0, "boats"],
    ["days", 5, "gardens"],
    ["weeks", 20, "boats"],
  ] as const) {
    const timestamp = new Date(Date.now() - back * 86_400_000).toISOString();
    const lines = [
      { ...HEADER, id, timestamp, cwd: `/home/me/${project}` },
      { ...said("u1", null, `Question of ${id}`), timestamp },
    ];
    const text = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
    writeFileSync(join(home, "sessions/all", `${id}.jsonl`), text);
  }
  const screen = await Tmux.run([], { env: { ESPALIER_HOME: home, PI_CODING_AGENT_DIR: join(home, "pi") } });
  const shown = async (...ids: string[]) => {
    const texts = await screen.until(
      (text) =>
        text.includes(`${ids.length} session${ids.length === 1 ? "" : "s"} `) && !text.includes("Show only"),
      `the sessions ${ids.join(", ")}`,
    );
    return expect([...texts.matchAll(/Question of (\w+)/g)].map(([, id]) => id)).toEqual(ids);
  };
  const filter = async (key: string, answer: string) => {
    screen.keys("f");
    await screen.shows("Show only sessions");
    screen.keys(key);
    await screen.shows(/Since|Until|Project:/);
    screen.keys("C-u");
    screen.type(answer);
  };
  await screen.shows("3 sessions");
  await shown("now", "days", "weeks");
  await screen.shows(/Question of days .* 5 days/);
  await screen.shows(/Question of weeks .* \d{4}-\d\d-\d\d/);
  await filter("s", "2w");
  await shown("now", "days");
  expect(screen.screen).toMatch(/2 sessions · since \d{4}-\d\d-\d\d/);
  await filter("u", "2d");
  await shown("days");
  await filter("s", "");
  await shown("days", "weeks");
  await filter("p", "boats");
  await shown("weeks");
  expect(screen.screen).toMatch(/until \d{4}-\d\d-\d\d.*in boats/);
  await filter("s", "last week");
  await screen.shows("last week is not a time; type for example 1w.");
  screen.keys("f", "x");
  await shown("now", "days", "weeks");
  screen.keys("q");
  await screen.shows(`${Tmux.LEFT} 0`);
});

test.skipIf(!hasTmux)("undo and redo of labels and names, the newest first", async () => {
  const screen = await Tmux.run([demoCopy()]);
  await screen.shows("212 entries");
  screen.keys("l");
  await screen.shows("Label of this entry");
  screen.keys("C-u");
  screen.type("high water");
  await screen.shows(/▸.*\[high water\]/);
  screen.keys("R", "C-u");
  screen.type("Springs and neaps");
  await screen.shows(/^ Springs and neaps/);
  // The first undo is confirmed; the later ones are not.
  screen.keys("u");
  await screen.shows(/The name[\s\S]*u {2}undo it/i);
  screen.keys("u");
  await screen.shows(/^ tidepool works offline/);
  expect(screen.screen).toContain("[high water]");
  screen.keys("u");
  await screen.until((shown) => /▸.*\[ready-to-release\]/.test(shown), "the earlier label");
  screen.keys("U");
  await screen.shows(/▸.*\[high water\]/);
  expect(screen.screen).toMatch(/^ tidepool works offline/);
  screen.keys("U");
  await screen.shows(/^ Springs and neaps/);
  screen.keys("U");
  await screen.shows("There is nothing to redo");
  screen.keys("q");
  await screen.shows(`${Tmux.LEFT} 0`);
});

test.skipIf(!hasTmux)(
  "an undo takes back only the action that it named, and then asks about a newer one",
  async () => {
    const file = demoCopy();
    const screen = await Tmux.run([file]);
    await screen.shows("212 entries");
    screen.keys("u");
    await screen.shows(/Undo the [\s\S]*u {2}undo it/);
    await espalierJson(["name", file, "Springs and neaps"]);
    screen.keys("u");
    await screen.shows(/The newest action is now the name[\s\S]*undone\. Undo the name “Springs and neaps”/);
    expect((await treeOf(file)).session.name).toBe("Springs and neaps");
    screen.keys("u");
    await screen.shows("Undone: the name “Springs and neaps”");
    screen.keys("q");
    await screen.shows(`${Tmux.LEFT} 0`);
  },
);

test.skipIf(!hasTmux)("delete asks on a terminal, and deletes nothing without a yes", async () => {
  const file = demoCopy();
  for (const answer of ["Enter", "C-d", "C-c"]) {
    const screen = await Tmux.run(["delete", file]);
    await screen.shows(/Delete [\s\S]*\? \[y\/N\]/);
    screen.keys(answer);
    await screen.shows(new RegExp(`^Nothing was deleted\\.\\n${Tmux.LEFT} 1$`, "m"));
    expect(existsSync(file)).toBe(true);
  }
  const screen = await Tmux.run(["delete", file]);
  await screen.shows(/Delete [\s\S]*\? \[y\/N\]/);
  screen.type("y");
  await screen.shows(`${Tmux.LEFT} 0`);
  expect(existsSync(file)).toBe(false);
});

test.skipIf(!hasTmux)("a prompt is reopened, edited and appended", async () => {
  const file = demoCopy();
  const screen = await Tmux.run([file], { columns: 120, rows: 30 });
  await screen.shows("212 entries");
  screen.keys("/");
  screen.type("Windows is red");
  await screen.shows(/▸.*Windows is red/);
  const { entries } = await treeOf(file);
  const prompt = entries.find(
    (entry: { preview: string; role: string }) =>
      entry.role === "user" && entry.preview?.startsWith("Windows is red"),
  );
  screen.keys("g", "n");
  await screen.shows("Edit the message");
  expect((await treeOf(file)).leafId).toBe(prompt.parentId);
  screen.write(" And on Solaris?");
  screen.keys("C-s");
  await screen.shows("Appended as the next prompt.");
  const { leafId, entries: now } = await treeOf(file);
  const appended = now.find((entry: { id: string }) => entry.id === leafId);
  expect(appended).toMatchObject({ role: "user", parentId: prompt.parentId });
  expect(readFileSync(file, "utf8")).toContain("And on Solaris?");

  // It is kept from the model by one key, and shown again by the same.
  screen.keys("H");
  await screen.shows("is hidden; the model reads");
  const [hiding] = linesOf(file).slice(-1);
  expect(hiding).toMatchObject({ type: "context_edit", targetId: leafId, replacement: null });
  await screen.shows(/▸○ you .*Windows is red.* hidden /);
  screen.keys("H");
  await screen.shows("is read by the model");
  await screen.shows(/▸● you .*Windows is red/);
});

test.skipIf(!hasTmux || !existsSync(LARGE))(
  "a compaction is planned, aborted without a trace, and run",
  async () => {
    const file = join(temporaryFolder(), "large.jsonl");
    copyFileSync(LARGE, file);
    const server = await startMessagesServer({
      apiKey: "test",
      reply: hangingReply(),
    });
    endings.push(server.close);
    const env = { ANTHROPIC_API_KEY: "test", ANTHROPIC_BASE_URL: server.url };
    const asked = await Tmux.run([file], { env });
    await asked.shows("1,018 entries");
    const before = readFileSync(file);
    asked.keys("c");
    await asked.shows(/A compaction would reduce the context from 124,661 to about/);
    await asked.shows("which is billed");
    asked.keys("y");
    await asked.shows(/compacting … \d+ s/);
    for (const end = Date.now() + 30_000; server.requests.length === 0 && Date.now() < end; )
      await new Promise((resolve) => setTimeout(resolve, 50));
    // One can go on reading meanwhile.
    asked.keys("<", "2");
    await asked.shows(/\d+ message/);
    asked.keys("Escape");
    await asked.shows("Aborted; the session continues where it was.");
    expect(readFileSync(file).equals(before)).toBe(true);
    expect(existsSync(`${file}.lease`)).toBe(false);
    asked.keys("q");
    await asked.shows(`${Tmux.LEFT} 0`);

    const made = await Tmux.run([file]);
    await made.shows("1,018 entries");
    made.keys("c");
    await made.shows("extractive writes the summary");
    made.keys("y");
    await made.shows(/▸.*compaction of 124,661 tokens/);
    const { leafId, entries } = await treeOf(file);
    const compacted = entries.findLast((entry: { type: string }) => entry.type === "compaction");
    expect(compacted.onPath).toBe(true);
    expect(leafId).toBe(entries.at(-1).id);
    made.keys("2");
    await made.shows(/The compaction \S+ replaces [\d,]+ older entries/);
  },
);

test.skipIf(!hasTmux)(
  "entries of another process appear, and while it writes the user has a choice",
  async () => {
    const file = demoCopy();
    const holder = await openSession({ file });
    const home = temporaryFolder();
    try {
      const screen = await Tmux.run([file], { env: { ESPALIER_HOME: home } });
      await screen.shows("212 entries");
      await holder.appendMessages([{ role: "user", content: "Somebody else is here" }]);
      await screen.shows(/▸● you +Somebody else is here/);
      const before = readFileSync(file);
      screen.keys("u");
      await screen.shows("U restores it");
      screen.keys("u");
      await screen.shows("Another process writes this session");
      screen.keys("w");
      await screen.until((shown) => !shown.includes("Another process writes"), "the tree again");
      screen.keys("u");
      await screen.shows("fork: make the change in a new session");
      screen.keys("f");
      await screen.shows("open the fork");
      expect(readFileSync(file).equals(before)).toBe(true);
      screen.keys("s");
      await screen.until((shown) => !shown.includes("open the fork"), "the tree again");
      screen.keys("u");
      await screen.shows("share: both write, each on its own branch");
      screen.keys("s");
      await screen.shows("Undone: the prompt “Somebody else is here”");
      expect(readFileSync(file).length).toBeGreaterThan(before.length);
    } finally {
      await holder.close();
    }
  },
);

test.skipIf(!hasTmux)(
  "the terminal is restored on suspend, after a resize, and when the program is ended by a signal",
  async () => {
    const file = demoCopy();
    const screen = await Tmux.run([file, "--ascii"]);
    await screen.shows("212 entries");
    expect(screen.isTaken).toBe(true);
    await screen.until((shown) => /^[\n -~]*$/.test(shown), "nothing but ASCII");
    screen.resize(60, 18);
    await screen.until(
      (shown) => shown.split("\n").some((line) => line.startsWith(">") && line.length <= 60),
      "the cursor",
    );
    screen.resize(130, 40);
    await screen.shows(/turns\s*\n.*\| -\[1 what was said\]/);
    screen.keys("C-z");
    await screen.shows("Stopped");
    expect(screen.isTaken).toBe(false);
    screen.type("fg");
    await screen.shows("212 entries");
    await screen.until(() => screen.isTaken, "the whole screen");
    screen.keys("<");
    await screen.shows(/^>o you/m);
    screen.keys("C-z");
    // The first one is on the shell's screen already, before the shell has the terminal again.
    await screen.shows(/Stopped[\s\S]*Stopped/);
    screen.type("kill %1; fg; echo over with $?");
    await screen.shows("over with 143");
    expect(screen.isTaken).toBe(false);
  },
);

test.skipIf(!hasTmux)("what the console prints is shown in the last row of the terminal", async () => {
  const extension = join(temporaryFolder(), "talks.mjs");
  writeFileSync(
    extension,
    'export default (api) => void setInterval(() => console.log("high\\ntide"), 50);\n',
  );
  const screen = await Tmux.run([demoCopy(), "--extension", extension], { columns: 120, rows: 40 });
  await screen.shows("212 entries");
  screen.keys("l");
  await screen.shows("Label of this entry");
  screen.type("spring");
  const shown = await screen.shows("high tide");
  expect(shown.split("\n")[0]).toContain("213 entries");
  expect(shown.trimEnd().split("\n").at(-1)).toBe(" high tide");
});

test.skipIf(!hasTmux).each([
  ["an exception that nobody catches", "setTimeout(() => { throw new Error('lost in a timer'); })"],
  ["a promise that nobody waits for", "void Promise.reject(new Error('lost in a timer'))"],
])("the terminal is restored after %s", async (_, fault) => {
  const file = demoCopy();
  const extension = join(temporaryFolder(), "faulty.mjs");
  // What an extension begins and forgets fails outside of everything that the program watches over.
  writeFileSync(extension, `export default () => void ${fault};\n`);
  const screen = await Tmux.run([file, "--extension", extension], { columns: 120, rows: 40 });
  await screen.shows("212 entries");
  expect(screen.isTaken).toBe(true);
  expect(screen.modes).toEqual({ isCursorShown: false, hearsMouse: true });
  screen.keys("l");
  await screen.shows("Label of this entry");
  screen.type("the last act");
  await screen.shows(`${Tmux.LEFT} 1`);
  expect(screen.isTaken).toBe(false);
  expect(screen.screen).toMatch(/lost in a timer/);
  expect(screen.screen).not.toMatch(/^ +at /m);
  // Lines are edited and shown again, the cursor too; the mouse is the terminal's own.
  screen.type("echo the shell is $((40 + 2))");
  await screen.shows("the shell is 42");
  expect(screen.modes).toEqual({ isCursorShown: true, hearsMouse: false });
  screen.type("stty -a | grep -o -w -e '-icanon' -e '-echo' | wc -l | sed 's/^/switched off: /'");
  await screen.shows(/switched off: +0/);
});

test("without a terminal the help is printed, and for a session a command that prints it", async () => {
  const alone = await espalier([]);
  expect(alone).toMatchObject({ code: 0, stderr: "" });
  expect(alone.stdout).toContain("open");
  const named = await espalier([DEMO]);
  expect(named).toMatchObject({ code: 2, stdout: "" });
  expect(named.stderr).toContain("espalier tree");
  expect((await espalier(["opne"])).stderr).toMatch(/^Unknown command 'opne'/);
});

const claudeLine = (uuid: string, parentUuid: string | null, message: object, sessionId = "claude-1") => ({
  type: (message as { role: string }).role,
  uuid,
  parentUuid,
  sessionId,
  timestamp: "2026-01-01T00:00:00.000Z",
  cwd: "/home/me/tides",
  message,
});

test.skipIf(!hasTmux)(
  "a first start imports sessions of other agents; the list is filtered and searched, bookkeeping is folded",
  async () => {
    const home = temporaryFolder();
    const project = join(home, ".claude/projects/-home-me-tides");
    mkdirSync(project, { recursive: true });
    const text = (lines: readonly object[]) => lines.map((line) => `${JSON.stringify(line)}\n`).join("");
    const reminder = "<system-reminder>Be brief.</system-reminder>";
    writeFileSync(
      join(project, "claude-1.jsonl"),
      text([
        claudeLine("u1", null, { role: "user", content: "Which way is the tide?" }),
        claudeLine("a1", "u1", {
          role: "assistant",
          content: [{ type: "text", text: "The tide is **out**." }],
        }),
        claudeLine("u2", "a1", { role: "user", content: "And the moon?" }),
        claudeLine("a2", "u2", {
          role: "assistant",
          content: [{ type: "text", text: "Behind a tide table." }],
        }),
        claudeLine("u3", "a2", { role: "user", content: reminder }),
      ]),
    );
    const env = { HOME: home, ESPALIER_HOME: join(home, ".espalier"), PI_CODING_AGENT_DIR: join(home, "pi") };
    const screen = await Tmux.run([], { env });
    await screen.shows(/Found on this machine: 1 Claude Code session\.\s+Press i to import them/);
    screen.keys("i");
    await screen.shows("Imported: 1 session, 5 new entries.");
    await screen.shows(/▸ Which way is the tide\? +claude-code +tides/);
    screen.keys("f", "o");
    await screen.shows("No session matches the filter; f changes it.");
    screen.keys("f", "c");
    await screen.shows(/1 session · claude-code[\s\S]*▸ Which way/);

    // It opens on what was said last; what an agent keeps for itself comes with a key.
    screen.keys("Enter");
    await screen.shows(/▸● model Behind a tide table\. .*\*/);
    expect(screen.screen).not.toContain("system-reminder");
    screen.keys("b");
    await screen.shows("system-reminder");
    screen.keys("b");
    await screen.until((shown) => !shown.includes("system-reminder"), "no bookkeeping");

    screen.write("/tide");
    await screen.shows(/\/tide.* of 3/);
    screen.keys("Enter");
    await screen.shows(/Place \d of 3 with tide/);
    screen.keys("n");
    await screen.shows(/Place 1 of 3 with tide[\s\S]*/);
    await screen.shows(/▸● you +Which way/);
    screen.keys("Escape");
    await screen.until((shown) => !shown.includes("with tide"), "no search");
    await screen.shows(/▸● you +Which way/);
    screen.keys("Escape");
    await screen.shows("1 session · claude-code");
    screen.keys("?");
    await screen.shows("Signs and keys");
    screen.keys("q", "q");
    await screen.shows(`${Tmux.LEFT} 0`);
  },
  180_000,
);

test.skipIf(!hasTmux)("the usage of a session includes the cost of its sub-agents", async () => {
  const home = temporaryFolder();
  mkdirSync(join(home, "sessions"));
  const put = (id: string, total: number, parent?: string) => {
    const cost = { input: total, output: 0, cacheRead: 0, cacheWrite: 0, total };
    const usage = { input: 100, output: 3, cacheRead: 0, cacheWrite: 0, totalTokens: 103, cost };
    const link =
      parent === undefined ? {} : { parent: { sessionId: parent, entryId: null, kind: "subagent" } };
    const content = [{ type: "text", text: "Done." }];
    const answer = { role: "assistant", content, provider: "p", model: "m", stopReason: "stop", usage };
    const lines = [
      { ...HEADER, id, ...link },
      { ...said("a1", null, ""), message: answer },
    ];
    const file = join(home, "sessions", `${id}.jsonl`);
    writeFileSync(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    return file;
  };
  const file = put("boss", 1);
  put("scout", 0.5, "boss");
  put("helper", 0.25, "scout");
  const env = { ESPALIER_HOME: home, PI_CODING_AGENT_DIR: join(home, "pi") };
  const screen = await Tmux.run([file], { columns: 100, env });
  await screen.shows(/▸● model Done\./);
  screen.keys("3");
  await screen.shows("2 sub-agents of the session: 2 calls, 206 tokens, $0.7500");
  await screen.shows("with this path: $1.75");
  screen.keys("q");
  await screen.shows(`${Tmux.LEFT} 0`);
});

test.skipIf(!hasTmux)("a terminal that reports 0 columns counts as one of 80", async () => {
  const { home } = homeWith(DEMO);
  const screen = await Tmux.run(["--version"], { env: { ESPALIER_HOME: home } });
  await screen.shows(`${Tmux.LEFT} 0`);
  screen.type(`stty cols 0 rows 0; '${process.execPath}' '${await bundled()}' list; stty size`);
  // A list of fewer columns would cut the title.
  await screen.shows(/tidepool works offline 🌊[\s\S]*^0 0$/m);
  // The interface fills the 80 columns and 24 rows of the terminal that this is.
  screen.type(`clear; '${process.execPath}' '${await bundled()}' '${demoCopy()}'`);
  await screen.shows(/212 entries · 6 branches · turns/);
  await screen.shows(/^ g go here .* \? help {2}q quit$/m);
  expect(screen.screen.trimEnd().split("\n")).toHaveLength(24);
  screen.keys("q");
  await screen.until(() => !screen.isTaken, "the shell");
});

/** A session with blanks that count, a summary of a compaction, and one of a branch. */
function blanksAndSummaries(): string {
  const at = (id: string, parentId: string | null, rest: object) => ({ ...said(id, parentId, ""), ...rest });
  const answer = (content: object[]) => ({
    message: { role: "assistant", content, provider: "p", model: "m", stopReason: "stop", timestamp: 1 },
  });
  const call = {
    type: "toolCall",
    id: "c1",
    name: "write",
    arguments: { text: "    four\n        eight" },
  };
  const result = {
    role: "toolResult",
    toolCallId: "c1",
    toolName: "write",
    content: [{ type: "text", text: "  two\n      six" }],
    isError: false,
    timestamp: 1,
  };
  const summary = "## Goal\n\n- **Sail** to `port`\n- wait for the tide";
  return sessionOf(
    HEADER,
    said("u1", null, "look:\n    indented\n\n# no heading   here"),
    at("a1", "u1", answer([call])),
    at("r1", "a1", { message: result }),
    at("a2", "r1", answer([{ type: "text", text: "Seen." }])),
    at("k1", "a2", {
      type: "compaction",
      summary,
      firstKeptEntryId: "a2",
      tokensBefore: 1_234,
      message: undefined,
    }),
    at("b1", "k1", { type: "branch_summary", summary, fromId: "a2", message: undefined }),
    said("u2", "b1", "And now?"),
  );
}

test.skipIf(!hasTmux)("blanks of prompts, arguments and results are shown as they were written", async () => {
  const screen = await Tmux.run([blanksAndSummaries()], { rows: 40 });
  await screen.shows("And now?");
  screen.keys("<", "Enter", "z");
  const shown = await screen.shows(/^ {14}eight$/m);
  const lines = shown.split("\n").map((text) => text.trimEnd());
  expect(lines).toEqual(expect.arrayContaining(["    indented", "# no heading   here"]));
  expect(lines).toEqual(
    expect.arrayContaining(["          four", "              eight", "    two", "        six"]),
  );
  screen.keys("Escape");
  await screen.shows(/▸.*[●○] /);
  screen.keys("q");
  await screen.shows(`${Tmux.LEFT} 0`);
});

test.skipIf(!hasTmux)(
  "summaries of compactions and branches are rendered, and one row alone is marked",
  async () => {
    const screen = await Tmux.run([blanksAndSummaries()], { rows: 40, env: { NO_COLOR: "" } });
    await screen.shows("And now?");
    for (const [key, row] of [
      ["k", /▸● ⇠/],
      ["k", /▸● ≡/],
    ] as const) {
      screen.keys(key);
      const shown = await screen.until(
        (text) => row.test(text) && text.includes("• Sail to port"),
        "a summary",
      );
      const preview = shown.slice(shown.indexOf("[1 what was said]"));
      expect(preview).toMatch(/^Goal\s*$/m);
      expect(preview).not.toMatch(/\*\*|##|`/);
      const marked = screen.coloured.split("\n").filter((text) => /\u001b\[(?:\d+;)*44m/.test(text));
      expect(marked).toEqual([expect.stringContaining("▸")]);
    }
    screen.keys("q");
    await screen.shows(`${Tmux.LEFT} 0`);
  },
);

test.skipIf(!hasTmux)(
  "the help explains all signs and keys, and no line of it is cut at 80 columns",
  async () => {
    const screen = await Tmux.run([blanksAndSummaries()]);
    await screen.shows("And now?");
    screen.keys("?");
    const pages = [await screen.shows("Signs and keys")];
    expect(pages[0]).toMatch(/● +the model reads this entry/);
    expect(pages[0]).toMatch(/○ +on the path of the leaf, but replaced by a compaction or hidden/);
    expect(pages[0]).toMatch(/\* +the leaf, from which the session continues/);
    expect(pages[0]).toMatch(/≡ {2}⇠ +a compaction, a summary of a branch/);
    expect(pages[0]).toMatch(/┃ +on the right: the part of the tree that is on the screen/);
    while (/PgDn ↓/.test(pages.at(-1)!)) {
      const before = pages.at(-1)!;
      screen.keys("PageDown");
      pages.push(await screen.until((shown) => shown !== before, "the next page"));
    }
    const help = pages.map((page) => page.slice(page.indexOf("Signs and keys"))).join("\n");
    expect(help).not.toContain("…");
    expect(help).toMatch(/u +undo the newest prompt, navigation, compaction, hiding, label or\n +name/);
    expect(help).toMatch(/q .*quit/);
    await screen.escape("Signs and keys");
    screen.keys("q");
    await screen.shows(`${Tmux.LEFT} 0`);
  },
);
