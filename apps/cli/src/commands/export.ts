import { basename, resolve } from "node:path";
import type { Session } from "@espalier/engine";
import {
  type ExportFormat,
  exportNative,
  exportSession,
  type FormatIssue,
  type NativeAgent,
  nativeAgents,
  omittedEntries,
} from "@espalier/interop";
import { type ContinuedSession, continueSession } from "@espalier/interop/node";
import { redactText } from "@espalier/session-tree";
import { type AddCommand, sessionCommand } from "../command.ts";
import { entryNamed } from "../entry-reference.ts";
import { CommandError } from "../failure.ts";
import { formatCount, formatMany } from "../numbers.ts";
import { phrase, plainLine, plainText } from "../text.ts";
import { exportHtml, writeExport } from "../write-export.ts";

type Format = ExportFormat | NativeAgent | "html";

interface ExportCommandOptions {
  format?: Format;
  at?: string;
  all?: boolean;
  redact?: boolean;
  out?: string;
}

/** Formats with the endings of their files. A file that the user does not name gets the first ending. */
const ENDINGS: Record<Format, readonly [string, ...string[]]> = {
  html: ["html", "htm"],
  markdown: ["md", "markdown"],
  json: ["json"],
  jsonl: ["copy.jsonl", "jsonl"],
  anthropic: ["anthropic.json"],
  openai: ["openai.json"],
  "openai-responses": ["openai-responses.json"],
  "ai-sdk": ["ai-sdk.json"],
  "claude-code": ["claude-code.jsonl"],
  codex: ["codex.jsonl"],
  pi: ["pi.jsonl"],
};

const FORMATS = Object.keys(ENDINGS) as Format[];

/** Formats that contain the whole session, unless the user asks for one path. */
const HOLDS_ALL: ReadonlySet<string> = new Set(["html", "json", "jsonl"]);

/** @throws CommandError `usage` for a file whose ending names no format, and for no file */
function formatOf({ format, out }: ExportCommandOptions): Format {
  if (format !== undefined) return format;
  const name = `.${basename(out ?? "").toLowerCase()}`;
  const [longest] = FORMATS.flatMap((format) => ENDINGS[format].map((ending) => ({ format, ending })))
    .filter(({ ending }) => name.endsWith(`.${ending}`))
    .sort((a, b) => b.ending.length - a.ending.length);
  if (longest) return longest.format;
  const choices = FORMATS.join(", ");
  throw new CommandError(
    "usage",
    out === undefined
      ? `Name a format with --format, or a file with --out, for example --out session.md. Formats are ${choices}.`
      : `The ending of ${out} is not that of a format: use .md, .html, .json or .jsonl, or add --format. Formats are ${choices}.`,
  );
}

/** Options of the engine for `--at` and `--redact`. */
const pathOptions = (session: Session, at: string | undefined, redact = false) => ({
  ...(at === undefined ? {} : { at: entryNamed(session, at) }),
  ...(redact ? { redact: redactText } : {}),
});

/**
 * Names the entries of the session that an export leaves out, and the option that includes them; empty if there are
 * none, and for the session file of another agent.
 */
function viewOmitted(session: Session, format: Format, { at, all }: ExportCommandOptions): string[] {
  if (isNative(format)) return [];
  const end = pathOptions(session, at);
  const omitted = omittedEntries(session, { format: format === "html" ? "jsonl" : format, all, ...end });
  if (omitted.length === 0) return [];
  const cure =
    format === "markdown" ? "--all writes all branches and bookkeeping" : "omit --at to write all entries";
  return [`Left out: ${omitted.join(" and ")}; ${cure}.`];
}

/** Throws `usage` for `--all` with a format in which it has no effect. */
function refuseNeedlessAll(options: ExportCommandOptions): void {
  const { all } = options;
  const format = formatOf(options);
  if (!all || format === "markdown") return;
  const why = HOLDS_ALL.has(format)
    ? `${format} always has all branches`
    : `${isNative(format) ? "such a session" : "a request"} has one path, which --at selects`;
  throw new CommandError("usage", `Leave out --all, which is only for markdown: ${why}.`);
}

/** Makes the pieces of an export. `issues` receives the losses in a session file of another agent. */
async function exportPieces(
  session: Session,
  { format, at, all, redact }: ExportCommandOptions & { format: Format },
  issues: FormatIssue[],
): Promise<Generator<string, number>> {
  const options = pathOptions(session, at, redact);
  if (format === "html") return exportHtml(session, options);
  if (!isNative(format)) return exportSession(session, { format, all, ...options });
  return (function* () {
    const report = yield* exportNative(session, { agent: format, ...options });
    issues.push(...report.issues);
    return report.entries;
  })();
}

const isNative = (format: string): format is NativeAgent => (nativeAgents as string[]).includes(format);

/** Lists the differences between the path and another agent's file, one per line. */
const viewLosses = (issues: readonly FormatIssue[]): string[] =>
  issues.map(({ kind, message, count }) => plainLine(`${kind.padEnd(8)} ${message} (${formatCount(count)})`));

/** Describes a session file for another agent: its size and place, the differences, and the command that continues it. */
export const viewContinued = (
  { file, command, entries, issues }: ContinuedSession,
  dim: (text: string) => string = (text) => text,
): string[] => [
  `${formatMany(entries, "entry", "entries")} written to ${plainLine(file)}.`,
  ...viewLosses(issues).map(dim),
  command === null
    ? "Codex only finds files in its own folder of sessions: move the file there."
    : `Continue with: ${plainLine(command)}`,
];

/** Commands that write a session for other programs. */
export const exportCommands: readonly AddCommand[] = [
  sessionCommand({
    usage: "export <session>",
    description: "export a session for people, for other programs, or as a provider's request",
    options: [
      ["--format <format>", "format of the export; by default the one of the file's ending", FORMATS],
      [
        "--at <id>",
        "export the path to this entry; by default that of the leaf, and for html, json and jsonl all entries",
      ],
      ["--all", "for markdown: include all branches and bookkeeping; html, json and jsonl always do"],
      ["--redact", "leave out well-known keys and tokens"],
      [
        "--out <file>",
        "file to write, with access for you only; by default the export is printed (html only to a pipe)",
      ],
    ],
    notes: `With --json and no --out the file is named after the session, in this folder. A session is never overwritten.
${phrase(nativeAgents, "and")} are the session files of these agents; \`espalier continue\` writes one where the agent finds it.`,
    examples: [
      "espalier export session.jsonl --out session.md --all",
      "espalier export session.jsonl --format markdown | less",
      "espalier export session.jsonl --format html --redact --out session.html",
      "espalier export session.jsonl --format anthropic --at before-cache",
      "espalier export session.jsonl --format codex --out rollout.jsonl",
    ],
    use(options) {
      refuseNeedlessAll(options);
      return "tree";
    },
    async run({ session, shell, options }) {
      const { out } = options;
      const format = formatOf(options);
      const omitted = () => viewOmitted(session, format, options);
      // HTML is not readable on a screen.
      if (format === "html" && out === undefined && Number.isFinite(shell.columns) && !shell.json)
        throw new CommandError(
          "usage",
          `HTML is for a browser: name a file with --out, for example --out ${basename(session.file, ".jsonl")}.html.`,
        );
      const issues: FormatIssue[] = [];
      const pieces = await exportPieces(session, { ...options, format }, issues);
      if (out === undefined && !shell.json) {
        // A screen gets plain text; a pipe or a file gets the document itself.
        const isScreen = Number.isFinite(shell.columns);
        for (const piece of pieces) await shell.output.write(isScreen ? plainText(piece) : piece);
        for (const line of [...viewLosses(issues), ...omitted()]) shell.complain(line);
        return;
      }
      const file = out ?? `${basename(session.file, ".jsonl")}.${ENDINGS[format][0]}`;
      const written = writeExport(file, pieces, "--out");
      for (const line of omitted()) shell.complain(line);
      const count = formatMany(written.entries, "entry", "entries");
      return {
        value: isNative(format) ? { ...written, issues } : written,
        lines: [`${count} written to ${plainLine(written.file)}.`, ...viewLosses(issues)],
      };
    },
  }),
  sessionCommand({
    usage: "continue <session>",
    description: `continue a session in another agent: ${phrase(nativeAgents, "or")}`,
    options: [
      ["--in <agent>", "the agent that continues the session", nativeAgents, { isRequired: true }],
      ["--at <id>", "continue from this entry; by default from the leaf"],
      ["--cwd <folder>", "the folder to work in; by default the session's"],
      ["--redact", "leave out well-known keys and tokens"],
      ["--out <file>", "write this file instead of one among the agent's own sessions"],
    ],
    notes: `Writes a session file of the agent and prints the command that continues it. The file has one path, with its
compactions in the agent's own form. Content that it cannot hold is listed. No file is overwritten, and the session here
does not change. The agent's folder is the one that \`espalier import\` reads: CLAUDE_CONFIG_DIR, CODEX_HOME and
PI_CODING_AGENT_SESSION_DIR change it.`,
    examples: [
      "espalier continue session.jsonl --in codex",
      "espalier continue 11111111 --in claude-code --at before-cache",
      "espalier continue session.jsonl --in pi --out /tmp/pi.jsonl --json | jq -r .command",
    ],
    use: "tree",
    async run({ session, shell, options }) {
      const { in: agent, at, cwd, redact, out } = options;
      const continued = continueSession(session, {
        agent,
        ...pathOptions(session, at, redact),
        cwd: cwd === undefined ? undefined : resolve(cwd),
        out,
      });
      const lines = viewContinued(continued, shell.colours.dim);
      // The command is not broken, because a line break would end it when it is pasted.
      return { value: continued, lines: lines.slice(0, -1), text: lines.at(-1)! };
    },
  }),
];
