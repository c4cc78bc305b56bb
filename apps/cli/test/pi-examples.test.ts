// Pi's example extensions, unchanged: what they do here. Those that need only sessions do what they say.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createAgent, type Tool, textOutput } from "@espalier/agent";
import { scriptedModel } from "@espalier/agent/testing";
import { type CreateOptions, createSession, type Session } from "@espalier/engine";
import { isMessage } from "@espalier/session-tree";
import { scriptedSummarizer } from "@espalier/summarizer/testing";
import { beforeAll, describe, expect, test } from "vitest";
import { demoCopy, espalier, linesOf, temporaryFolder } from "./espalier.ts";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const PACKAGE = "@earendil-works/pi-coding-agent";
/** The version that the bench measures. */
const VERSION: string = JSON.parse(readFileSync(join(ROOT, "bench/package.json"), "utf8")).dependencies[
  PACKAGE
];

/** The folder of Pi's examples, fetched once, without what its package needs; undefined where there is no registry. */
function fetchedExamples(): string | undefined {
  const folder = join(ROOT, "apps/cli/node_modules/.cache/pi", VERSION);
  const examples = join(folder, "package/examples/extensions");
  if (existsSync(examples)) return examples;
  const draft = `${folder}.${process.pid}.tmp`;
  mkdirSync(draft, { recursive: true });
  try {
    const options = { cwd: draft, stdio: "ignore", timeout: 60_000 } as const;
    execFileSync("npm", ["pack", `${PACKAGE}@${VERSION}`], options);
    execFileSync("tar", ["xzf", readdirSync(draft)[0]!, "package/examples"], options);
    renameSync(draft, folder);
  } catch (error) {
    console.warn(`Pi's examples were not fetched, so their tests are skipped: ${(error as Error).message}`);
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
  return existsSync(examples) ? examples : undefined;
}

const examples = fetchedExamples() ?? "";
const fileOf = (name: string): string => {
  const file = join(examples, `${name}.ts`);
  return existsSync(file) ? file : join(examples, name, "index.ts");
};

/** Answers of a person to the dialogs of an extension, and what was shown. */
class Person {
  readonly told: string[] = [];
  readonly asked: string[] = [];
  readonly statuses: (string | undefined)[] = [];
  /** Which of the choices is taken. */
  choice = 0;

  get ui(): NonNullable<CreateOptions["ui"]> {
    const asked = <Answer>(title: string, answer: Answer): Promise<Answer> => {
      this.asked.push(title);
      return Promise.resolve(answer);
    };
    return {
      notify: (message) => this.told.push(message),
      setStatus: (_key, text) => this.statuses.push(text),
      dialogs: {
        confirm: (title) => asked(title, true),
        select: (title, choices) => asked(title, choices[this.choice]),
        input: (title) => asked(title, "typed"),
      },
    };
  }
}

const SUMMARY = "## Goal\nRipe pears.";

/** A session of three turns with an example of Pi, in a folder of its own. */
async function withExample(file: string, options: CreateOptions = {}): Promise<Session> {
  const cwd = temporaryFolder();
  const session = await createSession({
    home: cwd,
    cwd,
    extensions: [file],
    compaction: { keepRecentTokens: 10 },
    summarizer: scriptedSummarizer(SUMMARY),
    log: { warn() {}, error() {} },
    ...options,
  });
  for (const day of ["Monday", "Tuesday", "Wednesday"])
    await session.appendMessages([
      { role: "user", content: `How are the pears on ${day}? ${"Look well. ".repeat(40)}` },
      { role: "assistant", content: [{ type: "text", text: `Riper than before ${day}.\nBy a little.` }] },
    ]);
  return session;
}

const WHO = {
  GIT_AUTHOR_NAME: "Ada",
  GIT_AUTHOR_EMAIL: "ada@example.org",
  GIT_COMMITTER_NAME: "Ada",
  GIT_COMMITTER_EMAIL: "ada@example.org",
};
const git = (cwd: string, ...parameters: string[]): string =>
  execFileSync("git", parameters, { cwd, encoding: "utf8", env: { ...process.env, ...WHO } });

/** A repository with one commit, and a change to it. */
function dirtyRepository(folder = temporaryFolder()): string {
  git(folder, "init", "-q");
  writeFileSync(join(folder, "pears.txt"), "green\n");
  git(folder, "add", "-A");
  git(folder, "commit", "-qm", "Plant pears");
  writeFileSync(join(folder, "pears.txt"), "ripe\n");
  return folder;
}

/** A session file whose agent works in a folder. */
function sessionIn(folder: string): string {
  const file = demoCopy();
  const [header, ...rest] = readFileSync(file, "utf8").split("\n");
  writeFileSync(file, [JSON.stringify({ ...JSON.parse(header!), cwd: folder }), ...rest].join("\n"));
  return file;
}

const lastAnswer = (session: Session) =>
  session.getEntries().findLast((entry) => isMessage(entry, "assistant"))!;

describe.skipIf(examples === "")("Pi's example extensions", () => {
  beforeAll(() => {
    // For the programs that extensions start.
    Object.assign(process.env, WHO);
  });

  test("are all in the table, and each works or names the missing feature in a sentence", async () => {
    const names = readdirSync(examples)
      .map((name) => name.replace(/\.ts$/, ""))
      .filter((name) => existsSync(fileOf(name)))
      .sort();
    const table = readFileSync(join(ROOT, "docs/pi-extensions.md"), "utf8");
    expect([...table.matchAll(/^\| `([\w-]+)`/gm)].map(([, name]) => name).sort()).toEqual(names);
    expect(names).toHaveLength(77);

    const said: string[] = [];
    const unloaded: string[] = [];
    const models: NonNullable<CreateOptions["models"]> = {
      find: (provider, id) => ({ provider, id }),
      complete: async () => ({ content: [{ type: "text", text: "Told." }] }),
    };
    for (const name of names) {
      const say = (text: string) => said.push(`${name}: ${text}`);
      const person = new Person();
      const onReport: CreateOptions["onReport"] = ({ message }) => say(message);
      const opened = withExample(fileOf(name), { ui: person.ui, models, onReport });
      const session = await opened.catch((error: Error) => void say(error.message));
      if (!session) {
        unloaded.push(name);
        continue;
      }
      const acts = [
        ...session.commands.map((command) => () => session.runCommand(command.name)),
        () => session.compact(),
        () => session.fork(session.leafId!),
        () => session.navigate(session.getBranch()[2]!.id),
        () => session.close(),
      ];
      for (const act of acts) await act().catch((error: Error) => say(error.message));
    }
    expect(
      said.filter((text) =>
        /TypeError|is not a function|is not a constructor|of undefined|of null/.test(text),
      ),
    ).toEqual([]);
    expect(unloaded.filter((name) => !table.includes(`| \`${name}\``))).toEqual([]);
    expect(unloaded.length).toBeLessThanOrEqual(11);
  });

  test("auto-commit-on-exit commits the changes when the command ends, with the first words of the last answer", async () => {
    const folder = dirtyRepository();
    const file = sessionIn(folder);
    const ran = await espalier(["run", file, "--extension", fileOf("auto-commit-on-exit")], { env: WHO });
    expect(ran).toMatchObject({ code: 0, stderr: "" });
    const answers = linesOf(file).flatMap(({ message }) => {
      const { role, content } = (message ?? {}) as { role?: string; content?: { text?: string }[] };
      return role === "assistant" ? [(content ?? []).flatMap(({ text }) => text ?? []).join("\n")] : [];
    });
    const [line = ""] = answers.at(-1)!.split("\n");
    const told = line === "" ? "Work in progress" : line;
    const subject = `[pi] ${told.slice(0, 50)}${told.length > 50 ? "..." : ""}`;
    expect(git(folder, "log", "-1", "--format=%s").trim()).toBe(subject);
    expect(git(folder, "status", "--porcelain")).toBe("");

    const person = new Person();
    const cwd = dirtyRepository();
    const session = await withExample(fileOf("auto-commit-on-exit"), { cwd, home: cwd, ui: person.ui });
    await session.close();
    expect(person.told).toEqual(["Auto-committed: [pi] Riper than before Wednesday."]);
  });

  test("bookmark and unbookmark label the last answer and remove the label; session-name sets and shows the name", async () => {
    const file = demoCopy();
    const run = async (example: string, ...parameters: string[]) => {
      const { code, stdout, stderr } = await espalier([
        ...["run", file, ...parameters],
        ...["--extension", fileOf(example)],
      ]);
      expect([code, stdout]).toEqual([0, ""]);
      return stderr.trim();
    };
    expect(await run("bookmark", "bookmark", "low-water")).toBe("Bookmarked as: low-water");
    const answer = linesOf(file).findLast(
      ({ message }) => (message as { role?: string } | undefined)?.role === "assistant",
    );
    expect(linesOf(file).at(-1)).toMatchObject({
      type: "label",
      targetId: answer!["id"],
      label: "low-water",
    });
    expect(await run("bookmark", "unbookmark")).toBe("Removed bookmark: low-water");
    const cleared = linesOf(file).at(-1)!;
    expect([cleared["type"], cleared["targetId"], cleared["label"]]).toEqual([
      "label",
      answer!["id"],
      undefined,
    ]);

    expect(await run("session-name", "session-name", "Tide", "tables")).toBe("Session named: Tide tables");
    expect(await run("session-name", "session-name")).toBe("Session: Tide tables");
    expect(linesOf(file).at(-1)).toMatchObject({ type: "session_info", name: "Tide tables" });
  });

  test("confirm-destructive asks before a fork and follows the answer; without a dialog it allows the fork", async () => {
    const person = new Person();
    const session = await withExample(fileOf("confirm-destructive"), { ui: person.ui });
    const entry = lastAnswer(session).id;
    person.choice = 1;
    await expect(session.fork(entry)).rejects.toMatchObject({ code: "cancelled" });
    expect(person.told).toEqual(["Fork cancelled"]);
    person.choice = 0;
    expect(existsSync((await session.fork(entry)).file)).toBe(true);
    expect(person.asked).toEqual(Array(2).fill(`Fork from entry ${entry.slice(0, 8)}?`));
    // Navigation is no fork to an extension of Pi.
    await session.navigate(entry);
    expect(person.asked).toHaveLength(2);
    await session.close();

    const alone = await withExample(fileOf("confirm-destructive"));
    await alone.fork(lastAnswer(alone).id);
    await alone.close();
  });

  test("dirty-repo-guard prevents a fork from a repository with changes, asks if it can, and allows a clean one", async () => {
    const folder = dirtyRepository();
    const file = sessionIn(folder);
    const parameters = ["fork", file, "before-cache", "--extension", fileOf("dirty-repo-guard")];
    expect((await espalier(parameters)).code).toBe(1);
    git(folder, "commit", "-qam", "Ripen");
    expect((await espalier(parameters)).code).toBe(0);

    const person = new Person();
    const cwd = dirtyRepository();
    const home = temporaryFolder();
    const session = await withExample(fileOf("dirty-repo-guard"), { cwd, home, ui: person.ui });
    person.choice = 1;
    await expect(session.fork(session.leafId!)).rejects.toMatchObject({ code: "cancelled" });
    person.choice = 0;
    await session.fork(session.leafId!);
    expect(person.asked).toEqual(Array(2).fill("You have 1 uncommitted file(s). fork anyway?"));
    expect(person.told).toEqual(["Commit your changes first"]);
    await session.close();
  });

  test("git-checkpoint saves the files of each turn, and a fork while the agent runs restores them", async () => {
    const person = new Person();
    const cwd = dirtyRepository();
    const home = temporaryFolder();
    const session = await withExample(fileOf("git-checkpoint"), { cwd, home, ui: person.ui });
    const pears = join(cwd, "pears.txt");
    let checkpoint = "";
    const tool = (name: string, run: () => Promise<void>): Tool => ({
      name,
      description: name,
      parameters: { type: "object", properties: {} },
      run: async () => {
        await run();
        return textOutput("Done.");
      },
    });
    const tools = [
      tool("ripen", async () => writeFileSync(pears, "golden\n")),
      tool("forget", async () => {
        git(cwd, "checkout", "-q", ".");
        checkpoint = session.getBranch().findLast((entry) => isMessage(entry, "toolResult"))!.id;
        await session.fork(checkpoint);
      }),
    ];
    const model = scriptedModel([
      { calls: [{ id: "c1", name: "ripen", arguments: {} }] },
      { calls: [{ id: "c2", name: "forget", arguments: {} }] },
      { text: "Done." },
    ]);
    await createAgent({ session, model, tools, system: "You tend a garden." }).run("Make them golden.");
    expect(person.asked).toEqual(["Restore code state?"]);
    expect(person.told).toEqual(["Code restored to checkpoint"]);
    expect(readFileSync(pears, "utf8")).toBe("golden\n");
    // Once the run is over there is nothing to restore.
    await session.fork(checkpoint);
    expect(person.asked).toHaveLength(1);
    await session.close();
  });

  test("custom-compaction summarizes everything with its model, or reports that the model is missing", async () => {
    const person = new Person();
    const sent: string[] = [];
    const models: NonNullable<CreateOptions["models"]> = {
      find: (provider, id) => (provider === "google" ? { provider, id } : undefined),
      complete: async (_model, request) => {
        sent.push(JSON.stringify(request.messages));
        return { content: [{ type: "text", text: "The pears ripen by the day." }] };
      },
    };
    const session = await withExample(fileOf("custom-compaction"), { ui: person.ui, models });
    expect(await session.compact()).toMatchObject({
      source: "extension",
      summary: "The pears ripen by the day.",
    });
    expect(sent).toHaveLength(1);
    expect(sent[0]).toContain("<conversation>");
    expect(sent[0]).toContain("How are the pears on Monday?");
    expect(JSON.stringify(session.context.messages)).toContain("The pears ripen by the day.");
    expect(person.told).toEqual([
      "Custom compaction extension triggered",
      expect.stringMatching(
        /^Custom compaction: summarizing \d+ messages \(\d+ tokens\) with gemini-2.5-flash/,
      ),
    ]);
    await session.close();

    const other = new Person();
    const without = await withExample(fileOf("custom-compaction"), { ui: other.ui });
    expect(await without.compact()).toMatchObject({ source: expect.not.stringContaining("extension") });
    expect(other.told.at(-1)).toBe("Could not find Gemini Flash model, using default compaction");
    await without.close();
  });

  test("trigger-compact compacts by its command, and when a turn raises the context above 100,000 tokens", async () => {
    const person = new Person();
    const summarizer = scriptedSummarizer(SUMMARY);
    const session = await withExample(fileOf("trigger-compact"), { ui: person.ui, summarizer });
    await session.runCommand("trigger-compact", "Only the days.");
    expect(person.told).toEqual(["Compaction started", "Compaction completed"]);
    expect(summarizer.requests[0]).toMatchObject({ customInstructions: "Only the days." });

    const model = scriptedModel((_, turn) => ({ text: `Day ${turn}.`, inputTokens: turn * 60_000 }));
    const agent = createAgent({ session, model, tools: [], system: "You tend a garden." });
    const compactions = () => session.getEntries().filter(({ type }) => type === "compaction").length;
    await agent.run("The first day?");
    expect(compactions()).toBe(1);
    await agent.run("The second day?");
    await session.settle();
    expect(compactions()).toBe(2);
    expect(person.told.slice(2)).toEqual(["Compaction started", "Compaction completed"]);
    await session.close();
  });

  test("event-bus, status-line and timed-confirm exchange messages, show a status and ask", async () => {
    const bus = new Person();
    const talking = await withExample(fileOf("event-bus"), { ui: bus.ui });
    await talking.runCommand("emit", "high water");
    expect(bus.told.at(-1)).toBe("Event from /emit command: high water");
    await talking.close();

    const line = new Person();
    const showing = await withExample(fileOf("status-line"), { ui: line.ui });
    const model = scriptedModel([{ text: "Ripe." }]);
    await createAgent({ session: showing, model, tools: [], system: "You tend." }).run("And now?");
    expect(line.statuses.map((text) => text?.replace(/^\W+/, ""))).toEqual([
      "Ready",
      "Turn 1...",
      "Turn 1 complete",
    ]);
    await showing.close();

    const timed = new Person();
    const asking = await withExample(fileOf("timed-confirm"), { ui: timed.ui });
    await asking.runCommand("timed");
    expect(timed.told).toEqual(["Confirmed by user!"]);
    await asking.close();
  });
});
