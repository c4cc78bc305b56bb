// Extensions in the shape of those of the Pi agent, on the command line, in the chat and in the terminal.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startMessagesServer, textReply } from "@espalier/summarizer/testing";
import { afterAll, expect, test } from "vitest";
import { demoCopy, espalier, espalierJson, linesOf, stateOf, temporaryFolder } from "./espalier.ts";
import { hasTmux, Tmux } from "./tmux.ts";

const endings: (() => unknown)[] = [];
afterAll(async () => {
  for (const end of endings.reverse()) await end();
});

/** A file of Pi's shape, in a folder that is a repository of its own. */
function extension(body: string): { file: string; folder: string } {
  const folder = temporaryFolder();
  execFileSync("git", ["init", "-q", folder]);
  const file = join(folder, "own.ts");
  writeFileSync(
    file,
    `import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
export default function (pi: ExtensionAPI) {
${body}
}
`,
  );
  return { file, folder };
}

/** A session whose agent works in this folder. */
function sessionIn(folder: string): string {
  const file = demoCopy();
  const [header, ...rest] = readFileSync(file, "utf8").split("\n");
  writeFileSync(file, [JSON.stringify({ ...JSON.parse(header!), cwd: folder }), ...rest].join("\n"));
  return file;
}

const GUARD = `
  const ask = async (what, ctx) => {
    const { stdout, code } = await pi.exec("git", ["status", "--porcelain"]);
    if (code !== 0 || stdout.trim() === "") return;
    if (!ctx.hasUI) return { cancel: true, reason: "there are changes" };
    const choice = await ctx.ui.select(what + " with changes?", ["Yes, go on", "No, commit first"]);
    if (choice !== "Yes, go on") {
      ctx.ui.notify("Commit first", "warning");
      return { cancel: true, reason: "commit first" };
    }
  };
  pi.on("session_before_fork", (_event, ctx) => ask("Fork", ctx));
  pi.on("session_before_tree", (_event, ctx) => ask("Move", ctx));
  pi.registerCommand("remember", {
    description: "Name the session",
    handler: async (args, ctx) => {
      const name = args || (await ctx.ui.input("Which name?", "a few words"));
      if (!name) return ctx.ui.notify("No name, nothing changed");
      if (!args && !(await ctx.ui.confirm("Really " + name + "?", "It can be changed again."))) return;
      pi.setSessionName(name);
      ctx.ui.setStatus("name", "called " + name);
      ctx.ui.notify("Named " + name);
    },
  });`;

test("a guard cancels a fork and a navigation with its reason and exit code 1, and a command of an extension runs", async () => {
  const { file, folder } = extension(GUARD);
  const session = sessionIn(folder);
  const before = stateOf(session);
  for (const command of ["fork", "navigate"]) {
    const refused = await espalierJson([command, session, "before-cache", "--extension", file]);
    const error = { code: "cancelled", by: file, reason: "there are changes" };
    expect(refused).toMatchObject({ code: 1, value: { error } });
  }
  expect(stateOf(session)).toBe(before);

  const listed = await espalierJson(["run", session, "--extension", file]);
  expect(listed.value).toEqual({
    commands: [{ name: "remember", description: "Name the session", owner: file }],
  });
  const ran = await espalier(["run", session, "remember", "Tide", "tables", "--extension", file]);
  expect(ran).toEqual({ code: 0, stdout: "", stderr: "Named Tide tables\n" });
  expect(linesOf(session).at(-1)).toMatchObject({ type: "session_info", name: "Tide tables" });
  const unknown = await espalierJson(["run", session, "nothing", "--extension", file]);
  expect(unknown).toMatchObject({ code: 1, value: { error: { code: "unknown-command" } } });
  expect(unknown.value.error.message).toContain("there are: remember");
});

test("a guard that calls a missing member cancels with one sentence and exit code 1", async () => {
  const { file } = extension(
    `pi.on("session_before_fork", async (_event, ctx) => ctx.ui.custom(() => {}));
     pi.on("session_before_tree", async (_event, ctx) => ctx.ui.custom(() => {}));`,
  );
  const session = demoCopy();
  for (const command of ["fork", "navigate"]) {
    const { code, stdout, stderr } = await espalier([command, session, "before-cache", "--extension", file]);
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toContain("ctx.ui.custom is not available here");
    expect(stderr).not.toContain("TypeError");
  }
});

test("git commands of a shutdown handler have ended when the command ends", async () => {
  const { file, folder } = extension(`
    pi.on("session_shutdown", async (event, ctx) => {
      const { stdout } = await pi.exec("git", ["status", "--porcelain"]);
      if (stdout.trim() === "") return;
      await pi.exec("git", ["add", "-A"]);
      await pi.exec("git", ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-m", "On " + event.reason]);
    });`);
  await espalier(["run", sessionIn(folder), "--extension", file]);
  expect(execFileSync("git", ["-C", folder, "log", "--format=%s"], { encoding: "utf8" })).toBe("On quit\n");
});

test.skipIf(!hasTmux)(
  "in the chat a command asks for a text and a confirmation and shows its status, and a guard asks before a fork",
  async () => {
    const server = await startMessagesServer({ reply: () => textReply("Ebb.") });
    endings.push(server.close);
    const { file, folder } = extension(GUARD);
    const session = sessionIn(folder);
    const env = {
      ANTHROPIC_API_KEY: "key-of-the-test",
      ANTHROPIC_BASE_URL: server.url,
      ESPALIER_HOME: temporaryFolder(),
    };
    const chat = await Tmux.run(["chat", session, "--extension", file], {
      columns: 120,
      rows: 50,
      cwd: folder,
      env,
    });
    const shows = (text: string) => chat.until(() => chat.history.includes(text), text);
    await shows("/help lists the commands.");
    chat.type("/help");
    await shows("Name the session");
    chat.type("/remember");
    await shows("Which name? (a few words):");
    chat.type("Low water");
    await shows("Really Low water? [y/N]");
    chat.type("y");
    await shows("Named Low water");
    await shows("called Low water");
    chat.type("/fork before-cache");
    await shows("Fork with changes? [1-2]");
    chat.type("2");
    await shows("The fork was cancelled by");
    chat.type("/remember");
    await chat.until(() => chat.history.split("Which name?").length > 2, "the second question");
    chat.keys("C-c");
    await shows("No name, nothing changed");
    chat.type("/quit");
    await shows("To continue: espalier chat");
    chat.end();
  },
  60_000,
);

test.skipIf(!hasTmux)(
  "in the terminal a guard asks in a dialog and follows the answer",
  async () => {
    const { file, folder } = extension(GUARD);
    const session = sessionIn(folder);
    const before = linesOf(session).length;
    const screen = await Tmux.run([session, "--extension", file], { columns: 120, rows: 40, cwd: folder });
    await screen.shows("212 entries");
    screen.keys("<", "}");
    await screen.shows(/▸.*\[before-cache\]/);
    for (const [key, told] of [
      ["2", "The navigation was cancelled by"],
      ["Escape", "The navigation was cancelled by"],
      ["1", "The leaf is at"],
    ] as const) {
      screen.keys("g", "n");
      await screen.shows("Move with changes?");
      await screen.shows("No, commit first");
      expect(linesOf(session)).toHaveLength(before);
      screen.keys(key);
      await screen.shows(told);
    }
    expect(linesOf(session)).toHaveLength(before + 1);
    screen.end();
  },
  60_000,
);
