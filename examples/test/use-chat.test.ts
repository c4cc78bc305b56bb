import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { hasBrowser, startBrowser, type WatchedPage, watchedPage } from "@espalier/viewer/testing";
import { buildSync } from "esbuild";
import { openSession } from "espalier";
import { startMessagesServer, textReply, toolReply } from "espalier/testing";
import { afterAll, expect, test, vi } from "vitest";

/** Far more than it takes: other tests run beside. */
vi.setConfig({ testTimeout: 240_000, hookTimeout: 60_000 });

const folder = mkdtempSync(join(tmpdir(), "espalier-use-chat-"));
const home = join(folder, "home");
const program = join(folder, "server.mjs");
const example = join(import.meta.dirname, "../21-use-chat");

/** Gives the answer to a request: by the last message that a user typed, and by whether the tool has been called. */
type Reply = ReturnType<typeof textReply>;
let reply: (asked: string, isLooked: boolean) => Reply | Promise<Reply> = () => textReply("Pears.");
const model = await startMessagesServer({
  reply({ body }) {
    const messages = body["messages"] as { role: string; content: unknown }[];
    const last = JSON.stringify(messages.at(-1)!.content);
    const asked = messages
      .flatMap(({ content }) => JSON.stringify(content).match(/"text":"[^"]*"/g) ?? [])
      .at(-1);
    return reply(asked ?? "", last.includes("tool_result"));
  },
});

const children = new Set<ChildProcess>();
async function start(): Promise<{ child: ChildProcess; url: string }> {
  const child = spawn(process.execPath, [program], {
    env: {
      ...process.env,
      ESPALIER_HOME: home,
      ANTHROPIC_API_KEY: "test",
      ANTHROPIC_BASE_URL: `${model.url}/v1`,
      PORT: "0",
    },
    stdio: ["ignore", "pipe", "inherit"],
  });
  children.add(child);
  const [said] = (await once(child.stdout!, "data")) as [Buffer];
  return { child, url: `http://127.0.0.1:${/port: (\d+)/.exec(said.toString())![1]}/?chat=ada` };
}
async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  children.delete(child);
  const closed = once(child, "close");
  child.kill(signal);
  return (await closed)[0] as number | null;
}
afterAll(async () => {
  for (const child of children) await end(child, "SIGKILL");
  await model.close();
  rmSync(folder, { recursive: true });
});

/** Texts of the messages that the page shows. */
const shown = ({ page }: WatchedPage) => page.locator("article").locator("p").allInnerTexts();
const say = async ({ page }: WatchedPage, text: string, label = "Send") => {
  await page.getByPlaceholder(label, { exact: true }).fill(text);
  await page.getByRole("button", { name: label, exact: true }).click();
};
const expectShown = (watched: WatchedPage, texts: string[]) =>
  vi.waitFor(async () => expect(await shown(watched)).toEqual(texts), { timeout: 60_000, interval: 50 });
const picker = ({ page }: WatchedPage) => page.locator(".versions");

const shared = { bundle: true, format: "esm" } as const;
buildSync({
  ...shared,
  entryPoints: [join(example, "server.ts")],
  platform: "node",
  outfile: program,
  banner: { js: "import{createRequire as r}from'node:module';const require=r(import.meta.url);" },
});
buildSync({
  ...shared,
  entryPoints: [join(example, "page.tsx")],
  jsx: "automatic",
  define: { "process.env.NODE_ENV": '"production"' },
  outfile: join(folder, "page.js"),
});

test.skipIf(!hasBrowser)(
  "in a browser: tools, edits, versions, a reload during an answer, a killed server",
  async () => {
    const browser = await startBrowser();
    const watched = await watchedPage(browser, { viewport: { width: 900, height: 760 } });
    const { page } = watched;
    let { child, url } = await start();
    try {
      await page.goto(url);

      // An answer with a tool.
      reply = (_, isLooked) =>
        isLooked
          ? textReply("Pears, in the garden.")
          : toolReply([{ name: "look", input: {} }], { text: "Let me look." });
      await say(watched, "What grows here?");
      await expectShown(watched, ["What grows here?", "Let me look.", "Pears, in the garden."]);
      await page.getByText("look: output-available").waitFor();

      // Another one, then its question is edited: a branch.
      reply = () => textReply("Plums.");
      await say(watched, "And there?");
      const before = ["What grows here?", "Let me look.", "Pears, in the garden."];
      await expectShown(watched, [...before, "And there?", "Plums."]);
      reply = () => textReply("Ferns.");
      await page.getByRole("button", { name: "Edit" }).last().click();
      await say(watched, "And in the shade?", "Send again");
      await expectShown(watched, [...before, "And in the shade?", "Ferns."]);
      await vi.waitFor(async () => expect(await picker(watched).allInnerTexts()).toEqual(["‹2 of 2›"]));

      // Its answer again: a third path.
      reply = () => textReply("Moss.");
      await page.getByRole("button", { name: "Answer again" }).click();
      await expectShown(watched, [...before, "And in the shade?", "Moss."]);
      await vi.waitFor(async () =>
        expect(await picker(watched).allInnerTexts()).toEqual(["‹2 of 2›", "‹2 of 2›"]),
      );
      const picture = process.env["PICTURE"]; // docs/pictures/use-chat.png
      if (picture) await page.locator("main").screenshot({ path: picture });

      // From one version to another, and it is still there after a reload.
      await picker(watched).first().getByRole("button", { name: "‹" }).click();
      await expectShown(watched, [...before, "And there?", "Plums."]);
      await page.reload();
      await expectShown(watched, [...before, "And there?", "Plums."]);
      expect(await picker(watched).allInnerTexts()).toEqual(["‹1 of 2›"]);

      // A reload in mid answer: all of it comes.
      const gate = gated();
      reply = async (_, isLooked) => {
        if (!isLooked) return toolReply([{ name: "look", input: {} }], { text: "Looking." });
        await gate.wait();
        return textReply("Cherries, all over the place.", { deltaLength: 4, deltaDelayMs: 5 });
      };
      await say(watched, "And up there?");
      await page.getByText("look: output-available").nth(1).waitFor();
      await gate.reached;
      await page.reload();
      const asked = [...before, "And there?", "Plums.", "And up there?", "Looking."];
      await expectShown(watched, asked);
      const requests = model.requests.length;
      gate.open();
      await expectShown(watched, [...asked, "Cherries, all over the place."]);
      expect(model.requests).toHaveLength(requests);

      // A server that is killed in mid answer: what was done is there, and the answer can be given again.
      const never = gated();
      reply = async (_, isLooked) => {
        if (isLooked) await never.wait();
        return toolReply([{ name: "look", input: {} }], { text: "Looking down." });
      };
      await say(watched, "And below?");
      await page.getByText("look: output-available").nth(2).waitFor();
      await never.reached; // so the step before is in the log
      await end(child, "SIGKILL");
      never.open();
      await page.getByRole("alert").waitFor();
      ({ child, url } = await start());
      await page.goto(url);
      const told = [...asked, "Cherries, all over the place.", "And below?"];
      await expectShown(watched, [...told, "Looking down."]);
      reply = () => textReply("Worms.");
      await page.getByRole("button", { name: "Answer again" }).click();
      await expectShown(watched, [...told, "Worms."]);

      expect(await end(child, "SIGTERM")).toBe(0);
      const session = await openSession("ada", { home, mode: "read" });
      expect(session.branches().length).toBeGreaterThan(3);
      await session.close();
      expect(model.requests.flatMap(({ problems }) => problems)).toEqual([]);
      // Of the killed server alone.
      expect(watched.troubles.filter((trouble) => !/ERR_|fetch|network/i.test(trouble))).toEqual([]);
    } finally {
      await browser.close();
    }
  },
);

/** A gate: `reached` resolves when somebody waits at it. */
function gated() {
  let open = () => {};
  let reach = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  const reached = new Promise<void>((resolve) => {
    reach = resolve;
  });
  const wait = () => {
    reach();
    return opened;
  };
  return { open, reached, wait };
}

test("the page and its server are short", () => {
  const linesOf = (name: string) =>
    readFileSync(join(example, name), "utf8")
      .split("\n")
      .filter((line) => line.trim());
  expect(linesOf("chat.ts").length).toBeLessThanOrEqual(80);
  expect(linesOf("page.tsx").length).toBeLessThanOrEqual(130);
  expect(linesOf("server.ts").length).toBeLessThanOrEqual(60);
});
