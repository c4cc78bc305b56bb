import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brokenReply, startMessagesServer, textReply, toolReply } from "@espalier/summarizer/testing";
import { afterAll, expect, test } from "vitest";
import { bundled, espalier, espalierJson, linesOf, temporaryFolder } from "./espalier.ts";

const endings: (() => unknown)[] = [];
afterAll(async () => {
  for (const end of endings) await end();
});

/** A model that reads notes.txt when it is asked for notes, hangs when it is told to, and else says much. */
async function claude(): Promise<string> {
  const server = await startMessagesServer({
    apiKey: "test",
    reply: ({ body }) => {
      const messages = body["messages"] as { content: { type: string; text?: string }[] }[];
      const last = messages.at(-1)!.content.at(-1)!;
      if (last.type === "tool_result") return textReply("The notes say that the **tide** is high.");
      if (last.text?.includes("notes"))
        return toolReply([{ name: "read_file", input: { path: "notes.txt" } }]);
      if (last.text?.includes("for ever")) return brokenReply("I begin to count and do not end", "hang", 1);
      return textReply(`It is so. ${"Waves come and go. ".repeat(1_200)}The end.`, { deltaLength: 4_000 });
    },
  });
  endings.push(server.close);
  return server.url;
}

function place() {
  const home = temporaryFolder();
  writeFileSync(join(home, "notes.txt"), "the tide is high\n");
  return home;
}

const sessionsIn = (home: string): string[] =>
  readdirSync(home, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".jsonl"))
    .map((name) => join(home, name));

test("without a key one sentence says what to set", async () => {
  const { code, stdout, stderr } = await espalier(["chat", "--print", "Hello"]);
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  expect(stderr.trimEnd().split("\n")).toHaveLength(1);
  expect(stderr).toContain("ANTHROPIC_API_KEY");
});

test("--print answers one prompt, with tools, and --json tells the events; the key is nowhere", async () => {
  const home = place();
  const env = { ANTHROPIC_API_KEY: "test", ANTHROPIC_BASE_URL: await claude(), ESPALIER_HOME: home };
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
  expect(JSON.stringify(linesOf(file!))).not.toContain('"test"');
});

const hasTmux = spawnSync("tmux", ["-V"]).status === 0;

// Where tmux is missing there is no terminal to look at.
test.skipIf(!hasTmux)(
  "a person types, interrupts, forks, compacts and quits",
  { timeout: 240_000 },
  async () => {
    const home = place();
    const url = await claude();
    const socket = `espalier-${process.pid}`;
    const tmux = (...parameters: string[]) =>
      execFileSync("tmux", ["-L", socket, ...parameters], { encoding: "utf8" });
    const command = `cd ${home} && env NO_COLOR=1 ESPALIER_HOME=${home} ANTHROPIC_API_KEY=test ANTHROPIC_BASE_URL=${url} ${process.execPath} ${await bundled()} chat; echo "left with $?"; cat`;
    tmux("-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "50", command);
    endings.push(() => tmux("kill-server"));
    const shows = async (text: string | RegExp) => {
      const end = Date.now() + 60_000;
      for (;;) {
        const screen = tmux("capture-pane", "-p", "-J", "-S", "-200");
        if (typeof text === "string" ? screen.includes(text) : text.test(screen)) return;
        if (Date.now() > end) throw new Error(`The screen never showed ${text}:\n${screen}`);
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    };
    const type = (text: string) => {
      tmux("send-keys", "-l", text);
      tmux("send-keys", "Enter");
    };

    await shows("/help lists the commands.");
    type("What do the notes say?");
    await shows("• read_file path=notes.txt");
    await shows("The notes say that the **tide** is high.");
    await shows(/claude-\S+ · [\d,]+ of [\d,]+ tokens \(\d+ %\) · \$\d/);
    type("/help");
    await shows("/compact         Compress conversation history");
    type("/compact");
    await shows("Nothing to compact");
    type("Count for ever.");
    await shows("I begin to count");
    tmux("send-keys", "C-c");
    await shows("(aborted)");
    type("/fork");
    await shows(/Forked to \S+/);
    for (const word of ["One", "Two", "Three", "Four", "Five"]) {
      type(`${word} more tale, please.`);
      await shows(new RegExp(`${word} more tale[\\s\\S]*The end\\.[\\s\\S]*%\\)`));
      tmux("send-keys", "C-l");
      tmux("clear-history");
    }
    type("/compact");
    await shows(/✅ Compacted: [\d,]+ → [\d,]+ tokens/);
    await shows(/ {3}Freed [\d,]+ tokens, removed 0 offloaded files/);
    type("/quit");
    await shows("left with 0");
    expect(sessionsIn(home)).toHaveLength(2);
  },
);
