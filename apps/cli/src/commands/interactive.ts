// Separate from program.ts: each group of commands has a file.
import { once } from "node:events";
import { existsSync, lstatSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { Agent } from "@espalier/agent";
import { listSessions, missingKey, openSession, searchSessions } from "@espalier/engine";
import { describeFound, foundSessions } from "@espalier/interop/node";
import { messageText, redactFolder } from "@espalier/session-tree";
import type { ViewerSessions } from "@espalier/viewer";
import { type Command, CommanderError } from "commander";
// Only types: the installation is loaded when it is used.
import type { AgentName } from "../agents/agents.ts";
import type { InstallPlan } from "../agents/install.ts";
import type { ChatChoices } from "../chat/conversation.ts";
import { type AddCommand, type Answer, command, sessionCommand } from "../command.ts";
import { CommandError, unknownCommand } from "../failure.ts";
import { renderMarkdown } from "../markdown/markdown.ts";
import { isWhole, numberParser } from "../numbers.ts";
import {
  askAboutProject,
  currentSettings,
  optionsFor,
  refuseForeign,
  sessionNamed,
  storeInUse,
  storeOf,
  tellSkipped,
  withLog,
} from "../opening.ts";
import { jsonLine, print, type Shell } from "../shell.ts";
import { AGENTS_IN_PLACE, IMPORTED_AGENTS, phrase, plainLine, plainText } from "../text.ts";
import { VIEWER_PAGE } from "../write-export.ts";

/**
 * Returns the file or name of a session. A word that names no session is reported as an unknown command, unless it
 * follows `open`, has a `/`, or is a file.
 */
async function fileOf(shell: Shell, ref: string, program: Command): Promise<string> {
  const isFile = !shell.store && existsSync(ref);
  try {
    const named = await sessionNamed(shell.store, ref);
    const { header, ref: file } = await withLog(storeInUse(shell), named, (log) => log);
    if (isFile && !header) refuseForeign(ref);
    return file;
  } catch (error) {
    if (isFile) throw error;
    if (program.args[0] === "open" || ref.includes("/")) throw error;
    throw unknownCommand(ref, program);
  }
}

const parsePort = numberParser((port) => isWhole(port, 0, 65_535), "a port (0–65535), for example 7777");

/** Sessions that are served: of a folder or of all places; with `only`, a single one of them. */
interface ServedPlace {
  folder?: string;
  only?: string;
}

/** Returns the place that a word names: a folder, a session's file, or the id of a session. */
async function placeNamed(shell: Shell, word: string): Promise<ServedPlace> {
  if (existsSync(word)) {
    refuseOddPlace(word);
    const path = resolve(word);
    return statSync(path).isFile() ? { folder: dirname(path), only: path } : { folder: path };
  }
  if (/[/\\]|\.jsonl$/.test(word))
    throw new CommandError("not-found", `There is no file or folder ${word}; check the path.`);
  const named = await sessionNamed(shell.store, word);
  const only = await withLog(storeInUse(shell), named, ({ ref }) => ref);
  return shell.store ? { only } : { folder: dirname(only), only };
}

/**
 * Throws `usage` for a symbolic link to a session's file, because lists do not follow such links; a folder may be a
 * link. Also for a place that is neither a file nor a folder.
 */
function refuseOddPlace(place: string): void {
  if (statSync(place).isDirectory() || lstatSync(place).isFile()) return;
  const problem = lstatSync(place).isSymbolicLink()
    ? "is a symbolic link, which is not followed; name the file it leads to"
    : "is neither a folder nor a session's file; name one of these";
  throw new CommandError("usage", `${place} ${problem}.`);
}

function sessionsAt(shell: Shell, { folder: path, only }: ServedPlace): ViewerSessions {
  const folder = path === undefined ? storeOf(shell) : { folder: path };
  return {
    async *list(filter) {
      for await (const session of listSessions({
        ...folder,
        ...tellSkipped(shell),
        ...filter,
        subAgents: true,
      }))
        if (only === undefined || session.ref === only) yield session;
    },
    read: (ref) => openSession({ file: ref }, optionsFor.read(shell)),
    plan: (ref) => openSession({ file: ref }, optionsFor.plan(shell)),
    isFinding: async () => (await currentSettings(shell)).values.rules,
    ...(path === undefined && only === undefined ? { found: () => describeFound(foundSessions()) } : {}),
    write: (ref, { beside }) =>
      openSession({ file: ref }, optionsFor[beside ? "annotate" : "summarize"](shell)),
    search: (query, { file, ...options }) => searchSessions(query, { ...folder, files: [file], ...options }),
  };
}

const untilInterrupted = (): Promise<unknown> =>
  Promise.race(["SIGINT", "SIGTERM"].map((signal) => once(process, signal)));

/**
 * Prints the address of a server, and closes the server when the user ends the command.
 *
 * @param address the address for people, if it differs from that for programs
 */
async function runServer(
  shell: Shell,
  server: { url: string; close(): Promise<void> },
  address = server.url,
): Promise<void> {
  await print(shell, { url: server.url }, [address]);
  await shell.output.flush();
  await untilInterrupted();
  await server.close();
}

/**
 * Prints the answer to one prompt: on a terminal as rendered markdown, elsewhere as plain text; with `--json`, every
 * event of the run.
 * @throws CommandError `aborted`, or `model` if the model failed
 */
async function answerOne(shell: Shell, ref: string | undefined, choices: ChatChoices, prompt: string) {
  const { openConversation, providerMessage } = await import("../chat/conversation.ts");
  const { session, agent, address } = await openConversation(shell, ref, choices);
  const interrupt = () => agent.abort();
  process.on("SIGINT", interrupt);
  try {
    const answer = await (shell.json ? printedRun(shell, agent, prompt) : agent.run(prompt));
    if (!answer || answer.stopReason === "aborted")
      throw new CommandError("aborted", "The answer was aborted.");
    if (answer.stopReason === "error")
      throw new CommandError(
        "model",
        providerMessage(answer.errorMessage ?? "The model failed without a message.", address),
      );
    if (shell.json) return;
    const text = messageText(answer);
    const lines = process.stdout.isTTY ? renderMarkdown(text, shell) : [text];
    await shell.output.writeLine(lines.join("\n"));
  } finally {
    process.off("SIGINT", interrupt);
    await session.close();
  }
}

/** Runs a prompt and prints each event at once; aborts the run when the output is closed. */
async function printedRun({ output }: Shell, agent: Agent, prompt: string) {
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
  throw new CommandError("not-found", "This folder has no session yet; `espalier chat` creates one.");
}

/** Names of the agents, repeated here so that their table is loaded only when it is used. */
const AGENTS: readonly AgentName[] = ["claude-code", "codex", "pi"];

const agentCommand = (verb: "install" | "uninstall", description: string, examples: readonly string[]) =>
  command({
    usage: `${verb} <agent>`,
    description,
    argument: ["the agent", AGENTS],
    options: [["--dry-run", "print the changes as a diff, and change nothing"]],
    notes: NOTES,
    examples,
    async run({ options: { dryRun = false } }, name) {
      const [{ agentNamed }, { planInstall, planUninstall, carryOut, diffOf }] = await Promise.all([
        import("../agents/agents.ts"),
        import("../agents/install.ts"),
      ]);
      const agent = agentNamed(name as AgentName);
      const plan = verb === "install" ? planInstall(agent) : planUninstall(agent);
      if (!dryRun) carryOut(plan);
      // Espalier's own files are written first and shown last: a user looks for the agent's settings.
      const diff = () => plan.changes.toReversed().flatMap(diffOf);
      return answerOf(verb, plan, dryRun ? diff() : undefined);
    },
  });

const NOTES = `In Claude Code: a plugin (hooks, the server of \`espalier mcp\`, a skill) and a status line, unless you have one. In Codex:
hooks and the server. In Pi: a package. All other bytes of the agent's settings files stay the same. \`uninstall\` restores
the files, or removes only these keys if the files were changed since. It removes notes and caches too, and keeps sessions.
Errors of hooks are in ~/.espalier/agents/hooks/hooks.log.`;

function answerOf(
  verb: "install" | "uninstall",
  { agent: { name, label }, changes, removed, notes }: InstallPlan,
  diff: string[] | undefined,
): Answer {
  const changed = changes.filter(({ before, after }) => before !== after);
  const gone = removed.map((file) => ({ file, change: "delete" }));
  const files = [
    ...changed.map(({ file, before, after }) => ({
      file,
      change: before === undefined ? "create" : after === undefined ? "delete" : "change",
    })),
    ...gone,
  ];
  const lineOf = ({ file, change }: (typeof files)[number]) => `${change.padEnd(6)} ${plainLine(file)}`;
  const isDone = files.length === 0;
  const state = verb === "install" ? "installed" : isDone ? "not installed" : "no longer installed";
  const sentence = `Espalier is ${state} in ${label}${isDone ? "; nothing was changed" : ""}.`;
  const told = isDone ? [] : notes;
  return {
    value: { agent: name, files, notes: told, diff },
    lines: diff
      ? isDone
        ? ["Nothing would be changed."]
        : [...diff.map(plainText), ...gone.map(lineOf)]
      : [...files.map(lineOf), sentence, ...told],
  };
}

/** Commands that install Espalier in other agents, and the server that these agents start. */
export const agentCommands: readonly AddCommand[] = [
  // A server of recorded sessions for agents. In the help it is listed with the commands for other agents.
  command({
    usage: "mcp",
    description: "give an agent recall and search of recorded sessions, by the Model Context Protocol",
    options: [
      ["--http", "serve over HTTP on this machine alone, instead of stdin and stdout"],
      ["--port <port>", "the port for --http; by default a free one", parsePort],
      ["--no-import", `do not import sessions of ${IMPORTED_AGENTS}`],
    ],
    notes: `An agent starts it in the folder of its project and asks over stdin and stdout. Its tools: recall, search_sessions,
read_entries, tree, diff_branches, rules, stats, and label, the only one that writes. Sessions of ${IMPORTED_AGENTS}
are imported while it runs, those of ${AGENTS_IN_PLACE} are read where they are. With --http the printed address holds a token, which lets
its holder read all sessions; ESPALIER_MCP_TOKEN sets it, so that the address stays.`,
    examples: [
      "claude mcp add espalier -- espalier mcp",
      "codex mcp add espalier -- espalier mcp",
      "espalier mcp --http --port 7777",
    ],
    async run({ shell, options: { http = false, port, import: imports } }) {
      if (port !== undefined && !http)
        throw new CommandError("usage", "--port needs --http; add --http, or leave --port out.");
      const token = process.env["ESPALIER_MCP_TOKEN"];
      if (token !== undefined && !/^[\w-]{16,200}$/.test(token))
        throw new CommandError("usage", "ESPALIER_MCP_TOKEN needs 16 to 200 letters, digits, - or _.");
      const { createHandler, HostSessions, serveOnStdio, serveOverHttp } = await import("../mcp/server.ts");
      const folder = process.env["CLAUDE_PROJECT_DIR"] ?? process.cwd();
      const sessions = new HostSessions({ shell, folder, env: process.env, imports });
      sessions.start();
      try {
        if (!http) return await serveOnStdio(sessions, untilInterrupted());
        await runServer(shell, await serveOverHttp(createHandler(sessions), { port, token }));
      } finally {
        await sessions.close();
      }
    },
  }),
  agentCommand("install", `install recall, rules and imports in another agent: ${phrase(AGENTS, "or")}`, [
    "espalier install claude-code --dry-run",
    "espalier install codex",
  ]),
  agentCommand("uninstall", "remove Espalier from another agent", ["espalier uninstall claude-code"]),
] as const;

/** Commands that run until the user ends them, or run other code: terminal, browser, chat, extension. */
export const interactiveCommands: readonly AddCommand[] = [
  // The terminal's interface. `espalier` and `espalier <session>` open it too.
  command({
    usage: "open [session]",
    isDefault: true,
    description: "find, read and change sessions in the terminal; `espalier` alone does the same",
    options: [["--ascii", "draw with - and | instead of lines"]],
    examples: ["espalier", "espalier session.jsonl", "espalier open 3kq7 --ascii"],
    async run({ shell, program, options: { ascii = false } }, ref) {
      const isDumb = process.env["TERM"] === "dumb";
      const isTerminal =
        process.stdin.isTTY === true && process.stdout.isTTY === true && !isDumb && !shell.json;
      const file = ref === undefined ? undefined : await fileOf(shell, ref, program);
      // Without a terminal the help is printed, as by commander without a command.
      if (ref === undefined && !isTerminal) throw new CommanderError(2, "commander.help", "(outputHelp)");
      if (!isTerminal) {
        const needed = isDumb ? "a terminal that moves its cursor, and TERM is dumb" : "a terminal";
        throw new CommandError(
          "usage",
          `Opening ${ref} needs ${needed}; \`espalier tree ${ref}\` prints it.`,
        );
      }
      const { openTerminal } = await import("../terminal/open-terminal.ts");
      await askAboutProject(shell);
      await openTerminal(shell, file, ascii);
    },
  }),
  command({
    usage: "chat [session]",
    description: "talk with a model in a new session or an existing one",
    options: [
      ["-c, --continue", "continue the newest session of this folder"],
      ["-p, --print <prompt>", "send one prompt, print the answer, and exit"],
      ["--model <id>", "a model of Claude, or openai:MODEL; by default the last model of the session"],
    ],
    notes: `In the chat, /help lists its commands and keys; Esc aborts an answer. Needs ANTHROPIC_API_KEY, or OPENAI_API_KEY for
OpenAI; OPENAI_BASE_URL names another server that speaks its API, such as http://localhost:11434/v1. With --print and --json
the events of the run are printed, one a line; when their reader closes the pipe, the run is aborted.`,
    examples: [
      "espalier chat",
      "espalier chat --continue",
      'espalier chat --print "What does this folder hold?"',
      "espalier chat session.jsonl --model claude-haiku-4-5",
      "OPENAI_BASE_URL=http://localhost:11434/v1 espalier chat --model openai:qwen3",
    ],
    async run({ shell, options }, ref) {
      const { print, continue: isContinued, model } = options;
      const { noKey } = await import("../chat/conversation.ts");
      // No session is created when no model can answer. An existing session names its model, so its settings are read
      // later.
      const { values } = await currentSettings(shell);
      const missing =
        ref === undefined && !isContinued
          ? missingKey(model ?? "anthropic", { settings: values })
          : undefined;
      if (missing) throw noKey(missing);
      if (print === undefined && (!shell.interactive || !process.stdout.isTTY))
        throw new CommandError("usage", "The chat needs a terminal; without one, use --print PROMPT.");
      const place = ref ?? (isContinued ? await newestHere(shell) : undefined);
      const choices = model === undefined ? {} : { model };
      if (print !== undefined) return answerOne(shell, place, choices, print);
      const { runChat } = await import("../chat/chat.ts");
      await runChat(shell, place, choices);
    },
  }),
  command({
    usage: "serve [place]",
    description:
      "show sessions live in a browser of this machine: of a folder, one session, or by default all of Espalier and Pi",
    options: [
      ["--write", "allow the page to navigate, fork, label and compact"],
      ["--port <port>", "the port; by default a free one", parsePort],
    ],
    notes:
      "Anyone with the printed address can read these sessions, because it contains a token. Ctrl-C stops the server.",
    examples: [
      "espalier serve",
      "espalier serve ~/old-sessions --port 7777",
      "espalier serve session.jsonl --write",
      "espalier serve 3kq7",
    ],
    async run({ shell, options }, place) {
      const served = place === undefined ? {} : await placeNamed(shell, place);
      const sessions = sessionsAt(shell, served);
      const { serveViewer } = await import("@espalier/viewer");
      const server = await serveViewer({ ...options, sessions, page: VIEWER_PAGE });
      let address: string | undefined;
      if (served.only) for await (const session of sessions.list()) address = server.addressOf(session);
      await runServer(shell, server, address);
    },
  }),
  sessionCommand({
    usage: "run <session> [command] [args...]",
    description: "run a command of an extension; without a name, list the commands",
    examples: [
      "espalier run session.jsonl --extension bookmark.ts",
      'espalier run session.jsonl bookmark "before the cache" --extension bookmark.ts',
    ],
    use: "summarize",
    async run({ session }, name, args) {
      if (name !== undefined) {
        await session.runCommand(name, args.join(" "));
        return { value: { command: name, leafId: session.leafId }, lines: [] };
      }
      const commands = session.commands.map(({ name, description, owner }) => ({ name, description, owner }));
      return {
        value: { commands },
        lines:
          commands.length === 0
            ? ["No extension registers a command; name its file with --extension."]
            : commands.map(({ name, description }) => plainLine(`${name.padEnd(20)} ${description}`)),
      };
    },
  }),
];
