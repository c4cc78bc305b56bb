import { existsSync, lstatSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { Agent } from "@espalier/agent";
import { listSessions, openSession, searchSessions } from "@espalier/engine";
import { messageText, redactFolder } from "@espalier/session-tree";
import type { ViewerSessions } from "@espalier/viewer";
import { type Command, CommanderError, InvalidArgumentError } from "commander";
import { runChat } from "../chat/chat-loop.ts";
import { toldBy } from "../chat/chat-view.ts";
import { type ChatChoices, openConversation } from "../chat/conversation.ts";
import { playDemo, withDemoSource } from "../demo/play-demo.ts";
import { CommandError } from "../failure.ts";
import { renderMarkdown } from "../markdown/markdown.ts";
import {
  askAboutProject,
  heard,
  refuseForeign,
  sessionNamed,
  storeInUse,
  storeOf,
  summarizing,
  tellSkipped,
  toChange,
} from "../opening.ts";
import { jsonLine, print, type Shell } from "../shell.ts";
import { plainLine } from "../text.ts";
import { VIEWER_PAGE } from "../write-export.ts";

interface OpenCommandOptions {
  ascii?: boolean;
}

/** The terminal's interface, which is also what `espalier` and `espalier <session>` mean. */
export function addOpen(program: Command, shell: Shell): void {
  program
    .command("open [session]", { isDefault: true })
    .description("find, read and change sessions on the terminal; `espalier` alone does the same")
    .option("--ascii", "draw with - and | instead of lines")
    .addHelpText("after", "\nExamples:\n  espalier\n  espalier session.jsonl\n  espalier open 3kq7 --ascii")
    .action(async (ref: string | undefined, { ascii = false }: OpenCommandOptions) => {
      const isTerminal = process.stdin.isTTY === true && process.stdout.isTTY === true && !shell.json;
      const file = ref === undefined ? undefined : await fileOf(shell, ref, program.args[0] === "open");
      // What to print without a terminal is the same as for no command at all.
      if (ref === undefined && !isTerminal) throw new CommanderError(2, "commander.help", "(outputHelp)");
      if (!isTerminal)
        throw new CommandError(
          "usage",
          `There is no terminal to open ${ref} on; \`espalier tree ${ref}\` prints it.`,
        );
      const { openTerminal } = await import("../terminal/open-terminal.ts");
      await askAboutProject(shell);
      await openTerminal(shell, { ascii, ...(file === undefined ? {} : { ref: file }) });
    });
}

/** What a session is kept under. A word that is none was meant as a command, unless somebody said that it is one. */
async function fileOf(shell: Shell, ref: string, isNamed: boolean): Promise<string> {
  const isFile = !shell.store && existsSync(ref);
  try {
    const log = await storeInUse(shell).open(await sessionNamed(shell.store, ref), "read");
    await log.close();
    if (isFile && !log.header) await refuseForeign(ref);
    return log.ref;
  } catch (error) {
    if (isFile) throw error;
    if (isNamed || ref.includes("/")) throw error;
    throw new CommanderError(2, "commander.unknownCommand", `error: unknown command '${ref}'`);
  }
}

interface ServeCommandOptions {
  write?: boolean;
  port?: number;
}

export function addServe(program: Command, shell: Shell): void {
  program
    .command("serve [place]")
    .description(
      "show sessions in a browser of this machine, live; a folder's, one file, or Espalier's and Pi's own",
    )
    .option("--write", "let the page navigate, fork, label and compact")
    .option("--port <port>", "the port; by default one that is free", parsePort)
    .addHelpText(
      "after",
      `
The address that is printed holds a token: who has it may read these sessions. Ctrl-C ends the server.

Examples:
  espalier serve
  espalier serve ~/old-sessions --port 7777
  espalier serve session.jsonl --write`,
    )
    .action(async (place: string | undefined, options: ServeCommandOptions) => {
      if (place !== undefined && !existsSync(place))
        throw new CommandError("not-found", `There is no file or folder ${place}; check the path.`);
      if (place !== undefined) refuseOddPlace(place);
      const { serveViewer } = await import("@espalier/viewer");
      const server = await serveViewer({ ...options, sessions: sessionsAt(shell, place), page: VIEWER_PAGE });
      await print(shell, { url: server.url }, () => [server.url]);
      await shell.output.flush();
      await untilInterrupted();
      await server.close();
    });
}

/** A folder may be a link. A session's file may not: no list follows it. */
function refuseOddPlace(place: string): void {
  if (statSync(place).isDirectory() || lstatSync(place).isFile()) return;
  const problem = lstatSync(place).isSymbolicLink()
    ? "is a symbolic link, which is not followed; name the file it leads to"
    : "is neither a folder nor a session's file; name one of these";
  throw new CommandError("usage", `${place} ${problem}.`);
}

/** What is shown: a folder's sessions, the one in a file, or all there are. */
function sessionsAt(shell: Shell, place: string | undefined): ViewerSessions {
  const path = place === undefined ? undefined : resolve(place);
  const isFile = path !== undefined && statSync(path).isFile();
  const folder = path === undefined ? storeOf(shell) : { folder: isFile ? resolve(path, "..") : path };
  const where = path === undefined ? storeOf(shell) : isFile ? { files: [path] } : { folder: path };
  // Pages ask for the list again and again: each place is told once.
  const places = new Set<string>();
  const told: ReturnType<typeof tellSkipped> = {
    onSkipped(place, { message }) {
      if (!places.has(place)) shell.complain(message);
      places.add(place);
    },
  };
  return {
    async *list() {
      for await (const session of listSessions({ ...folder, ...told, subAgents: true }))
        if (!isFile || session.ref === path) yield session;
    },
    read: (ref) => openSession({ file: ref }, { ...heard(shell), mode: "read" }),
    write: (ref, { beside }) =>
      openSession({ file: ref }, { ...toChange(shell, !beside), ...(beside ? { lease: false } : {}) }),
    search: (query, signal) => searchSessions(query, { ...where, ...told, signal }),
  };
}

const untilInterrupted = (): Promise<void> =>
  new Promise((end) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => end());
  });

function parsePort(text: string): number {
  const port = Number(text);
  if (Number.isInteger(port) && port >= 0 && port < 65_536) return port;
  throw new InvalidArgumentError("It is a number from 0 to 65535: 7777.");
}

interface ChatOptions {
  print?: string;
  continue?: boolean;
  model?: string;
}

export function addChat(program: Command, shell: Shell): void {
  program
    .command("chat [session]")
    .description("talk with Claude in a session: a new one, or one that goes on")
    .option("-c, --continue", "go on with the newest session of this folder")
    .option("-p, --print <prompt>", "send one prompt, print the answer, and leave")
    .option("--model <id>", "who answers; by default who answered last")
    .addHelpText(
      "after",
      `
Needs ANTHROPIC_API_KEY. With --print and --json the events of the run, one a line; when nobody reads them any more, the run is aborted.

Examples:
  espalier chat
  espalier chat --continue
  espalier chat --print "What does this folder hold?"
  espalier chat session.jsonl --model claude-haiku-4-5`,
    )
    .action(async (ref: string | undefined, { print, continue: goesOn, model }: ChatOptions) => {
      if (!process.env["ANTHROPIC_API_KEY"]) {
        throw new CommandError(
          "no-key",
          "Chatting needs a key: set ANTHROPIC_API_KEY to one of Claude's API.",
        );
      }
      if (print === undefined && (!shell.interactive || !process.stdout.isTTY))
        throw new CommandError("usage", "There is no terminal to talk in; give --print PROMPT.");
      const place = ref ?? (goesOn ? await newestHere(shell) : undefined);
      const choices = model === undefined ? {} : { model };
      await (print === undefined ? runChat(shell, place, choices) : answerOne(shell, place, choices, print));
    });
}

/** One prompt and its answer: as markdown is, or, for a person, as it looks; with --json everything that happens. */
async function answerOne(
  shell: Shell,
  ref: string | undefined,
  choices: ChatChoices,
  prompt: string,
): Promise<void> {
  const { session, agent } = await openConversation(shell, ref, choices);
  const interrupt = () => agent.abort();
  process.on("SIGINT", interrupt);
  try {
    const answer = await (shell.json ? toldRun(shell, agent, prompt) : agent.run(prompt));
    if (!answer || answer.stopReason === "aborted")
      throw new CommandError("aborted", "The answer was aborted.");
    if (answer.stopReason === "error")
      throw new CommandError("model", toldBy(answer.errorMessage ?? "The model failed without a word."));
    if (shell.json) return;
    const text = messageText(answer);
    const lines = process.stdout.isTTY ? renderMarkdown(text, shell) : [text];
    await shell.output.writeLine(lines.join("\n"));
  } finally {
    process.off("SIGINT", interrupt);
    await session.close();
  }
}

/** A run of which every event is printed when it happens. Where nobody reads them any more, it ends. */
async function toldRun({ output }: Shell, agent: Agent, prompt: string) {
  let told = Promise.resolve();
  agent.on((event) => {
    const line = jsonLine(event);
    told = told.then(() => output.writeLine(line)).then(() => output.flush());
    told.catch(() => agent.abort());
  });
  try {
    return await agent.run(prompt);
  } finally {
    await told;
  }
}

async function newestHere(shell: Shell): Promise<string> {
  const here = redactFolder(process.cwd());
  for await (const { ref, cwd } of listSessions({ ...storeOf(shell), ...tellSkipped(shell) }))
    if (cwd === here || cwd === process.cwd()) return ref;
  throw new CommandError("not-found", "There is no session of this folder yet; `espalier chat` begins one.");
}

/** The session that travels with the command; it lies beside the bundle. */
const BUNDLED = fileURLToPath(new URL("assets/demo-session.jsonl", import.meta.url));

export function addDemo(program: Command, shell: Shell): void {
  program
    .command("demo [file]")
    .description("see it all on a session: yours, or one that is made for it; works on a copy")
    .addHelpText("after", "\nExamples:\n  espalier demo\n  espalier demo session.jsonl")
    .action(async (file: string | undefined) => {
      if (file === undefined)
        return playDemo(shell, { ref: BUNDLED, name: "the session that comes with espalier" });
      if (shell.store) return playDemo(shell, { ref: file });
      return withDemoSource(file, (source) => playDemo(shell, source));
    });
}

export function addRun(program: Command, shell: Shell): void {
  program
    .command("run <session> [command] [args...]")
    .description("run a command that an extension registers; without one, list them")
    .addHelpText(
      "after",
      `
Examples:
  espalier run session.jsonl --extension bookmark.ts
  espalier run session.jsonl bookmark "before the cache" --extension bookmark.ts`,
    )
    .action((ref: string, name: string | undefined, args: string[]) =>
      summarizing(shell, ref, async (session) => {
        if (name === undefined) {
          const commands = session.commands.map(({ name, description, owner }) => ({
            name,
            description,
            owner,
          }));
          await print(shell, { commands }, () =>
            commands.length === 0
              ? ["No extension registers a command; name its file with --extension."]
              : commands.map(({ name, description }) => plainLine(`${name.padEnd(20)} ${description}`)),
          );
          return;
        }
        await session.runCommand(name, args.join(" "));
        await print(shell, { command: name, leafId: session.leafId }, () => []);
      }),
    );
}
