// Results that come late in the chat: what a user has done since then stays, and no error is lost.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { startMessagesServer, textReply } from "@espalier/summarizer/testing";
import { afterAll, expect, test } from "vitest";
import { HEADER, linesOf, said, sessionOf, temporaryFolder } from "./espalier.ts";
import { hasTmux, Tmux } from "./tmux.ts";

const endings: (() => unknown)[] = [];
afterAll(async () => {
  for (const end of endings.reverse()) await end();
});

/**
 * A chat on a session of two prompts, with an extension. Its handlers wait for the gate, a file, by `await gate()`, and
 * so come late.
 */
async function chatWith(body: string) {
  const home = temporaryFolder();
  let answer = () => {};
  const answered = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const server = await startMessagesServer({
    async reply({ body: { messages } }) {
      if (JSON.stringify((messages as unknown[]).at(-1)).includes("Take your time")) await answered;
      return textReply(`Ebb. Flood.${" Waves come and go.".repeat(60)}`);
    },
  });
  endings.push(server.close);
  const file = sessionOf(
    { ...HEADER, cwd: home },
    said("ebb-prompt", null, "What is the ebb?"),
    said("moon-prompt", "ebb-prompt", "What is the moon?"),
  );
  writeFileSync(join(home, "settings.json"), JSON.stringify({ keepRecentTokens: 1 }));
  const gate = join(home, "gate");
  const extension = join(home, "late.ts");
  writeFileSync(
    extension,
    `import { existsSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
const gate = async () => { while (!existsSync(${JSON.stringify(gate)})) await setTimeout(20); };
export default async (api) => {
${body}
};
`,
  );
  const env = {
    ANTHROPIC_API_KEY: "key-of-the-chat-test",
    ANTHROPIC_BASE_URL: server.url,
    OPENAI_API_KEY: "",
    OPENAI_BASE_URL: "",
    ESPALIER_HOME: home,
  };
  const chat = await Tmux.run(["chat", file, "--extension", extension], { cwd: home, env, rows: 40 });
  await chat.shows("/help lists the commands.");
  return { chat, file, answer, open: () => writeFileSync(gate, "") };
}

/** Puts a file in the place of the session's folder, so that the lease in it cannot be removed. */
const FAILS = `
  const { renameSync, writeFileSync } = await import("node:fs");
  const { dirname } = await import("node:path");
  api.on("session_shutdown", ({ file }) => {
    renameSync(dirname(file), dirname(file) + "-away");
    writeFileSync(dirname(file), "");
  });`;

test.skipIf(!hasTmux)(
  "a chat whose session fails to close says why in one sentence and ends with 1",
  async () => {
    for (const command of ["/quit", "/model claude-haiku-4-5"]) {
      const { chat } = await chatWith(FAILS);
      chat.type(command);
      await chat.shows(`${Tmux.LEFT} 1`);
      const shown = chat.history.replace(/\s+/g, " ");
      expect(shown.split("could not be removed")).toHaveLength(2);
      expect(shown).not.toContain("uncaught");
      expect(shown).toContain("To continue: espalier chat");
    }
  },
);

test.skipIf(!hasTmux)("a model that cannot be asked is refused, and the chat continues", async () => {
  const { chat, file } = await chatWith("");
  chat.type("/model openai:");
  await chat.shows("Name a model too: openai:MODEL");
  chat.type("/model openai:gpt-5");
  await chat.shows("Chatting needs a key: set OPENAI_API_KEY");
  chat.type("What is the flood?");
  await chat.shows("Ebb. Flood.");
  expect(linesOf(file).filter((line) => line["type"] === "model_change")).toEqual([]);
});

test.skipIf(!hasTmux)(
  "a prompt that is sent while /model opens the session again returns to the input",
  async () => {
    const { chat, file, open } = await chatWith(`api.on("session_shutdown", gate, { timeoutMs: 600_000 });`);
    chat.type("/model claude-haiku-4-5");
    await chat.shows("› /model claude-haiku-4-5");
    chat.type("What is the flood?");
    await chat.shows("Another command is running; Esc aborts it.");
    await chat.shows(/› What is the flood\?\s*$/);
    open();
    await chat.shows("The model is claude-haiku-4-5");
    expect(linesOf(file).filter((line) => JSON.stringify(line).includes("flood"))).toEqual([]);
    chat.keys("Enter");
    await chat.shows("Ebb. Flood.");
  },
);

test.skipIf(!hasTmux)("a text that is typed during a navigation stays in the input", async () => {
  const { chat, open } = await chatWith(`api.on("session_before_tree", gate, { timeoutMs: 600_000 });`);
  chat.type("/navigate ebb-prompt");
  await chat.shows("› /navigate ebb-prompt");
  chat.write("A new");
  await chat.shows(/› A new\s*$/);
  open();
  await chat.shows("↑ brings it into the input: What is the ebb?");
  chat.write(" thought");
  await chat.shows(/› A new thought\s*$/);
  chat.keys("Up");
  await chat.shows(/› What is the ebb\?\s*$/);
});

test.skipIf(!hasTmux)(
  "a question that is asked when the user has left the chat is asked on the terminal",
  async () => {
    const { chat } = await chatWith(`
    api.on("session_shutdown", async (_, { ui }) => {
      const answer = await ui.input("Save?");
      ui.notify("Answer: " + answer);
    }, { timeoutMs: 600_000 });`);
    chat.keys("C-d");
    await chat.shows("Save?:");
    chat.type("yes");
    await chat.shows("Answer: yes");
    await chat.shows(`${Tmux.LEFT} 0`);
  },
);

test.skipIf(!hasTmux)(
  "a status that an extension sets when a session opens is shown, also after /model",
  async () => {
    const { chat } = await chatWith(`
    api.on("session_start", (_, { ui }) => ui.setStatus("tide", "high water"));`);
    await chat.shows("high water");
    chat.type("/model claude-haiku-4-5");
    await chat.shows("The model is claude-haiku-4-5");
    await chat.shows(/high water\nclaude-haiku-4-5/);
  },
);

test.skipIf(!hasTmux)("a compaction that begins after an answer is shown until it ends", async () => {
  const { chat, open, answer } = await chatWith(
    `api.on("session_before_compact", gate, { timeoutMs: 600_000 });`,
  );
  chat.type("Take your time.");
  await chat.shows("waits for the model");
  chat.type("/compact");
  await chat.shows("compacts");
  answer();
  await chat.shows("Ebb. Flood.");
  // The answer has ended; the compaction goes on.
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect(chat.screen).toContain("Esc aborts it");
  open();
  await chat.until((shown) => !shown.includes("Esc aborts it"), "the end of the compaction");
});

test.skipIf(!hasTmux)("what the console prints is shown above the input of the chat", async () => {
  const { chat } = await chatWith(`
    api.on("session_before_tree", () => console.warn("The tide\\nis \u001b[31mhigh."));`);
  chat.type("/navigate ebb-prompt");
  await chat.shows(/\nThe tide is high\.\nThe leaf is before the first entry.*\n\n.*\n› What is the ebb\?\n/);
});

test.skipIf(!hasTmux)("an answer that cannot be recorded stays apart from the next one", async () => {
  const { chat } = await chatWith(`
    let refused = false;
    api.on("entry_before_append", ({ entry }) => {
      if (refused || entry.message?.role !== "assistant") return;
      refused = true;
      throw new Error("the tide is out");
    }, { critical: true });`);
  chat.type("What is the flood?");
  await chat.shows("the tide is out");
  chat.type("And now?");
  await chat.until((shown) => shown.split("Ebb. Flood.").length === 3, "the second answer");
  await chat.until((shown) => !shown.includes("Esc aborts it"), "its end");
  expect(chat.history).not.toContain("go.Ebb");
});
